"""A plan for an online run grows with what is asked for, and needs no log where a world is named."""

from __future__ import annotations

from memkit_train.retrain.config import load
from memkit_train.retrain.plan import plan
from memkit_train.rl.settings import OnlineSettings
from memkit_train.rl.sizing import size
from tests.online import model

SHAPE = {"num_hidden_layers": 28, "num_key_value_heads": 4, "num_attention_heads": 28, "hidden_size": 3584}


def sized(**chosen: object):  # type: ignore[no-untyped-def]
    return size(OnlineSettings.model_validate(chosen), SHAPE, 7_600_000_000, flops=1.5e14, width=2)


def test_more_of_anything_takes_more() -> None:
    usual = sized()
    assert usual.per_step == 16 * 8
    assert sized(group=16).per_step == 2 * usual.per_step
    assert sized(group=16).minutes > usual.minutes
    assert sized(stages=[{"steps": 80}]).steps == 80
    assert sized(decode_batch=64).cache_gb < usual.cache_gb
    # 128 rows of 932 tokens, 28 layers of 4 heads of 128 numbers of 2 bytes, keys and values
    assert usual.cache_gb == round(128 * 932 * 2 * 28 * 4 * 128 * 2 / 1e9, 2)


def test_a_batch_that_is_learned_from_several_times_is_sampled_once() -> None:
    once, four = (sized(stages=[{"steps": 40}], iterations=n, refresh=10) for n in (1, 4))
    assert four.minutes < once.minutes
    begun = sized(stages=[{"steps": 5}], refresh=10, stop={"every": 50}).played
    assert begun == sized(stages=[{"steps": 10}], refresh=10, stop={"every": 50}).played, "one round of conversations"


def test_logo_counts_its_rerolls() -> None:
    whole = sized(learn="episodes", talks=2, group=4)
    logo = sized(algorithm="logo", talks=2, group=4, p_local=0.5, rerolls=4)
    assert logo.per_step == whole.per_step * 6 / 4


def test_a_plan_says_what_an_online_run_takes() -> None:
    found = plan(
        load(None, ["data.world=closed,count=4", f"model.base={model.base()}", "model.parent=base", "online.group=4"])
    )
    assert found.ok
    assert any("64 sampled replies" in one.what for one in found.findings)
