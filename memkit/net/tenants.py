"""Who a token speaks for. Servers take the user from the token, never from a request's body or a model's arguments.

The file is JSON: `{"TOKEN": "ana"}`, or `{"TOKEN": {"user_id": "ana", "agent_id": "coder", "read_only": true}}`, or
`{"TOKEN": {"app": true}}` for an app that names the user of each call itself; only some servers take those.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from memkit.errors import InvalidConfig, MemkitError

MIN_TOKEN_CHARS = 16
_FIX = """write {"TOKEN": "USER"} or {"TOKEN": {"user_id": "USER", "read_only": true}}"""


@dataclass(frozen=True, slots=True)
class Tenant:
    user_id: str
    agent_id: str | None = None
    read_only: bool = False
    is_app: bool = False
    """It speaks for any user, and names one with each call; `user_id` is empty."""


class Tenants:
    """Tokens are kept as digests, which makes looking one up independent of how much of it was guessed right."""

    def __init__(self, tokens: Mapping[str, Tenant]) -> None:
        short = sum(len(token) < MIN_TOKEN_CHARS for token in tokens)
        if short:
            raise InvalidConfig(
                f"{short} of the tokens have fewer than {MIN_TOKEN_CHARS} characters",
                why="short tokens can be guessed",
                fix="make one: python -c 'import secrets; print(secrets.token_urlsafe(32))'",
            )
        if not tokens:
            raise InvalidConfig("there are no tokens", why="a server without one would be open to all", fix=_FIX)
        self._tenants = {_key(token): tenant for token, tenant in tokens.items()}

    @classmethod
    def read(cls, path: Path, *, apps: bool = False) -> Tenants:
        """apps: whether tokens of apps are taken."""
        try:
            raw = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise InvalidConfig(f"cannot read the tokens in {path}", why=str(error.strerror), fix=_FIX) from None
        except ValueError:
            raise InvalidConfig(f"{path} is not JSON", fix=_FIX) from None
        if not isinstance(raw, dict):
            raise InvalidConfig(f"{path} is not a JSON object", fix=_FIX)
        entries = cast("dict[str, Any]", raw)
        found = {token: _tenant(value, number) for number, (token, value) in enumerate(entries.items(), start=1)}
        if not apps and any(tenant.is_app for tenant in found.values()):
            raise InvalidConfig(
                f"{path} holds a token of an app",
                why="this server takes the user from the token, and an app's names none",
                fix="leave it out here; `memkit serve --rest` takes it",
            )
        return cls(found)

    def of_token(self, token: str) -> Tenant | None:
        return self._tenants.get(_key(token))

    def of_bearer(self, authorization: str | None) -> Tenant | None:
        """The tenant of an Authorization header; None where it is missing, malformed or unknown."""
        scheme, _, token = (authorization or "").partition(" ")
        return self.of_token(token.strip()) if scheme.lower() == "bearer" and token.strip() else None


def _key(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def _tenant(value: Any, number: int) -> Tenant:
    # A layer above checks the ids again, as every verb does; here they are only read.
    if isinstance(value, str) and value:
        return Tenant(value)
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        user_id, agent_id = fields.get("user_id"), fields.get("agent_id")
        read_only = fields.get("read_only", False)
        if fields.get("app") is True and set(fields) <= {"app", "read_only"} and isinstance(read_only, bool):
            return Tenant("", None, read_only, is_app=True)
        known = set(fields) <= {"user_id", "agent_id", "read_only"}
        valid = isinstance(user_id, str) and user_id and (agent_id is None or isinstance(agent_id, str))
        if known and valid and isinstance(read_only, bool):
            return Tenant(cast(str, user_id), agent_id, read_only)
    raise _refused(number)


def _refused(number: int) -> MemkitError:
    return InvalidConfig(f"entry {number} of the tokens names no user", fix=_FIX)
