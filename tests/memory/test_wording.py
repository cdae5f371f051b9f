"""The words in which models are asked have versions: a store keeps its own, new ones have the newest."""

from __future__ import annotations

from pathlib import Path

import pytest

from memkit import Memory
from memkit.engine.served_with import ServedWith
from memkit.errors import InvalidConfig
from memkit.roles import Answerer, Extractor, Fused, Manager, role_prompt_hashes
from memkit.roles.prompting import WORDINGS
from memkit.runtime import on_record
from memkit.seams.backbone import GenRequest, Replies
from tests.bench._scripted import Scripted

NEWEST = max(WORDINGS)
REPLIES = {"fused": '{"operations": []}', "extractor": "NONE", "answerer": '{"memories": [], "answer": "unknown"}'}


class Noting(Scripted):
    def __init__(self, style: str = "json") -> None:
        super().__init__(REPLIES, style=style)
        self.requests: list[GenRequest] = []

    def generate(self, requests: list[GenRequest]) -> Replies:  # pyright: ignore[reportIncompatibleMethodOverride]
        self.requests += requests
        return super().generate(requests)

    @property
    def last(self) -> str:
        return self.requests[-1].prompt.messages[-1].content

    def versions(self) -> set[str]:
        """Role and version, without the hash."""
        return {request.prompt.version.partition(":")[0] for request in self.requests}


def tell(path: Path, style: str = "json", *said: str, **config: int) -> Noting:
    model = Noting(style)
    with Memory(path, model=model, config=config) as memory:
        for text in said or ("I moved to Bergen.",):
            memory.add(text, user_id="ana", session_id="s")
    return model


def test_a_hosted_model_is_asked_in_the_newest_words_and_a_local_one_in_the_first(tmp_path: Path) -> None:
    assert tell(tmp_path / "hosted").versions() == {"fused/3"}
    assert tell(tmp_path / "local", "compact").versions() == {"extractor/1"}


def test_a_store_keeps_its_words_until_the_app_asks_for_others(tmp_path: Path) -> None:
    assert tell(tmp_path / "s", wording=1).versions() == {"fused/1"}
    assert tell(tmp_path / "s").versions() == {"fused/1"}
    assert tell(tmp_path / "s", wording=2).versions() == {"fused/2"}
    assert tell(tmp_path / "s").versions() == {"fused/2"}


def test_a_store_that_only_rules_decided_in_starts_with_the_newest(tmp_path: Path) -> None:
    with Memory(tmp_path / "s") as memory:
        memory.add("I moved to Bergen.", user_id="ana")
    assert tell(tmp_path / "s").versions() == {"fused/3"}


def test_a_store_keeps_the_rules_by_which_memories_are_chosen_for_its_answers(tmp_path: Path) -> None:
    tell(tmp_path / "s")
    assert edition(tmp_path / "s") == 2
    with Memory(tmp_path / "s") as memory:
        raw = served(memory).to_json()
        del raw["answer_edition"]  # as it was written when there was one edition
        on_record.record(memory._runtime.journal, ServedWith.of(raw))
    tell(tmp_path / "s")
    assert edition(tmp_path / "s") == 1
    tell(tmp_path / "s", wording=2)
    assert edition(tmp_path / "s") == 2
    tell(tmp_path / "local", "compact")
    assert edition(tmp_path / "local") == 1
    with pytest.raises(InvalidConfig, match="answers"):
        ServedWith.of(raw | {"answer_edition": 3})


def edition(path: Path) -> int:
    with Memory(path) as memory:
        return served(memory).answer_edition


def served(memory: Memory) -> ServedWith:
    found = on_record.served_with(memory._runtime.journal)
    assert found is not None
    return found


def test_words_of_an_unknown_version_are_refused_when_the_memory_is_opened(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match="version 7"):
        Memory(tmp_path / "s", config={"wording": 7})
    assert not (tmp_path / "s").exists()


def test_the_words_of_every_version_are_what_adapters_were_trained_on() -> None:
    """A change here is a change of version: old adapters are served with the words of their manifest."""
    assert role_prompt_hashes() == {
        "extractor": "extractor/1:4ee431971b3a",
        "manager": "manager/1:46b834e40985",
        "answerer": "answerer/1:2495b56489a0",
        "fused": "fused/1:c66e17c0dab4",
    }
    assert role_prompt_hashes(wording=2) == {
        "extractor": "extractor/2:5cfbccb78966",
        "manager": "manager/2:88fdbc49b856",
        "answerer": "answerer/2:a304af702480",
        "fused": "fused/2:ff8738069d8d",
    }
    assert {version.partition(":")[0] for version in role_prompt_hashes(wording=3).values()} == {
        "extractor/3",
        "manager/3",
        "answerer/3",
        "fused/3",
    }


def test_memories_are_asked_for_in_the_language_of_the_turn_and_answers_in_that_of_the_question() -> None:
    for role in (Extractor, Fused):
        assert "in the language of its turn" in role("", "json", NEWEST).system
    assert "in the language of each memory" in Manager("", "json", NEWEST).system
    assert "in the language of the question" in Answerer("", "json", NEWEST).system


def test_writer_and_answerer_count_relative_times_alike() -> None:
    texts = [role("", "json", NEWEST).system for role in (Extractor, Fused, Answerer)]
    rule = texts[0][texts[0].index("For a turn of Mon 8 May 2023") :].splitlines()[:2]
    assert all("\n".join(rule) in text for text in texts)


def test_what_was_asked_just_before_is_shown_whole(tmp_path: Path) -> None:
    asked = f"{'I have been thinking about it for a long time. ' * 8}Which colour shall I paint the door?"
    assert "Which colour shall I" in tell(tmp_path / "new", "json", asked, "Blue.").last
    assert "Which colour shall I" not in tell(tmp_path / "old", "json", asked, "Blue.", wording=1).last


def test_a_plan_that_was_dropped_is_told_as_dropped_not_deleted() -> None:
    """A deletion takes the words with it that the memory came from: then nobody finds that there was a plan."""
    for role in (Manager, Fused):
        (deletion,) = (line for line in role("", "json", NEWEST).system.split("\n- ") if "forgotten: DELETE" in line)
        assert "plan" not in deletion
        assert "over or dropped: UPDATE" in role("", "json", NEWEST).system
