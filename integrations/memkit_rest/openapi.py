"""The description of the service, made from the table of calls."""

from __future__ import annotations

import json
import re
from typing import Any

from pydantic.json_schema import models_json_schema

from memkit import __version__
from memkit_rest.calls import BASE, CALLS, Offer
from memkit_rest.wire import ProblemShown

JSON = dict[str, Any]
_REF = "#/components/schemas/{model}"
_PROBLEM = {"$ref": _REF.format(model="ProblemShown")}
_REFUSALS = {
    400: "It cannot be read, or an argument was refused; nothing was written.",
    401: "No token that is known here.",
    403: "The token may not do that.",
    404: "Nothing like that for this user.",
    405: "The address does not take this method; Allow names those that it does.",
    408: "The body did not come in time.",
    409: "It conflicts with what is there.",
    413: "It is too large.",
    415: "The body is not marked as JSON.",
    422: "A rule was broken; nothing was written.",
    429: "Too many calls; Retry-After says when to come again.",
    500: "An error of the server's own.",
    501: "The server was started without what this needs.",
    502: "The model's endpoint failed.",
    503: "The store is busy or closed; try again.",
    504: "The model took too long.",
    507: "The disk is full.",
}


def describe() -> JSON:
    models = {model for call in CALLS for model in (call.asked, call.told)} | {ProblemShown}
    ordered = sorted(models, key=lambda model: model.__name__)
    _, schemas = models_json_schema([(model, "validation") for model in ordered], ref_template=_REF)
    parts: JSON = schemas["$defs"]
    paths: JSON = {}
    for call in CALLS:
        paths.setdefault(BASE + call.path, {})[call.method.lower()] = _operation(call, parts)
    used = json.dumps(paths)
    while True:  # what is asked in a query, or beside a path, is described where it is used
        kept = {name: part for name, part in parts.items() if f'/{name}"' in used or name == "ProblemShown"}
        more = json.dumps([paths, kept])
        if more == used:
            break
        used = more
    return {
        "openapi": "3.1.0",
        "info": {"title": "memkit", "version": __version__, "description": "A memory that learns from its own use."},
        "paths": paths,
        "components": {"schemas": kept, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "security": [{"token": []}],
    }


def _operation(call: Offer, parts: JSON) -> JSON:
    asked = parts[call.asked.__name__]
    in_path = re.findall(r"{(\w+)}", call.path)
    required = asked.get("required", [])
    fields: JSON = asked.get("properties", {})
    parameters: list[JSON] = [
        {"name": name, "in": "path", "required": True, "schema": fields[name]} for name in in_path
    ]
    found: JSON = {"operationId": call.name, "summary": call.does, "parameters": parameters}
    if call.in_body:
        body: JSON = {"$ref": _REF.format(model=call.asked.__name__)}
        if in_path:
            body = asked | {
                "properties": {name: field for name, field in fields.items() if name not in in_path},
                "required": [name for name in required if name not in in_path],
            }
        found["requestBody"] = {
            "required": bool(set(required) - set(in_path)),
            "content": {"application/json": {"schema": body}},
        }
    else:
        for name in fields:
            if name not in in_path:
                parameters.append(
                    {"name": name, "in": "query", "required": name in required, "schema": _plain(fields[name])}
                )
    if call.keyed:
        parameters.append(
            {
                "name": "Idempotency-Key",
                "in": "header",
                "schema": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!-~]+$"},
                "description": "Sent twice with the same body, it is stored once.",
            }
        )
    if call.is_open:
        found["security"] = []
    found["responses"] = _responses(call)
    return found


def _responses(call: Offer) -> JSON:
    told = {"schema": {"$ref": _REF.format(model=call.told.__name__)}}
    content: JSON = {"application/json": told}
    if call.streams:
        content["text/event-stream"] = {}
    found: JSON = {"200": {"description": "Done.", "content": content}}
    if call.keyed:
        found["202"] = {"description": "Durable; decided in the background.", "content": {"application/json": told}}
    for status, why in _REFUSALS.items():
        found[str(status)] = {"description": why, "content": {"application/problem+json": {"schema": _PROBLEM}}}
    return found


def _plain(field: JSON) -> JSON:
    """In a query there is no null: what is not meant is left out."""
    kinds = [kind for kind in field.get("anyOf", []) if kind.get("type") != "null"]
    if not kinds:
        return field
    rest = {name: value for name, value in field.items() if name not in ("anyOf", "default")}
    return rest | (kinds[0] if len(kinds) == 1 else {"anyOf": kinds})
