"""The PostgreSQL engine: one database for many app servers. Needs the extra `postgres`."""

from memkit.journal.postgres.opening import connect, script

__all__ = ["connect", "script"]
