"""The states as tasks of verifiers: what is shown, and what a reply to it earns.

The reward `memory` is the total; its parts, the operations that were applied, and whether the reply was refused are
metrics. `trace.info["memkit"]` says in words what was done, or why nothing was.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import verifiers.v1 as vf
from pydantic import model_validator

from memkit.errors import InvalidConfig
from memkit_env.settings import StateSettings
from memkit_env.states import States, load_states
from memkit_train.errors import OtherData


class MemkitTaskConfig(StateSettings, vf.TaskConfig):
    """Everything that says which states there are, and what counts."""

    @model_validator(mode="after")
    def _can_be(self) -> MemkitTaskConfig:
        try:
            self.check()
        except InvalidConfig as error:
            raise ValueError(str(error)) from None
        return self


class MemkitData(vf.TaskData):
    state: str = ""
    max_tokens: int = 128
    """What the runtime lets a reply take."""
    questions: tuple[tuple[str, str], ...] = ()
    """What is asked afterwards, and what is expected. The model sees neither."""


class MemkitTask(vf.Task[MemkitData, vf.State, MemkitTaskConfig]):
    @property
    def key(self) -> str:
        return f"{self.config.role}/{self.data.state}"

    @vf.reward
    async def memory(self, trace: vf.Trace) -> float:
        replies = trace.assistant_messages
        reply = (replies[-1].content or "") if replies else ""
        last = next((call for call in reversed(trace.calls) if call.error is None), None)
        cut = last is not None and last.finish_reason == "length"
        states = await asyncio.to_thread(self._states)
        score = await asyncio.to_thread(states.score, self.data.state, reply, cut=cut)
        trace.record_metrics({**score.parts, "refused": float(score.refused is not None)})
        if score.refused is not None:
            trace.record_metric(f"refused_{type(score.refused).__name__}", 1.0)
        trace.info["memkit"] = {"done": score.told, "refused": score.refused and str(score.refused)}
        return score.total

    async def validate(self, runtime: vf.Runtime) -> bool | None:
        """Of a world: the right reply can be used, and leaves a bank that answers no worse than doing nothing does."""
        return await asyncio.to_thread(self._check_right_reply)

    def _check_right_reply(self) -> bool | None:
        states, key = self._states(), self.data.state
        reply = states.write_right_reply(key)
        if reply is None:
            return None
        right, idle = states.score(key, reply), states.score_nothing(key)
        part = f"answer_{self.config.metric}"
        return right.refused is None and right.parts[part] >= idle.parts[part]

    def _states(self) -> States:
        states, data = load_states(self.config), self.data
        if data.state not in states or states[data.state].user != data.prompt:
            raise OtherData(
                f"the state {data.state} is not there, or is another one",
                why="the world, the log or the settings are not those that the task was made of",
                fix="give every process the same env.taskset.task, and do not write to a log that is trained on: "
                "take a copy of it with `memkit-train bundle`",
            )
        return states


class MemkitTasksetConfig(vf.TasksetConfig):
    task: MemkitTaskConfig = MemkitTaskConfig()


class MemkitTaskset(vf.Taskset[MemkitTask, MemkitTasksetConfig]):
    def load(self) -> Iterator[MemkitTask]:
        config = self.config.task
        for key, asked in load_states(config).items():
            data = MemkitData(
                id=key,
                name=key,
                state=key,
                system_prompt=asked.system,
                prompt=asked.user,
                max_tokens=asked.prompt.max_tokens,
                questions=tuple((one.question, one.expected) for one in asked.questions),
            )
            yield MemkitTask(data, config)
