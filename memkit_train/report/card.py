"""The model card that lies beside an adapter: what it is for, what it learned from, how it was judged."""

from __future__ import annotations

from memkit.models import JSON


def model_card(record: JSON) -> str:
    """Markdown with the metadata block that model hubs read. Names no user and quotes no text."""
    config, stages = record.get("config", {}), record.get("stages", {})
    model, method, data = config.get("model", {}), config.get("method", {}), config.get("data", {})
    verdict: JSON = stages.get("evaluate", {}).get("verdict") or {}
    counts = stages.get("collect", {}).get("counts", {})
    roles = ", ".join(data.get("roles", ()))
    lines = [
        "---",
        "library_name: peft",
        f"base_model: {model.get('base', '')}",
        "tags: [memkit, lora, memory]",
        "---",
        "",
        f"# memkit adapter for {roles}",
        "",
        f"Trained with `{method.get('name', '')}` (seed {method.get('seed', 0)}) on decisions that a memkit store "
        "logged, credited from what users said about answers.",
        "",
        "## Data",
        "",
        *(f"- {name}: {value}" for name, value in counts.items()),
        "",
        "## Gate",
        "",
        f"Outcome: **{verdict.get('outcome', 'not run')}**",
        "",
        "| check | passed | bar | measured |",
        "|---|---|---|---|",
    ]
    for check in verdict.get("checks", ()):
        word = {True: "yes", False: "no"}.get(check.get("passed"), "not judged")
        lines.append(f"| {check.get('name', '')} | {word} | {check.get('bar', '')} | {check.get('why', '')} |")
    lines += [
        "",
        "## Limits",
        "",
        "It speaks one prompt version, one chat template and one retrieval contract: all are named in its manifest, "
        "and the runtime refuses it elsewhere. It was judged on users of this store alone.",
        "",
    ]
    return "\n".join(lines)
