"""The TypeScript client, made from the description of the service: `python -m memkit_rest.typescript > memkit.ts`.

One file without dependencies, for browsers, Node, Deno and Bun. Types are erasable, so that Node runs it as it is."""

from __future__ import annotations

import json
import re
import sys
from typing import Any

from memkit_rest.openapi import describe

JSON = dict[str, Any]
_HEAD = """// The client of memkit's REST service. Made from its OpenAPI description; do not edit.
//
//   const memkit = new Memkit("http://127.0.0.1:8787", TOKEN);
//   await memkit.add({ messages: "I moved to Oslo.", user_id: "ana" });
//   const { hits } = await memkit.search({ query: "where does Ana live?", user_id: "ana" });

export class MemkitError extends Error {
  readonly status: number;
  readonly why: string | undefined;
  readonly next: string | undefined;
  constructor(status: number, problem: Partial<ProblemShown>) {
    super([problem.title ?? `status ${status}`, problem.why, problem.next].filter(Boolean).join(". "));
    this.name = "MemkitError";
    this.status = status;
    this.why = problem.why ?? undefined;
    this.next = problem.next ?? undefined;
  }
}

type Values = Record<string, unknown>;
"""
_CLASS = """
export class Memkit {
  readonly #url: string;
  readonly #token: string;
  readonly #fetch: typeof fetch;

  constructor(url: string, token: string, options: { fetch?: typeof fetch } = {}) {
    this.#url = url.replace(/\\/+$/, "");
    this.#token = token;
    this.#fetch = options.fetch ?? globalThis.fetch.bind(globalThis);
  }
"""
_TAIL = """
  async #call<T>(method: string, path: string, query: Values, body?: Values, key?: string): Promise<T> {
    const asked = new URLSearchParams();
    for (const [name, value] of Object.entries(query)) if (value != null) asked.set(name, String(value));
    const headers: Record<string, string> = { authorization: `Bearer ${this.#token}` };
    if (body !== undefined) headers["content-type"] = "application/json";
    if (key !== undefined) headers["idempotency-key"] = key;
    const answer = await this.#fetch(this.#url + path + (asked.size ? `?${asked}` : ""), {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    let text = await answer.text();
    let failed = !answer.ok;
    if (answer.headers.get("content-type")?.startsWith("text/event-stream")) {
      const last = text.trimEnd().split("\\n\\n").at(-1) ?? "";
      failed = !last.startsWith("event: answer\\n");
      text = last.slice(last.indexOf("data: ") + 6);
    }
    let told: unknown = {};
    try {
      told = JSON.parse(text);
    } catch {
      // somebody between client and server answered in words of his own
    }
    const problem = told as Partial<ProblemShown>;
    if (failed) throw new MemkitError(problem.status ?? answer.status, problem);
    return told as T;
  }
}
"""


def client(description: JSON | None = None) -> str:
    found = description or describe()
    parts: JSON = found["components"]["schemas"]
    types = [_interface(name, part) for name, part in sorted(parts.items())]
    methods = [
        _method(path, verb, operation) for path, verbs in found["paths"].items() for verb, operation in verbs.items()
    ]
    return _HEAD + "".join(types) + _CLASS + "".join(methods) + _TAIL


def _interface(name: str, part: JSON) -> str:
    return f"\nexport interface {name} {_object(part, '')}\n"


def _object(part: JSON, indent: str) -> str:
    lines: list[str] = []
    for name, field in part.get("properties", {}).items():
        if said := field.get("description"):
            lines.append(f"{indent}  /** {said.replace('*/', '* /')} */")
        optional = "" if name in part.get("required", []) else "?"
        lines.append(f"{indent}  {name}{optional}: {_type(field)};")
    return "{\n" + "\n".join(lines) + f"\n{indent}}}" if lines else "Record<string, never>"


def _type(field: JSON) -> str:
    if ref := field.get("$ref"):
        return ref.rpartition("/")[2]
    if options := field.get("anyOf"):
        return " | ".join(dict.fromkeys(_type(option) for option in options))
    if values := field.get("enum"):
        return " | ".join(json.dumps(value) for value in values)
    if "const" in field:
        return json.dumps(field["const"])
    match field.get("type"):
        case "string":
            return "string"
        case "integer" | "number":
            return "number"
        case "boolean":
            return "boolean"
        case "null":
            return "null"
        case "array":
            inner = _type(field.get("items", {}))
            return f"({inner})[]" if " " in inner else f"{inner}[]"
        case "object":
            inner = field.get("additionalProperties")
            return f"Record<string, {_type(inner) if isinstance(inner, dict) else 'unknown'}>"
        case _:
            return "unknown"


def _method(path: str, verb: str, operation: JSON) -> str:
    name, told = operation["operationId"], operation["responses"]["200"]["content"]["application/json"]["schema"]
    in_path = re.findall(r"{(\w+)}", path)
    address = re.sub(r"{(\w+)}", r"${encodeURIComponent(\1)}", path)
    address = f"`{address}`" if in_path else f'"{address}"'
    arguments = [f"{one}: string" for one in in_path]
    keyed = any(parameter["in"] == "header" for parameter in operation["parameters"])
    if "requestBody" in operation:
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        asked, required = (
            (_type(schema) if "$ref" in schema else _object(schema, "  ")),
            operation["requestBody"]["required"],
        )
        arguments.append(f"asked: {asked}" + ("" if required else " = {}"))
        call = f"{address}, {{}}, {{ ...asked }}"
    else:
        fields = [parameter for parameter in operation["parameters"] if parameter["in"] == "query"]
        if fields:
            part = {
                "properties": {one["name"]: one["schema"] for one in fields},
                "required": [one["name"] for one in fields if one["required"]],
            }
            arguments.append(f"asked: {_object(part, '  ')}" + ("" if part["required"] else " = {}"))
        call = f"{address}, {'{ ...asked }' if fields else '{}'}"
    if keyed:
        arguments.append("options: { idempotencyKey?: string } = {}")
        call += ", options.idempotencyKey"
    return (
        f"\n  /** {operation['summary']} */\n  {name}({', '.join(arguments)}): Promise<{_type(told)}> {{\n"
        f'    return this.#call("{verb.upper()}", {call});\n  }}\n'
    )


if __name__ == "__main__":
    sys.stdout.write(client())
