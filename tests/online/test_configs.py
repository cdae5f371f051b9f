"""The shipped configurations are read strictly, and what contradicts itself is refused with a reason."""

from __future__ import annotations

from pathlib import Path

import pytest

import memkit_train
from memkit.errors import InvalidConfig
from memkit_train.retrain.config import load

SHIPPED = sorted((Path(memkit_train.__file__).parent / "configs").glob("*.yaml"))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_a_shipped_configuration_is_understood(path: Path) -> None:
    found = load(path)
    assert found.online.stages
    assert load(path, ["online.stop.every=3"]).online.stop.every == 3
    if found.data.world is None:
        assert found.model.dtype == "bfloat16"
        assert set(found.data.roles) == set(found.online.roles)


def test_the_bases_that_we_name_have_one() -> None:
    bases = {load(path).model.base.split("/")[-1] for path in SHIPPED}
    sizes = {f"Qwen2.5-{size}-Instruct" for size in ("0.5B", "1.5B", "3B", "7B")}
    assert sizes | {"Llama-3.1-8B-Instruct"} <= bases


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("online.groop=4", "groop"),
        ("online.reward.metrik=f1", "metrik"),
        ("online.learn=answers", "answerer"),
        ("online.roles=[answerer, manager]", "answerer is trained by itself|roles"),
        ("online.stages=[{trained: [extractor]}]", "extractor"),
        ("data.world=closed", "world"),
    ],
)
def test_a_contradiction_is_refused(given: str, said: str) -> None:
    with pytest.raises(InvalidConfig, match=said):
        load(
            None,
            [
                "data.store=./memory",
                "model.base=x/y",
                given,
                *(["online.learn=answers"] if "answerer, manager" in given else []),
            ],
        )


def test_a_polish_goes_on_with_the_roles_of_the_rung_or_is_refused_at_once() -> None:
    usual = ["data.store=s", "model.base=b", "method.polish=true"]
    assert load(None, [*usual, "data.roles=[answerer]"]).polishing.learn == "answers"
    assert load(None, [*usual, "data.roles=[manager]"]).polishing.roles == ("manager",)
    for wrong in ("online.learn=answers", "online.stages=[{steps: 2, trained: [fused]}]"):
        with pytest.raises(InvalidConfig):
            load(None, [*usual, "data.roles=[manager]", wrong])


def test_logo_learns_from_episodes_unless_told_otherwise() -> None:
    given = ["data.store=./memory", "model.base=x/y", "online.algorithm=logo"]
    assert load(None, given).online.learn == "episodes"
    with pytest.raises(InvalidConfig, match="episodes"):
        load(None, [*given, "online.learn=decisions"])
