"""Decisions as files that others load: TRL (conversational SFT, KTO, DPO), OpenAI messages, Parquet.

    sft      {"prompt": [messages], "completion": [message], …}                 trl.SFTTrainer: loss on the completion
    kto      {"prompt": [messages], "completion": [message], "label": true, …}  trl.KTOTrainer
    dpo      {"prompt": [messages], "chosen": [message], "rejected": […], …}    trl.DPOTrainer
    openai   {"messages": [messages and the reply], "metadata": {…}}            hosted fine-tuning
    parquet  every decision whole, rated or not                                 pandas, Polars, DuckDB, datasets
             `by_day`: a folder, day=2026-05-01/part-0.parquet, …               Spark, Ray, Lance

Beside it (`…`) stands what a line is worth and whose it is: reward, weight, role, style, the opaque subject, the split
and the decision's id. Users are read one at a time; who opted out is not read at all.

With `mode`, lines are written as an adapter is asked and replies (replay/rewrite.py), whatever was asked in the log.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal, get_args

from memkit.errors import InvalidInput
from memkit.models import JSON
from memkit.seams.embedder import Embedder
from memkit_train.credit.assign import credit, learn_topics
from memkit_train.credit.rows import Score, scores
from memkit_train.errors import NoRows
from memkit_train.log.records import Decision
from memkit_train.log.source import StoreSource, need_users
from memkit_train.log.splits import Split
from memkit_train.replay.env import Env
from memkit_train.replay.rewrite import Rewriter, RewrittenCall
from memkit_train.rows import GOOD

Format = Literal["sft", "kto", "dpo", "openai", "parquet"]
Side = Literal["train", "heldout", "all"]
SERVED_STYLE = "compact"
_BATCH, _OPEN = 1_000, 64
"""Rows that are written at once, and days whose files are open."""
_DATES = re.compile(r"\[[^\]\n]*\]")


@dataclass(frozen=True, slots=True)
class ExportedDecision:
    """A decision, what became of it, and whose it is."""

    decision: Decision
    score: Score | None
    subject: str
    split: str
    anew: RewrittenCall | None = None
    """As it would be asked for now."""

    @property
    def role(self) -> str:
        return self.decision.role if self.anew is None else self.anew.role

    @property
    def prompt(self) -> list[JSON]:
        messages = self.decision.messages if self.anew is None else self.anew.messages
        return [{"role": message.role, "content": message.content} for message in messages]

    @property
    def said(self) -> JSON:
        reply = self.decision.reply if self.anew is None else self.anew.reply
        return {"role": "assistant", "content": reply or ""}

    @property
    def meta(self) -> JSON:
        score, one = self.score, self.decision
        return {
            "reward": score.y if score else None,
            "weight": score.weight if score else None,
            "role": self.role,
            "style": one.style if self.anew is None else SERVED_STYLE,
            "subject": self.subject,
            "split": self.split,
            "decision_id": one.decision_id,
        }


@dataclass(frozen=True, slots=True)
class Exported:
    path: Path
    format: Format
    lines: int
    users: int
    splits: Mapping[str, int]
    """Lines by split."""
    roles: Mapping[str, int]

    def to_json(self) -> JSON:
        return {
            "path": str(self.path),
            "format": self.format,
            "lines": self.lines,
            "users": self.users,
            "splits": dict(self.splits),
            "roles": dict(self.roles),
        }


def export(
    source: StoreSource,
    path: str | Path,
    form: Format,
    embedder: Embedder,
    *,
    side: Side = "train",
    split: Split | None = None,
    mode: Literal["split", "fused"] | None = None,
    every: bool = False,
    by_day: bool = False,
) -> Exported:
    """The file or folder appears whole or not at all. `mode`: in which decisions are asked for where the result is to
    serve; None: as they were asked. `every`: what nobody rated as well, where a format holds it."""
    modes = ("split", "fused", None)
    for name, value, known in (
        ("format", form, get_args(Format)),
        ("split", side, get_args(Side)),
        ("mode", mode, modes),
    ):
        if value not in known:
            raise InvalidInput(
                f"there is no {name} {value!r} to export", fix=f"use one of {', '.join(filter(None, known))}"
            )
    path = Path(path)
    if by_day and form != "parquet":
        raise InvalidInput(f"{form} is one file", why="days are folders of Parquet", fix="say --format parquet")
    if path.is_dir() or (by_day and path.exists()):
        raise InvalidInput(f"{path} is there already", fix="name a file or folder to write that is not")
    counts = {name: Counter[str]() for name in ("subject", "split", "role")}
    rewriter = None if mode is None else Rewriter(Env(embedder, replace(source.served_with, mode=mode)), SERVED_STYLE)
    lines = _counted(_lines(form, _users(source, side, split or Split(), embedder, rewriter), every), counts)
    with _whole(path) as part:
        write = _write_json if form != "parquet" else _write_days if by_day else _write_parquet
        write(part, lines)
        total = counts["split"].total()
        if not total:
            raise _nothing(form, side)
    return Exported(path, form, total, len(counts["subject"]), counts["split"], counts["role"])


def _users(
    source: StoreSource, side: Side, split: Split, embedder: Embedder, rewriter: Rewriter | None
) -> Iterator[list[ExportedDecision]]:
    """Everything that was decided for one user, user by user. What is talked about is learned from the train side."""
    by_side: dict[str, list[str]] = {"train": [], "heldout": []}
    for user in need_users(source):
        by_side["heldout" if split.is_heldout(source.subject(user)) else "train"].append(user)
    topics = learn_topics(source, by_side["train"])
    for name, users in by_side.items():
        for episode in source.trajectories(users) if side in (name, "all") else ():
            scored = scores(credit(episode, topics, embedder).credits)
            by_id = {one.decision_id: one for one in episode.decisions}
            asked_so = [one for one in episode.decisions if rewriter is None or rewriter.is_asked_so(one)]
            found = [ExportedDecision(one, scored.get(one.decision_id), episode.subject, name) for one in asked_so]
            for call in [] if rewriter is None else rewriter.rewrite(episode)[0]:
                rated = [one for one in call.decision_ids if one in scored]
                first = by_id[(rated or call.decision_ids)[0]]
                if not call.guessed:
                    score = scored.get(first.decision_id)
                    found.append(ExportedDecision(first, score, episode.subject, name, call))
            yield found


def _counted(lines: Iterable[tuple[ExportedDecision, JSON]], counts: Mapping[str, Counter[str]]) -> Iterator[JSON]:
    for told, line in lines:
        meta = told.meta
        for name, counter in counts.items():
            counter[meta[name]] += 1
        yield line


def _lines(
    form: Format, users: Iterable[list[ExportedDecision]], every: bool
) -> Iterator[tuple[ExportedDecision, JSON]]:
    for everything in users:
        if form == "parquet":
            yield from ((one, _flat(one)) for one in everything)
            continue
        whole = [one for one in everything if _is_whole(one.decision)]
        rated = [one for one in whole if one.score is not None or (every and form in ("sft", "openai"))]
        if form == "dpo":
            yield from _pairs(rated)
        for one in rated if form != "dpo" else ():
            prompt, reply, good = one.prompt, [one.said], one.score is None or one.score.y >= GOOD
            if form == "kto":
                yield one, {"prompt": prompt, "completion": reply, "label": good, **one.meta}
            elif good and form == "sft":
                yield one, {"prompt": prompt, "completion": reply, **one.meta}
            elif good:
                yield one, {"messages": prompt + reply, "metadata": one.meta}


def _pairs(rated: Iterable[ExportedDecision]) -> Iterator[tuple[ExportedDecision, JSON]]:
    """Of one user's decisions in one state, the best against the worst, once."""
    states: dict[tuple[str, str], list[tuple[float, ExportedDecision]]] = {}
    for one in rated:
        assert one.score is not None
        state = (one.role, _DATES.sub("", one.prompt[-1]["content"]))
        states.setdefault(state, []).append((one.score.y, one))
    for group in states.values():
        (high, best), (low, worst) = max(group, key=lambda one: one[0]), min(group, key=lambda one: one[0])
        if high > low and best.said != worst.said:
            chosen, rejected = [best.said], [worst.said]
            more = {"rejected_reward": low, "rejected_id": worst.decision.decision_id}
            yield best, {"prompt": best.prompt, "chosen": chosen, "rejected": rejected, **best.meta, **more}


