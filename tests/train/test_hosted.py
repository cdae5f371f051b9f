"""What a hosted model decided is learned from only where it was asked as the trained model will be: in compact prompts,
in the roles that are trained."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from memkit.embedders import make_embedder
from memkit.seams.clock import RandomIds
from memkit_train.errors import NoRows, WrongTemplate
from memkit_train.lab.worlds import Truth, language
from memkit_train.lab.worlds.policies import answer
from memkit_train.log import StoreSource
from memkit_train.retrain import collect
from memkit_train.retrain.config import TrainConfig
from memkit_train.retrain.plan import plan
from memkit_train.rows import TextRow
from tests.train.stores import lived, world
from tests.train.test_retrain import config

EPISODES = world(8, seed=7)
_QUOTED = re.compile(r'^(?:(\d+) )?(?:NEW fact )?\[[^\]]*\](?: from)?(?: (.*?):)? "(.*)"$', re.MULTILINE)


class Hosted:
    """A function of messages, as users pass one: it replies in JSON where it is asked for JSON. It adds whatever it
    hears, so that what was true once is served beside what is."""

    def __init__(self) -> None:
        self.truth = Truth(EPISODES)

    def __call__(self, messages: Sequence[dict[str, str]]) -> str:
        asked, in_json = messages[-1]["content"], "JSON" in messages[0]["content"]
        if "Question (asked" in asked:
            return self._answered(asked, in_json)
        if "NEW fact" in asked:
            return '{"operations": [{"op": "ADD", "id": null, "text": null}]}' if in_json else "ADD"
        ((_, speaker, text),) = _QUOTED.findall(asked.split("NEW turns:\n")[1])
        facts = self.truth.facts(speaker, text)
        fused = asked.startswith("Memories")
        if not in_json:
            return "\n".join(f"{'ADD ' * fused}1 {fact}" for fact in facts) or ("NOOP" if fused else "NONE")
        if fused:
            return json.dumps({"operations": [{"op": "ADD", "id": None, "text": one, "turn": 1} for one in facts]})
        return json.dumps({"facts": [{"turn": 1, "fact": one} for one in facts]})

    def _answered(self, asked: str, in_json: bool) -> str:
        (question,) = re.findall(r'Question \(asked.*?\): "(.*)"', asked)
        read = [
            (int(number), [meaning] if (meaning := language.read(text)) else [])
            for number, _, text in _QUOTED.findall(asked)
            if number
        ]
        said, used = answer(question, read)
        if in_json:
            return json.dumps({"memories": sorted(used), "answer": said})
        return f"USE {' '.join(map(str, sorted(used))) or 'NONE'}\nANSWER {said}"


def store(folder: Path, **options: Any) -> Path:
    model: Any = Hosted()
    return lived(folder / "store", EPISODES, model, **options)


@pytest.fixture(scope="module")
def by_default(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return store(tmp_path_factory.mktemp("default"))


def collected(chosen: TrainConfig) -> collect.Collected:
    with StoreSource(chosen.data.path) as source:
        return collect.collect(source, chosen, make_embedder("hash"), now=datetime(2026, 1, 1, tzinfo=UTC))


def test_one_call_in_json_is_no_log_for_extractor_and_manager(by_default: Path, tmp_path: Path) -> None:
    with pytest.raises(NoRows, match="no label leads to a decision of extractor, manager") as caught:
        collected(config(by_default, tmp_path))
    assert "fused (json)" in str(caught.value)
    assert "mode='split', style='compact'" in str(caught.value)


def test_prompts_in_json_are_refused_for_a_model_that_reads_compact_ones(by_default: Path, tmp_path: Path) -> None:
    chosen = config(by_default, tmp_path, **{"data.roles": "[fused]", "data.mode": "fused"})
    with pytest.raises(
        WrongTemplate, match=r"(\d+) of \1 credited decisions of fused were asked in the json"
    ) as caught:
        collected(chosen)
    assert "mode='fused', style='compact'" in str(caught.value)
    assert any("json style" in one.what for one in plan(chosen).findings)


@pytest.mark.parametrize(("mode", "roles"), [("split", "[extractor, manager]"), ("fused", "[fused]")])
def test_the_advice_of_the_refusal_makes_a_log_to_learn_from(tmp_path: Path, mode: str, roles: str) -> None:
    log = store(tmp_path, mode=mode, style="compact")
    found = collected(config(log, tmp_path, **{"data.roles": roles, "data.mode": mode}))
    assert found.rows
    assert all(isinstance(row, TextRow) and "{" not in row.completion for row in found.rows)
    assert found.counts["other_style"] == 0


def test_a_log_that_began_in_json_goes_on_in_compact(tmp_path: Path) -> None:
    log = lived(tmp_path / "store", EPISODES[:4], Hosted(), mode="split")  # type: ignore[arg-type]
    with StoreSource(log) as source:
        before = {one.decision_id for one in source.decisions()}
    lived(log, EPISODES[4:], Hosted(), mode="split", style="compact", ids=RandomIds())  # type: ignore[arg-type]
    chosen = config(log, tmp_path)
    found = collected(chosen)
    assert found.rows
    assert not before & {row.ref for row in (*found.rows, *found.replay)}
    assert found.counts["other_style"] > 0
    assert any(one.level == "warning" and "json style" in one.what for one in plan(chosen).findings)


def test_the_style_that_is_served_is_that_of_the_local_backbone() -> None:
    from memkit.backbones.hf import HFBackbone

    assert HFBackbone.style == collect.SERVED
