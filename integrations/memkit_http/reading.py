"""What a request says: its body, and whose token it carries. The body's size was limited at the door."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any
from urllib.parse import parse_qsl

from starlette.requests import Request

from memkit.net.tenants import Tenant, Tenants
from memkit_http.problems import Declined

_FIELDS = 100


async def read_json(request: Request) -> dict[str, Any]:
    """A JSON object. An empty body is an empty one."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    raw = await request.body()
    if raw and kind != "application/json" and not kind.endswith("+json"):
        raise Declined(415, "the body is not marked as JSON", fix="send Content-Type: application/json")
    try:
        found = json.loads(raw or b"{}")
    except (ValueError, RecursionError):
        raise Declined(400, "the body is not JSON", fix="send one JSON object") from None
    if not isinstance(found, dict):
        raise Declined(400, "the body is no JSON object", fix="send one JSON object")
    return found


async def read_form(request: Request) -> dict[str, str]:
    """A form as browsers send them. Of a field that is there twice, the last counts."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise Declined(415, "the body is no form", fix="send Content-Type: application/x-www-form-urlencoded")
    try:
        text = (await request.body()).decode("utf-8")
        return dict(parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=_FIELDS))
    except (UnicodeDecodeError, ValueError):
        raise Declined(400, "the form cannot be read", fix="send UTF-8, percent-encoded") from None


def tenant_of(request: Request, tenants: Tenants, schemes: Collection[str] = ("bearer",)) -> Tenant:
    """Whom the request's token speaks for."""
    given = request.headers.getlist("authorization")
    scheme, _, token = given[0].partition(" ") if len(given) == 1 else ("", "", "")
    tenant = tenants.of_token(token.strip()) if scheme.lower() in schemes else None
    if tenant is None:
        raise Declined(
            401,
            "this call carries no token that is known here",
            fix="send Authorization: Bearer TOKEN",
            headers={"www-authenticate": "Bearer"},
        )
    return tenant