def _is_whole(decision: Decision) -> bool:
    """Used, and on record with prompt and reply."""
    return bool(decision.ok and decision.reply and decision.messages)


def _flat(told: ExportedDecision) -> JSON:
    one, score = told.decision, told.score
    return {
        **told.meta,
        "created_at": one.created_at,
        "model": one.model,
        "adapter": one.adapter,
        "propensity": one.propensity,
        "ok": one.ok,
        "messages": told.prompt,
        "reply": told.said["content"],
        **dict.fromkeys(("prompt_ids", "token_ids", "logprobs")),
        **({} if told.anew else {"prompt_ids": one.prompt_ids, "token_ids": one.token_ids, "logprobs": one.logprobs}),
        "why": score.whys if score else None,
    }


def _nothing(form: Format, side: Side) -> NoRows:
    if form == "dpo":
        return NoRows(
            f"there is no pair to export (split: {side})",
            why="a pair is one state of one user that was decided in two ways, which fared differently",
            fix="export kto, which needs no pairs, or collect with Memory(…, explore=0.1)",
        )
    return NoRows(
        f"there is nothing to export as {form} (split: {side})",
        why="no decision is on record there" if form == "parquet" else "no label reached a decision there",
        fix="look at the labels with `memkit-train inspect`, or name another --split",
    )


