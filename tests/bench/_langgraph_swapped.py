"""`MemkitStore` under the names and constructors of LangGraph's own stores, for their own test suites. What is internal
to those stores is None: its tests fail here, and are counted."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from memkit_langgraph import MemkitStore

BaseSqliteStore = NS_MATCH_FUNCTION = _escape_glob_literal = _escape_like_literal = _namespace_match_pattern = None
AsyncSqliteStore = CharacterEmbeddings = None
SqliteIndexConfig = dict
DEFAULT_URI, VECTOR_TYPES = "postgres://localhost/postgres", ["cosine"]


class SqliteStore(MemkitStore):
    @classmethod
    @contextlib.contextmanager
    def from_conn_string(cls, _: str, *, index: Any = None, ttl: Any = None, **__: Any) -> Iterator[Any]:
        if index is not None and index.get("text_fields"):
            index = {"fields": index["text_fields"], **index}
        with tempfile.TemporaryDirectory() as folder, cls(Path(folder) / "memory", index=index, ttl=ttl) as store:
            yield store

    def setup(self) -> None: ...


class PostgresStore(SqliteStore):
    MIGRATIONS = ()


class Connection:
    """To a database server that is not needed."""

    @classmethod
    @contextlib.contextmanager
    def connect(cls, *_: Any, **__: Any) -> Iterator[Connection]:
        yield cls()

    def execute(self, *_: Any) -> None: ...
