"""The circle on next to nothing: every step happens, and what is said of it is what happened."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from memkit import Memory
from memkit.cli.demo import circle
from memkit.errors import InvalidInput, StoreFull
from memkit_train.gate.checks import Check, Limits, Verdict, gate
from memkit_train.lab.demo import chatbot, command, panel, story
from memkit_train.lab.demo.chatbot import AnsweredQuestion, Visit
from memkit_train.lab.worlds import Knobs, OracleBackbone, Truth, generate
from memkit_train.report import RunFolder
from memkit_train.retrain import run as retrain

LITTLE = replace(command.QUICK, users=12, panel=3, visitors=3)


def exchanges(right: list[bool], user: str = "u") -> list[AnsweredQuestion]:
    questions = generate(1, knobs=Knobs(questions=8))[0].questions
    return [AnsweredQuestion(user, one, "x", ok, None, None) for one, ok in zip(questions, right, strict=False)]


def test_a_gain_is_paired_by_question_and_a_panel_says_what_got_worse_too() -> None:
    before, after = exchanges([True, False, False, True]), exchanges([True, True, True, False])
    found = panel.compare(before, after[::-1])
    assert [pair.gain for pair in found.pairs] == [0, 1, 1, -1]
    assert (found.before.value, found.after.value) == (0.5, 0.75)
    assert [pair.gain for pair in panel.telling(found.pairs)] == [1, -1]


def test_the_chatbot_of_a_tiny_model_keeps_the_memories_that_it_was_trained_on_alone(tmp_path: Path) -> None:
    episodes = generate(1, knobs=Knobs(sessions=1, turns=3, probes=1))
    with chatbot.Chatbot(tmp_path / "s", OracleBackbone(Truth(episodes))) as bot:
        bot.serve(panel.visits(episodes, "before"))
        kinds = {op.after.kind for op in bot.memory._runtime.journal.ops() if op.after is not None}
    assert kinds == {"fact"}


def test_a_story_begins_in_an_empty_folder(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("x")
    with pytest.raises(InvalidInput, match="not an empty folder"):
        command.run(tmp_path, json=True)


def test_many_stories_begin_in_an_empty_folder_and_each_leaves_its_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(folder: Path, *_: object, **__: object) -> story.DemoOutcome:
        folder.mkdir()
        return story.DemoOutcome(9, 3, 0.5, retrain.RunOutcome("refused", "no better"), None, None, False, folder, 1.0)

    monkeypatch.setattr(command, "tell", refused)
    assert command.seeds(tmp_path / "two", 2, json=False) == 1
    assert "0 of 2" in capsys.readouterr().out
    assert all((tmp_path / "two" / f"seed-{n}" / "report.html").is_file() for n in range(2))
    with pytest.raises(InvalidInput, match="not an empty folder"):
        command.seeds(tmp_path / "two", 2, json=False)


@pytest.mark.parametrize("answered", [0, 1])
def test_visitors_who_are_cut_off_while_an_adapter_is_swapped_are_no_success(answered: int) -> None:
    class Broken:
        memory = SimpleNamespace(adapters=SimpleNamespace(promote=lambda *_, **__: None), parked=lambda: ())

        def serve(self, visits: object, each: Callable[[object], None] = lambda _: None) -> list[AnsweredQuestion]:
            for _ in range(answered):
                each(None)
            raise StoreFull("the disk is full")

    with pytest.raises(StoreFull):
        story._swap(Broken(), "d" * 64, LITTLE, 0, command._Aloud(None, quiet=True))  # type: ignore[arg-type]


def test_a_swap_is_blamed_for_the_turns_that_failed_meanwhile_and_for_no_other() -> None:
    failed = ["of long ago"]

    class Chatbot:
        memory = SimpleNamespace(
            adapters=SimpleNamespace(promote=lambda *_, **__: None),
            parked=lambda: [SimpleNamespace(trace_id=one) for one in failed],
        )

        def serve(self, visits: object, each: Callable[[object], None] | None = None) -> list[AnsweredQuestion]:
            if each is None:
                return exchanges([True])
            each(None)
            failed.append("of a visitor")
            return exchanges([True, False])

    swapped = story._swap(Chatbot(), "d" * 64, LITTLE, 0, command._Aloud(None, quiet=True))  # type: ignore[arg-type]
    assert (swapped.answers, swapped.parked) == (3, 1)


def test_however_long_a_swap_takes_some_visitors_come_after_it() -> None:
    """Those who were there when it began had all been served before it was done."""
    served, everybody_left = set[str](), threading.Event()

    def promote(*_: object, **__: object) -> None:
        everybody_left.wait(10)
        served.add("new")

    class Chatbot:
        memory = SimpleNamespace(adapters=SimpleNamespace(promote=promote), parked=list)

        def serve(self, visits: list[Visit], each: Callable[[object], None] | None = None) -> list[AnsweredQuestion]:
            found = [replace(one, adapter="new" if served else None) for one in exchanges([True] * len(visits))]
            if each is not None:
                each(None)
                everybody_left.set()
            return found

    swapped = story._swap(Chatbot(), "new", LITTLE, 0, command._Aloud(None, quiet=True))  # type: ignore[arg-type]
    assert (swapped.by_new, swapped.answers) == (1, 3)


def test_a_refused_story_says_which_check_refused_by_how_much_and_what_would_have_been_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    parent = {name: {f"u{n}": [0.5, 0.5] for n in range(40)} for name in ("answer_f1", "work")}
    dearer = {"answer_f1": parent["answer_f1"], "work": {user: [1.0, 1.0] for user in parent["work"]}}
    verdict = gate(dearer, parent, limits=Limits(min_probes=80))
    case = {
        "question": "Where does Ana live?",
        "expected": "Oslo",
        "gain": -1.0,
        "candidate": {"answer": "in Rome"},
        "parent": {"answer": "in Oslo\nby the sea"},
    }

    def refused(folder: Path, *_: object, **__: object) -> story.DemoOutcome:
        run = RunFolder.begin(folder / "runs" / "0001", {}, now=datetime(2026, 1, 1, tzinfo=UTC))
        scores = {"candidate": {"answer_f1": 0.5}, "parent": {"answer_f1": 0.5}}
        run.mark("evaluate", {"scores": scores, "best": [], "worst": [case]})
        outcome = retrain.RunOutcome("refused", "see there", run.path, None, verdict)
        return story.DemoOutcome(9, 3, 0.5, outcome, None, None, False, folder, 1.0)

    monkeypatch.setattr(command, "tell", refused)
    assert command.run(tmp_path / "story", json=False) == 3
    said = " ".join(capsys.readouterr().out.split())
    for words in (
        "target: its answers are not better beyond doubt. answer_f1 +0.000 [+0.000, +0.000] against the parent. "
        "The bar: lower bound > 0, missed by 0.",
        "work: it reads and writes more. 0.5 → 1, difference +1.000 [+1.000, +1.000] of the parent's. "
        "The bar: no more than 0.5 of the parent's, missed by 0.5.",
        "Where does Ana live? (Oslo) in Oslo; by the sea → in Rome",
        "0.500 → 0.500 answer_f1 (80 questions, 40 users)",
    ):
        assert words in said
    assert "it reads and writes more" in (tmp_path / "story" / "report.html").read_text()


def test_memkit_demo_finds_the_circle_of_an_installed_trainer() -> None:
    assert circle() is command.run


@pytest.mark.slow
def test_the_running_chatbot_takes_in_what_was_learned_from_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    checks = tuple(Check(name, True, 0.1, 0.05, 0.2, "> 0", "better") for name in ("sample", "target"))
    passed = Verdict(checks, 300, 40)
    monkeypatch.setattr(retrain, "gate", lambda *_, **__: passed)
    code = command.run(tmp_path / "story", json=True, scale=LITTLE)
    told = json.loads(capsys.readouterr().out)
    assert told["outcome"]["status"] == "published"
    assert told["swap"]["parked"] == 0
    assert 0 < told["swap"]["by_new"] < told["swap"]["answers"]
    assert told["rolled_back"]
    assert code == 0, "however much better the answers of so few users are"
    assert "<script" not in (tmp_path / "story" / "report.html").read_text()
    with Memory(tmp_path / "story" / "memory") as memory:
        served = memory.adapters.registry.alias("production").route("extractor").stable
        assert served == told["outcome"]["digest"]
        visitors = [name for name in memory.users() if name.startswith(("before-", "after-", "visitor-", "again-"))]
    run = json.loads(next((tmp_path / "story" / "runs").rglob("0001/run.json")).read_text())
    assert len(visitors) == 3 + 3 + 3 + 2
    assert run["stages"]["collect"]["counts"]["users"] < LITTLE.users
