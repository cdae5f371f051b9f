"""TRL's own trainer on our states: its groups are ours, and its reward is a replay."""

from __future__ import annotations

from pathlib import Path

import pytest

from memkit.errors import InvalidConfig
from memkit_train import lora
from memkit_train.online import stock
from tests.online import model

EPISODES, TALKS = model.world()


@pytest.mark.slow
def test_trl_trains_on_replayed_states(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[list[int], list[float]]] = []
    real = stock.Replayer.__call__

    def watched(self: stock.Replayer, completion_ids, place, **other) -> list[float]:  # type: ignore[no-untyped-def]
        rewards = real(self, completion_ids, place, **other)
        seen.append((list(place), rewards))
        return rewards

    monkeypatch.setattr(stock.Replayer, "__call__", watched)
    chosen = model.settings(stages=[{"steps": 2}], states=3, group=4)
    done = stock.train(model.base(), TALKS, tmp_path, chosen, episodes=EPISODES, spec=model.SPEC, max_new_tokens=12)
    assert done.digest == lora.digest_of(done.adapter)
    assert len(seen) == 2
    for places, rewards in seen:
        assert sorted(places.count(at) for at in set(places)) == [4, 4, 4], "a group is one state"
        assert len(rewards) == 12
    assert any("reward" in line for line in done.log)


def test_what_trl_cannot_do_is_refused(tmp_path: Path) -> None:
    chosen = model.settings(reward={"answerer": "exact", "horizon": "played"})
    with pytest.raises(InvalidConfig, match="at once"):
        stock.train(model.base(), TALKS, tmp_path, chosen, episodes=EPISODES)
