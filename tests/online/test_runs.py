"""Whole runs on a model that decides at random: they stop, collapse and go on as they should."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from memkit_train.errors import NoRows, OtherData
from memkit_train.files.run_folder import RunFolder
from memkit_train.retrain.reinforce import pick_few, tiny
from memkit_train.rl import decisions, source
from memkit_train.rl.rollouts import Batch
from memkit_train.rl.run import Machine, Polished, polish
from memkit_train.rl.settings import OnlineSettings
from memkit_train.rl.talks import Talk
from tests.online import model

EPISODES, TALKS = model.world()
HELD_EPISODES, HELD = model.world(2, 1, "heldout")


def run(
    folder: Path, settings: OnlineSettings, talks: Sequence[Talk] = TALKS, held: Sequence[Talk] = HELD, **more: Any
) -> Polished:
    return polish(
        model.base(),
        talks,
        held,
        folder,
        settings=settings,
        episodes=[*EPISODES, *HELD_EPISODES],
        spec=model.SPEC,
        **more,
    )


@pytest.mark.parametrize(
    "chosen",
    [
        {"algorithm": "grpo"},
        {"algorithm": "grpo", "reward": {"answerer": "exact", "horizon": "played"}, "iterations": 2},
        {"algorithm": "ppo"},
        {"algorithm": "grpo", "learn": "episodes", "talks": 1},
        {"algorithm": "logo", "p_local": 1.0, "talks": 1},
        {"roles": ["answerer"], "reward": {"answerer": "base", "citations": 1.0}},
    ],
    ids=["grpo", "played", "ppo", "episodes", "logo", "answers"],
)
def test_every_way_gives_rows_metrics_and_an_adapter(chosen: dict[str, Any], tmp_path: Path) -> None:
    done = run(tmp_path, model.settings(**chosen))
    assert done.status == "trained"
    assert (done.adapter / "adapter_model.safetensors").is_file()
    assert done.generated > 0
    logged = [one for one in RunFolder(tmp_path).metrics() if "loss" in one]
    assert len(logged) == 2
    for one in logged:
        shares = [one[f"time/{name}"] for name in ("generation", "optimiser", "environment")]
        assert sum(shares) == pytest.approx(1.0)
        assert one["rows"] > 0
    assert {"reward", "sampling/surprise", "completions/valid"} <= set(logged[0])
    assert ("value/explained_variance" if chosen.get("algorithm") == "ppo" else "frac_reward_zero_std") in logged[0]
    if chosen.get("algorithm") == "logo":
        assert sum(one["local/groups"] for one in logged) > 0


def test_a_crash_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = model.settings(stages=[{"steps": 3}, {"steps": 4}], stop={"every": 2, "users": 1, "m_fail": 2.0})
    whole = run(tmp_path / "whole", chosen, machine=Machine(save_steps=2))
    real, calls = source.OnlineSource.rows, []

    def cut(self: source.OnlineSource, step: int) -> Any:
        calls.append(step)
        if len(calls) == 7:  # the last step of the second stage
            raise RuntimeError("power cut")
        return real(self, step)

    monkeypatch.setattr(source.OnlineSource, "rows", cut)
    with pytest.raises(RuntimeError, match="power cut"):
        run(tmp_path / "cut", chosen, machine=Machine(save_steps=2))
    again = run(tmp_path / "cut", chosen, machine=Machine(save_steps=2))
    assert calls == [0, 1, 2, 0, 1, 2, 3, 2, 3], "the first stage is done, the second goes on from its checkpoint"
    assert again.digest == whole.digest
    assert [one["looks"] for one in again.stages] == [one["looks"] for one in whole.stages]
    with pytest.raises(OtherData):
        run(tmp_path / "cut", model.settings(stages=[{"steps": 5}]))


def test_a_policy_that_loses_what_it_hears_is_not_given_longer_conversations(tmp_path: Path) -> None:
    stop = {"every": 1, "users": 1, "m_fail": 1e-6}
    done = run(tmp_path, model.settings(stages=[{"steps": 1, "sessions": 1}, {"steps": 1}], stop=stop))
    assert done.status == "not ready"
    assert "M-Fail" in done.why
    assert len(done.stages) == 1


def test_a_collapse_stops_the_run_and_keeps_the_best(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, batches = decisions.Decisions.sample, []

    def babbling(self: Any, batch: int, *given: Any) -> Batch:
        found = real(self, batch, *given)
        batches.append(batch)
        if batch < 2:
            return found
        from dataclasses import replace

        return replace(found, replies=[replace(one, token_ids=(1,) * 500) for one in found.replies])

    monkeypatch.setattr(decisions.Decisions, "sample", babbling)
    done = run(tmp_path, model.settings(stages=[{"steps": 9}], stop={"every": 3, "users": 1, "m_fail": 2.0}))
    assert done.status == "collapsed"
    assert "tokens long" in done.why
    assert batches[-1] == 3, "twice in a row, not once"
    assert done.adapter.is_dir()
    assert RunFolder(tmp_path).result_of("stage-1")["status"] == "collapsed"  # type: ignore[index]


def test_nothing_better_for_long_enough_ends_the_run(tmp_path: Path) -> None:
    stop = {"every": 1, "users": 1, "patience": 2, "m_fail": 2.0}
    done = run(tmp_path, model.settings(stages=[{"steps": 9}], lr=1e-9, stop=stop))
    assert done.status == "stopped early"
    assert done.steps == 2


def test_the_command_runs_and_says_where_the_time_went(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from typer.testing import CliRunner

    from memkit_train.cli.app import app

    config = tmp_path / "run.json"
    config.write_text(
        json.dumps(
            {
                "data": {"world": "closed,count=3,seed=1,sessions=2,probes=3"},
                "model": {"base": str(model.base()), "parent": "base"},
                "output": str(tmp_path / "out"),
                "online": {"others": "world", "reward": {"answerer": "exact"}},
            }
        )
    )
    told = CliRunner().invoke(app, ["grpo", str(config), "--smoke"])
    assert told.exit_code == 0, told.output
    assert "generation" in told.output
    assert "held out" in told.output
    told = CliRunner().invoke(app, ["logo", str(config), "--smoke", "--json"])
    found = json.loads(told.stdout)
    assert found["status"] == "trained"
    assert Path(found["run"], "report.html").is_file()


def test_a_smoke_run_plays_what_can_be_asked_about(tmp_path: Path) -> None:
    """Twenty conversations in which nothing is asked, and one that is asked about after its last session only."""
    talk = TALKS[0]
    late = replace(talk, questions=tuple(one for one in talk.questions if one.probe.after == len(talk.script)))
    mute = [replace(talk, user=f"mute-{number}", questions=()) for number in range(20)]
    few = pick_few([*mute, late])
    assert few == [late]
    early = pick_few(TALKS)[0]
    assert len(early.script) < len(talk.script)
    assert run(tmp_path, tiny(model.settings()), talks=few, held=pick_few(HELD)).status == "trained"


@pytest.mark.parametrize("chosen", [{"algorithm": "logo", "p_local": 1.0}, {"learn": "episodes"}])
def test_a_conversation_that_nothing_can_be_asked_of_stands_in_nobodys_way(
    chosen: dict[str, Any], tmp_path: Path
) -> None:
    mute, *others = TALKS
    mute = replace(mute, questions=tuple(replace(one, sessions=frozenset()) for one in mute.questions))
    talks = [mute, others[0]]
    done = run(tmp_path / "one", model.settings(talks=2, **chosen), talks=talks)
    assert done.status == "trained"
    with pytest.raises(NoRows, match="nothing can be asked of these 1 conversations"):
        run(tmp_path / "none", model.settings(talks=2, **chosen), talks=[mute])
    silent = [replace(one, questions=()) for one in HELD]
    with pytest.raises(NoRows, match="nobody is left to choose a checkpoint by"):
        run(tmp_path / "blind", model.settings(talks=2, **chosen), held=silent)
