"""OpenAI Agents SDK on memkit: a session that learns from what the user says, and recall for every run.

    from memkit_agents import MemkitSession
    session = MemkitSession(SQLiteSession("chat-1"), memory, user_id="ana")
    await Runner.run(agent, "…", session=session, run_config=session.run_config(), hooks=session.hooks())

History stays where it was, in the session that is wrapped; memkit adds what outlives it.
"""

from memkit_plug import missing

try:
    from memkit_agents.session import MemkitHooks, MemkitSession
except ImportError as error:
    raise missing("memkit_agents", "agents", error) from error

__all__ = ["MemkitHooks", "MemkitSession"]
