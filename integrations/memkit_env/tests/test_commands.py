"""The commands of verifiers, against a small server: who decides rightly earns more than who does not."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import subprocess
import sys
from collections.abc import Generator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
import verifiers.v1 as vf
from served import Model, serve
from verifiers.v1.serve import EnvClient, EnvServer
from verifiers.v1.utils.loaders import resolve_env_config

from memkit_env import MemkitTaskset
from memkit_env.settings import StateSettings
from memkit_env.states import load_states
from memkit_env.taskset import MemkitTaskConfig, MemkitTasksetConfig

WORLD = "closed,count=2,seed=1,sessions=4,probes=6"
COUNT = 12


@pytest.fixture(scope="session")
def url() -> Generator[str]:
    states = load_states(StateSettings(world=WORLD))
    right = {asked.user: states.write_right_reply(key) or "" for key, asked in states.items()}

    def decide(messages: list[dict[str, str]]) -> str:
        assert [one["role"] for one in messages] == ["system", "user"]
        return right[messages[-1]["content"]]

    models: dict[str, Model] = {
        "right": decide,
        "ends": lambda messages: "DELETE 1",
        "talks": lambda messages: "Sure! I would say that this is worth keeping. " * 60,
    }
    with serve(models) as found:
        yield found


def run(folder: Path, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name(command)
    return subprocess.run([str(program), *arguments], capture_output=True, text=True, cwd=folder, timeout=300)


def evaluate(folder: Path, url: str, model: str, *more: str) -> list[dict[str, Any]]:
    """The traces of an evaluation of the first states."""
    options = ["--env.taskset.task.world", WORLD, "--client.base-url", url, "--client.api-key-var", "NO_KEY"]
    shown = ["--no-push", "--no-rich", "-n", str(COUNT), "-o", ".", "--run.name", model]
    done = run(folder, "vf-eval", "memkit-env", "--model", model, *options, *shown, *more)
    assert done.returncode == 0, done.stderr[-2000:]
    return read_traces(folder / model)


def read_traces(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "traces.jsonl").read_text().splitlines()
    return [trace for line in lines for trace in json.loads(line)["traces"]]


def rewards(traces: Sequence[dict[str, Any]]) -> list[float]:
    return [trace["rewards"]["memory"]["score"] for trace in traces]


@pytest.fixture(scope="session")
def runs(url: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[dict[str, Any]]]]:
    folder = tmp_path_factory.mktemp("runs")
    return folder, {model: evaluate(folder, url, model) for model in ("right", "ends", "talks")}


Runs = tuple[Path, dict[str, list[dict[str, Any]]]]


def test_the_right_manager_earns_more_and_who_talks_earns_nothing(runs: Runs) -> None:
    _, traces = runs
    assert {model: len(found) for model, found in traces.items()} == dict.fromkeys(traces, COUNT)
    means = {model: fmean(rewards(found)) for model, found in traces.items()}
    assert means["right"] > means["ends"] + 0.1
    assert max(rewards(traces["talks"])) <= 0


def test_parts_are_metrics_and_a_refusal_says_why(runs: Runs) -> None:
    _, traces = runs
    for trace in traces["right"]:
        assert trace["ok"]
        assert trace["metrics"]["refused"] == 0
        assert {"answer_f1", "validity", "growth", "add", "update", "delete"} <= trace["metrics"].keys()
        assert trace["info"]["memkit"]["done"]
    for trace in traces["talks"]:
        assert trace["ok"], "a refused reply is data, not an error"
        assert (trace["metrics"]["refused"], trace["metrics"]["refused_BadReply"]) == (1, 1)
        assert "format" in trace["info"]["memkit"]["refused"]
        assert trace["calls"][0]["finish_reason"] == "length", "a reply has no more room than in the runtime"


def test_a_saved_run_is_scored_again_in_another_process_and_scores_the_same(runs: Runs) -> None:
    folder, traces = runs
    done = run(folder, "vf-replay", "ends", "--output-dir", "again", "--no-rich")
    assert done.returncode == 0, done.stderr[-2000:]
    before = {trace["task"]["key"]: rewards([trace]) for trace in traces["ends"]}
    assert {trace["task"]["key"]: rewards([trace]) for trace in read_traces(folder / "again")} == before


def test_the_states_are_valid_and_none_is_solved_by_silence(tmp_path: Path) -> None:
    options = ["--taskset.task.world", WORLD, "--runtime.type", "subprocess", "--no-rich", "-o", ".", "--run.name", "v"]
    done = run(tmp_path, "vf-validate", "memkit-env", *options)
    assert done.returncode == 0, done.stderr[-2000:]
    summary = json.loads((tmp_path / "v" / "summary.json").read_text())
    assert summary["outcomes"]["error"] == summary["checks"]["noop"]["invalid"] == 0
    assert summary["checks"]["gold"]["valid"] >= 0.9 * summary["total"]


def test_a_trainers_worker_that_never_loaded_the_taskset_scores_as_here(url: str) -> None:
    """The client sends a task's data; the server, another process, has nothing but that and its configuration."""
    task = MemkitTaskConfig(world=WORLD)
    states = load_states(task)
    tasks = list(MemkitTaskset(MemkitTasksetConfig(id="memkit-env", task=task)).take(3))
    config = resolve_env_config({"taskset": {"id": "memkit-env", "task": {"world": WORLD}}})
    spawn = multiprocessing.get_context("spawn")
    queue = spawn.Queue()
    server = spawn.Process(
        target=EnvServer.run_server, args=(queue,), kwargs={"config": config, "address": "tcp://127.0.0.1:*"}
    )
    server.start()
    try:
        earned = asyncio.run(play(queue.get(timeout=120), url, [one.data.model_dump(mode="json") for one in tasks]))
    finally:
        server.terminate()
        server.join()
    assert earned == [pytest.approx(states.score(one.data.state, "DELETE 1").total) for one in tasks]


async def play(address: str, url: str, tasks: Sequence[dict[str, Any]]) -> list[float]:
    client = EnvClient(address)
    endpoint = vf.EvalClientConfig(base_url=url, api_key_var="NO_KEY")
    try:
        episodes = [await client.run(endpoint, "ends", vf.SamplingConfig(), one) for one in tasks]
    finally:
        await client.close()
    assert all(one.ok for one in episodes), [one.errors for one in episodes]
    return [trace.reward for one in episodes for trace in one.traces]


def test_what_cannot_be_is_told_before_anything_runs(tmp_path: Path) -> None:
    done = run(
        tmp_path, "vf-eval", "memkit-env", "--env.taskset.task.log", "store", "--no-push", "--no-rich", "-n", "1"
    )
    assert done.returncode != 0
    told = " ".join((done.stdout + done.stderr).replace("│", " ").split())
    assert "nobody answers the questions of this log" in told
    assert "Traceback" not in told


def test_other_states_than_the_tasks_are_no_silent_zero(url: str, tmp_path: Path) -> None:
    (task,) = MemkitTaskset(MemkitTasksetConfig(id="memkit-env", task=MemkitTaskConfig(world=WORLD))).take(1)
    elsewhere = type(task)(task.data, MemkitTaskConfig(world="closed,count=1,seed=2"))
    with pytest.raises(Exception, match="is not there, or is another one"):
        elsewhere._states()
