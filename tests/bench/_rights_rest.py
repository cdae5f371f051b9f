"""Calls of the REST service in spaces, by drawn users with drawn grants: each is refused where no grant allows it, and
not for that where one does."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

from memkit import Memory
from memkit.net.tenants import Tenant, Tenants
from memkit.results import RIGHTS, Right

PEOPLE, SPACES = [f"user-{number}" for number in range(6)], ["red", "blue", "nobody-s"]
CALLS: dict[tuple[str, str], tuple[tuple[Right, ...], dict[str, Any]]] = {
    ("POST", "/search"): (("read",), {"query": "words"}),
    ("POST", "/context"): (("read",), {"query": "words"}),
    ("GET", "/memories"): (("read",), {}),
    ("GET", "/memories/m_none"): (("read",), {}),
    ("GET", "/history"): (("read",), {}),
    ("GET", "/profile"): (("read",), {}),
    ("GET", "/entities"): (("read",), {}),
    ("GET", "/about"): (("read",), {"name": "word"}),
    ("GET", "/decisions"): (("read",), {}),
    ("GET", "/grants"): (("read",), {}),
    ("POST", "/observe"): (("read",), {"trace_id": "c_none", "answer": "words"}),
    ("POST", "/add"): (("write",), {"messages": "words", "infer": False}),
    ("POST", "/documents"): (("write",), {"name": "a.md", "text": "words"}),
    ("POST", "/learn"): (
        ("write",),
        {"steps": [{"role": "assistant", "content": "words"}], "task": "words", "outcome": True},
    ),
    ("POST", "/feedback"): (("write",), {"trace_id": "c_none", "label": "up"}),
    ("POST", "/undo"): (("write",), {"op_id": "o_none"}),
    ("POST", "/retry"): (("write",), {}),
    ("GET", "/parked"): (("write",), {}),
    ("PATCH", "/memories/m_none"): (("write",), {"text": "words"}),
    ("DELETE", "/memories/m_none"): (("write",), {}),
    ("DELETE", "/memories"): (("write",), {}),
    ("POST", "/promote"): (("write",), {"id": "m_none"}),
    ("POST", "/grants"): (("share", "read"), {"rights": ["read"], "to": "somebody"}),
    ("POST", "/revoke"): (("share",), {"rights": ["read"], "to": "somebody"}),
}


def call_by_rest(path: Path, runs: int, seed: int) -> tuple[Counter[str], list[str]]:
    from starlette.testclient import TestClient

    from memkit_rest import rest_app
    from memkit_rest.calls import BASE

    rng, counts, wrong = random.Random(seed), Counter[str](), list[str]()
    tokens = {f"a-token-that-is-of-{name}": Tenant(name) for name in PEOPLE}
    with Memory(path) as memory:
        web = TestClient(rest_app(memory, Tenants(tokens)), raise_server_exceptions=False)
        owned = {name: memory.principal("owner").create_space(name) for name in SPACES[:2]}
        for _ in range(runs):
            who, space = rng.choice(PEOPLE), rng.choice(SPACES)
            if space in owned and rng.random() < 0.5:
                act = owned[space].grant if rng.random() < 0.6 else owned[space].revoke
                act(*rng.sample(RIGHTS, rng.randint(1, 2)), to=who)
            (method, address), (needs, given) = rng.choice(list(CALLS.items()))
            allowed = all(space in memory.principal(who).spaces(right) for right in needs)
            asked = {**given, "space": space}
            sent: dict[str, Any] = {"json": asked} if method in ("POST", "PATCH") else {"params": asked}
            token = {"authorization": f"Bearer a-token-that-is-of-{who}"}
            status = web.request(method, BASE + address, headers=token, **sent).status_code
            counts["allowed" if allowed else "refused"] += 1
            if (status == 403) == allowed or status >= 500 or status == 400:
                wrong.append(f"{method} {address} by {who} in {space}: {status}, allowed {allowed}")
    return counts, wrong
