"""What a configuration refuses, in words."""

from __future__ import annotations

import pytest

from memkit.errors import InvalidConfig
from memkit_train.retrain.config import load

WHOLE = ("data.store=x", "model.base=y")


@pytest.mark.parametrize("one", ["method.lr=[1", "method.lr={", 'data.store="x', "method.seed=2024-13-45"])
def test_a_value_that_is_no_yaml_is_named(one: str) -> None:
    with pytest.raises(InvalidConfig, match="is not understood") as caught:
        load(None, [*WHOLE, one])
    assert one.partition("=")[0] in caught.value.what
    assert caught.value.why


@pytest.mark.parametrize("one", ["method.half_life_days=0", "method.half_life_days=-1", "method.max_tokens=0"])
def test_numbers_that_a_method_would_choke_on(one: str) -> None:
    with pytest.raises(InvalidConfig, match=one.partition("=")[0]):
        load(None, [*WHOLE, one])


@pytest.mark.parametrize(
    ("one", "figure", "instead"),
    [
        ("method.name=kto", "57.5 %", "method.amends"),
        ("method.name=dpo", "61.7 %", "memkit-train export"),
        ("method.name=offline", "66.2 %", "method.polish"),
        ("method.name=ladder", "two of three", "sft"),
        ("method.alternatives=8", "0.4 points", "method.amends"),
        ("online.credit=state", "step groups", "logo"),
        ("gate.latency=1.0", "by the clock", "gate.work"),
    ],
)
def test_what_is_gone_says_why_and_what_serves_instead(one: str, figure: str, instead: str) -> None:
    with pytest.raises(InvalidConfig, match="is gone") as caught:
        load(None, [*WHOLE, one])
    assert one.partition("=")[0] in caught.value.what
    assert figure in (caught.value.why or "")
    assert instead in (caught.value.fix or "")


def test_a_polish_is_not_for_a_service_that_knows_no_adapter_of_this_machine() -> None:
    polished = [*WHOLE, "data.roles=[manager]", "method.polish=true"]
    assert load(None, [*polished, "online.engine=trl"]).polishing.engine == "trl"
    with pytest.raises(InvalidConfig, match="adapter of this machine"):
        load(None, [*polished, "online.engine=tinker"])


def test_what_an_earlier_version_wrote_down_of_its_defaults_is_read() -> None:
    said = ("method.alternatives=0", "online.credit=episode", "gate.latency=0.5")
    assert load(None, [*WHOLE, *said]) == load(None, [*WHOLE, "online={}"])


def test_what_a_manager_that_only_chooses_writes_is_no_cost_unless_somebody_says_so() -> None:
    small = ("data.store=x", "model.base=small")
    assert load(None, WHOLE).limits.tokens == 0.25
    assert load(None, small).limits.tokens is None
    assert load(None, [*small, "gate.tokens=0.6"]).limits.tokens == 0.6
