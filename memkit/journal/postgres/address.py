"""Where a store in PostgreSQL is: a URL as libpq reads it, and the schema that holds the tables."""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from memkit.errors import InvalidConfig
from memkit.inputs import lance_of
from memkit.models import Bank

_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")


@dataclass(frozen=True, slots=True)
class Address:
    conninfo: str
    """What psycopg is given; it may hold a password."""
    schema: str
    lance: Path | str | None = None
    """The folder of this machine, or a URL of object storage, where the URL names it."""

    @classmethod
    def of(cls, url: str) -> Address:
        """`?schema=NAME` (default `memkit`) and `?lance=PLACE` are ours; everything else is libpq's."""
        try:
            parts = urlsplit(url)
        except ValueError as error:
            raise InvalidConfig("this is no PostgreSQL URL", why=str(error), fix=_EXAMPLE) from None
        pairs = parse_qsl(parts.query, keep_blank_values=True)
        schema = next((value for name, value in pairs if name == "schema"), "memkit")
        if not _NAME.fullmatch(schema):
            raise InvalidConfig(
                f"schema={schema[:70]!r} is no plain name",
                why="it becomes part of the names of tables",
                fix="use lower-case letters, digits and underscores, e.g. ?schema=memkit",
            )
        lance = next((lance_of(value) for name, value in pairs if name == "lance" and value), None)
        rest = urlencode([(name, value) for name, value in pairs if name not in ("schema", "lance")])
        return cls(urlunsplit(parts._replace(query=rest)), schema, lance)

    def __str__(self) -> str:
        """Without user and password."""
        parts = urlsplit(self.conninfo)
        hosts = parts.netloc.rpartition("@")[2]
        return f"postgresql://{hosts}{parts.path}?schema={self.schema}"

    # Keys of advisory locks. They are per database, so the schema tells stores apart; two banks that share a key only
    # wait for each other.

    @property
    def lock_class(self) -> int:
        return _signed(zlib.crc32(f"memkit/{self.schema}".encode()))

    def lock_of(self, bank: Bank) -> int:
        name = f"{bank.user_id}\0{bank.agent_id}".encode("utf-8", "surrogatepass")
        return _signed(int.from_bytes(blake2b(name, digest_size=4).digest(), "big")) or 1

    @property
    def mark(self) -> int:
        """The high bits of a 64-bit key whose low 53 bits are a sequence number."""
        return mark_of(self.schema)


def mark_of(schema: str) -> int:
    return (zlib.crc32(schema.encode()) & 0x1FF | 0x200) << 53


_EXAMPLE = "pass e.g. postgresql://user:password@host/database"


def _signed(value: int) -> int:
    return value - 2**32 if value >= 2**31 else value