# -- files -------------------------------------------------------------------------------------------------------------


@contextmanager
def _whole(path: Path) -> Generator[Path]:
    part = path.with_name(f"{path.name}.part")
    try:
        yield part
        for file in sorted(part.rglob("*.parquet")) if part.is_dir() else [part]:
            with file.open("rb") as written:
                os.fsync(written.fileno())
        part.replace(path)
    finally:
        if part.is_dir():
            shutil.rmtree(part)
        part.unlink(missing_ok=True)


def _write_json(path: Path, lines: Iterable[JSON]) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


def _write_parquet(path: Path, rows: Iterable[JSON]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    source, schema = iter(rows), _schema()
    with pq.ParquetWriter(str(path), schema) as writer:
        while batch := list(islice(source, _BATCH)):
            writer.write_table(pa.Table.from_pylist(batch, schema=schema))


def _write_days(path: Path, rows: Iterable[JSON]) -> None:
    """Users come one after another, so days come again and again: the day that was opened first is closed for a new
    one, and gets another part when it comes back."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    source, schema, parts = iter(rows), _schema(), Counter[str]()
    writers: dict[str, Any] = {}
    path.mkdir()
    try:
        while batch := list(islice(source, _BATCH)):
            days: dict[str, list[JSON]] = {}
            for row in batch:
                days.setdefault(row["created_at"].date().isoformat(), []).append(row)
            for day, found in days.items():
                if day not in writers:
                    if len(writers) >= _OPEN:
                        writers.pop(next(iter(writers))).close()
                    folder = path / f"day={day}"
                    folder.mkdir(exist_ok=True)
                    writers[day] = pq.ParquetWriter(str(folder / f"part-{parts[day]}.parquet"), schema)
                    parts[day] += 1
                writers[day].write_table(pa.Table.from_pylist(found, schema=schema))
    finally:
        for writer in writers.values():
            writer.close()


def _schema() -> Any:
    import pyarrow as pa

    text, ids = pa.string(), pa.list_(pa.int32())
    message = pa.struct([("role", text), ("content", text)])
    return pa.schema(
        [
            ("decision_id", text),
            ("subject", text),
            ("split", text),
            ("role", text),
            ("style", text),
            ("created_at", pa.timestamp("us", "UTC")),
            ("model", text),
            ("adapter", text),
            ("propensity", pa.float64()),
            ("ok", pa.bool_()),
            ("messages", pa.list_(message)),
            ("reply", text),
            ("prompt_ids", ids),
            ("token_ids", ids),
            ("logprobs", pa.list_(pa.float64())),
            ("reward", pa.float64()),
            ("weight", pa.float64()),
            ("why", pa.list_(text)),
        ]
    )
