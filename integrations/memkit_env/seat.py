"""Who plays the states: one request with the messages as the runtime shows them, one reply. No tools, no sandbox and no
program beside this process, because a decision of a memory is a single call."""

from __future__ import annotations

from typing import Any

import verifiers.v1 as vf
from openai import AsyncOpenAI, OpenAIError, omit

from memkit_env.taskset import MemkitData

RETRIES = 5
"""Of a request that the server was too busy for."""


class MemkitHarnessConfig(vf.HarnessConfig):
    id: str = "memkit-env"


class MemkitHarness(vf.Harness[MemkitHarnessConfig]):
    APPENDS_SYSTEM_PROMPT = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self,
        ctx: vf.ModelContext,
        trace: vf.Trace,
        runtime: vf.Runtime,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: vf.TaskData,
    ) -> vf.ProgramResult:
        system, user = self.resolve_text_prompt(data)
        said = [("system", system), ("user", user)]
        messages: Any = [{"role": role, "content": text} for role, text in said if text is not None]
        room = data.max_tokens if isinstance(data, MemkitData) else omit
        try:
            async with AsyncOpenAI(base_url=endpoint, api_key=secret, max_retries=RETRIES, timeout=None) as client:
                await client.chat.completions.create(model=ctx.model, messages=messages, max_tokens=room)
        except OpenAIError as error:
            return vf.ProgramResult(1, "", f"{type(error).__name__}: {error}")
        return vf.ProgramResult(0, "", "")


class MemkitEnvConfig(vf.SingleAgentEnvConfig):
    agent: vf.AgentConfig = vf.AgentConfig(runtime=vf.SubprocessConfig())


class MemkitEnv(vf.SingleAgentEnv, vf.Env[MemkitEnvConfig]):
    """One seat, on this machine."""
