"""A slice of a store that can leave the house: to a GPU machine without network and without LanceDB, and the adapter
back. A plain folder:

    bundle.json           manifest: format, store, embedder, how turns were decided, watermark, counts, what was
                          redacted, sha256 of every file
    intakes.jsonl ops.jsonl decisions.jsonl traces.jsonl feedback.jsonl      the journal, in its own portable records
    embeddings.npz        vectors of the texts that were embedded, by sha256 (with `embedder`)
    adapter/              put there by the trainer, fetched by `take_adapter`

Users travel as their opaque ids, those that receipts of erasure name; metadata, idempotency keys and session
names stay at home. `redact` rewrites every text; where it changes a prompt or a reply, the token ids of that decision
are left out too, because they would spell what was removed. Users and banks that may not be learned from are not in the
bundle, and neither is what was read of all banks and served from such a one.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from memkit.engine.served_with import ServedWith
from memkit.errors import InvalidConfig, InvalidInput
from memkit.journal import Journal
from memkit.models import JSON, MemoryRecord, content_hash, digest, to_json
from memkit.retrieval import embed_text
from memkit.runtime import on_record
from memkit.seams.clock import RandomIds, SystemClock
from memkit.seams.embedder import Embedder
from memkit_train.errors import BadBundle
from memkit_train.log.source import StoreSource, need_users

FORMAT = 1
MANIFEST = "bundle.json"
_SERVED_WITH = "practice"
"""Of the manifest: what the turns were decided with, under the name that 0.1.0 gave it."""
_KINDS = {"intake": "intakes", "op": "ops", "decision": "decisions", "trace": "traces", "feedback": "feedback"}
_FIELDS: Mapping[str, type | tuple[type, ...]] = {
    "store_id": str,
    "embedder": (str, type(None)),
    "files": dict,
    "users": list,
    "counts": dict,
    "watermark": dict,
}
_ARRAYS = ("prompt_ids", "token_ids", "logprobs", "sampled_logprobs")
Redact = Callable[[str], str]


def bundle(
    source: StoreSource,
    out: str | Path,
    *,
    users: Sequence[str] | None = None,
    redact: Redact | None = None,
    embedder: Embedder | None = None,
) -> JSON:
    """Write the bundle; returns its manifest. The folder appears whole or not at all."""
    out = Path(out)
    if out.exists():
        raise InvalidInput(f"{out} is there already", fix="name a folder that does not exist yet")
    allowed = need_users(source)
    chosen = set(allowed if users is None else users)
    if not chosen <= set(allowed):
        raise InvalidInput(
            f"{len(chosen - set(allowed))} of the users are unknown here, or may not be learned from",
            fix="leave them out",
        )
    out.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    try:
        manifest = _write(source, aside, _Redaction(source, chosen, redact), embedder)
        aside.rename(out)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    return manifest


def _write(source: StoreSource, folder: Path, redaction: _Redaction, embedder: Embedder | None) -> JSON:
    files = {kind: (folder / f"{name}.jsonl").open("w", encoding="utf-8") for kind, name in _KINDS.items()}
    counts = dict.fromkeys(_KINDS, 0)
    texts: dict[str, str] = {}
    barred = source.journal.untrainable_intakes()
    try:
        for raw in source.journal.dump():
            kind = raw.get("record")
            if kind not in files or not redaction.admits(raw, barred):
                continue
            record = redaction.of(json.loads(to_json(raw)))
            files[kind].write(to_json(record) + "\n")
            counts[kind] += 1
            if embedder is not None and kind == "op" and record["after"]:
                text = embed_text(MemoryRecord.from_dict(record["after"]))
                texts[digest(text)] = text
    finally:
        for file in files.values():
            file.close()
    if embedder is not None:
        _embed(folder / "embeddings.npz", texts, embedder)
    manifest: JSON = {
        "memkit_bundle": FORMAT,
        "store_id": source.journal.store_id,
        "embedder": source.journal.meta_get("embedder"),
        "watermark": asdict(source.watermark()),
        "counts": counts,
        "users": sorted(redaction.names.values()),
        _SERVED_WITH: redaction.served_with(),
        "redacted": redaction.redact is not None,
        "without_ids": redaction.without_ids,
        "files": {path.name: _sha256(path) for path in sorted(folder.iterdir())},
    }
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    for path in folder.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())
    return manifest


class _Redaction:
    """What a record looks like outside: the same ids, other names."""

    def __init__(self, source: StoreSource, users: set[str], redact: Redact | None) -> None:
        self.names = {user_id: source.subject(user_id) for user_id in users}
        self.redact = redact
        self.without_ids = 0
        self._source, self._traces = source, set[str]()

    def served_with(self) -> JSON | None:
        known = on_record.served_with(self._source.journal)
        told = None if known is None else self._text(known.instructions)
        return None if known is None else replace(known, instructions=told or "").to_json()

    def admits(self, raw: JSON, barred: set[str]) -> bool:
        """Feedback belongs to a trace or an intake that is in; the rest to a bank."""
        if raw["record"] == "feedback":
            return raw["trace_id"] in self._traces
        bank = raw["bank"]
        untaught = raw["record"] == "decision" and raw["intake_id"] in barred
        if bank["user_id"] not in self.names or untaught:
            return False
        if not self._source.may_learn(bank["user_id"], bank["agent_id"], _served(raw)):
            return False
        self._traces.add(raw.get("trace_id") or raw.get("intake_id") or "")
        return True

    def of(self, record: JSON) -> JSON:
        if "bank" in record:
            record["bank"]["user_id"] = self.names[record["bank"]["user_id"]]
        match record["record"]:
            case "intake":
                record |= {"idempotency_key": None, "session_id": self._session(record["session_id"])}
                for turn in record["turns"]:
                    turn |= {
                        "metadata": {},
                        "text": self._text(turn["text"]),
                        "session_id": self._session(turn["session_id"]),
                    }
            case "op":
                record["text"] = self._text(record["text"])
                for image in filter(None, (record["before"], record["after"])):
                    self._image(image)
            case "decision":
                self._decision(record)
            case "trace":
                for name in ("question", "answer", "observed"):
                    if name in record["payload"]:
                        record["payload"][name] = self._text(record["payload"][name])
            case _:
                for name in ("expected", "comment"):
                    if name in record["payload"]:
                        record["payload"][name] = self._text(record["payload"][name])
        return record

    def _image(self, image: JSON) -> None:
        text = self._text(image["text"])
        if text != image["text"] and image["kind"] == "fact":
            image["content_hash"] = content_hash(text or "", "fact", image["id"])
        image |= {"text": text, "metadata": {}, "session_id": self._session(image["session_id"])}

    def _decision(self, record: JSON) -> None:
        payload = record["payload"]
        new = {key: self._text(text) for key, text in record["blobs"].items()}
        renamed = {key: digest(text) for key, text in new.items()}
        reply = self._text(payload.get("reply"))
        changed = new != record["blobs"] or reply != payload.get("reply")
        record["blobs"] = {renamed[key]: text for key, text in new.items()}
        payload["reply"] = reply
        for holder in (payload, *payload.get("attempts", ())):
            if holder.get("prompt_hash") in renamed:
                holder["prompt_hash"] = renamed[holder["prompt_hash"]]
        for one in (*payload.get("attempts", ()), *payload.get("drafts", ())):
            for name in ("reply", "text"):
                if one.get(name) is not None:
                    one[name] = self._text(one[name])
        if changed and any(name in payload for name in _ARRAYS):
            self.without_ids += 1
            for name in _ARRAYS:
                if payload.pop(name, None) is not None:
                    payload.setdefault("missing", {})[name] = "redacted for the bundle"

    def _text(self, text: str | None) -> str | None:
        return text if text is None or self.redact is None else self.redact(text)

    def _session(self, name: str) -> str:
        return digest([self._source.journal.store_id, name])[:16] if name else ""


def _served(raw: JSON) -> Sequence[JSON] | None:
    """The memories that a read was given; None where the record is of no read."""
    if raw["record"] == "trace":
        return raw["payload"].get("served", ())
    return raw["payload"].get("candidates", ()) if raw["record"] == "decision" and not raw["intake_id"] else None


def _embed(path: Path, texts: dict[str, str], embedder: Embedder) -> None:
    import numpy as np

    keys = sorted(texts)
    vectors = [embedder.embed([texts[key] for key in keys[at : at + 256]]) for at in range(0, len(keys), 256)]
    table = np.concatenate(vectors) if vectors else np.zeros((0, embedder.dim), np.float32)
    np.savez(path, keys=np.array(keys), vectors=table, identity=np.array(embedder.identity))


def _sha256(path: Path) -> str:
    found = hashlib.sha256()
    with path.open("rb") as file:
        while part := file.read(1 << 20):
            found.update(part)
    return found.hexdigest()


# -- on the other side -------------------------------------------------------------------------------------------------


def read_manifest(path: str | Path, *, check: bool = True) -> JSON:
    """The manifest, and with `check` the proof that every file is what it says."""
    path = Path(path)
    try:
        manifest: JSON = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
        version = manifest["memkit_bundle"]
        if not isinstance(version, int):
            raise TypeError
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise BadBundle(
            f"{path} is no bundle", why=type(error).__name__, fix="make one with `memkit-train bundle`"
        ) from None
    for name, kinds in _FIELDS.items() if version <= FORMAT else ():
        if not isinstance(manifest.get(name), kinds):
            raise BadBundle(
                f"the manifest of the bundle {path} is damaged",
                why=f"its {name} is missing, or no such thing",
                fix="copy the bundle again",
            )
    if version > FORMAT:
        raise BadBundle(f"{path} has format {version}; this version reads up to {FORMAT}", fix="upgrade memkit")
    _served_with(manifest, path)
    for name, expected in manifest["files"].items() if check else ():
        if not (path / name).is_file() or _sha256(path / name) != expected:
            raise BadBundle(
                f"{name} of the bundle {path} is not what the manifest says",
                why="it was changed, or did not arrive whole",
                fix="copy the bundle again",
            )
    return manifest


def _served_with(manifest: JSON, path: str | Path) -> ServedWith | None:
    """What the turns of the store were decided with; None where nothing was on record."""
    if manifest.get(_SERVED_WITH) is None:
        return None
    try:
        return ServedWith.of(manifest[_SERVED_WITH])
    except InvalidConfig as error:
        raise BadBundle(
            f"the manifest of the bundle {path} is damaged",
            why=f"what it was served with: {error.why or error.what}",
            fix="copy the bundle again",
        ) from None


def restore(path: str | Path, store: str | Path) -> Path:
    """The bundle as a store of its own: a journal, from which replay and training read as from the first one."""
    manifest = read_manifest(path)
    target = Path(store)
    journal = Journal.open(target, clock=SystemClock(), ids=RandomIds())
    try:
        if journal.meta_get("bundle") is None:
            journal.load(_records(Path(path)))
            if manifest["embedder"]:
                journal.meta_set("embedder", manifest["embedder"])
            if (served := _served_with(manifest, path)) is not None:
                on_record.record(journal, served)
            journal.meta_set("bundle", digest(manifest))
        elif journal.meta_get("bundle") != digest(manifest):
            raise BadBundle(f"{target} holds another bundle", fix="name an empty folder")
    finally:
        journal.close()
    return target


def _records(path: Path) -> Iterator[JSON]:
    for name in _KINDS.values():
        try:
            with (path / f"{name}.jsonl").open(encoding="utf-8") as file:
                for line in file:
                    record = json.loads(line)
                    if not isinstance(record, dict):
                        raise TypeError
                    yield record
        except (OSError, ValueError, TypeError, RecursionError) as error:
            raise BadBundle(
                f"{name}.jsonl of the bundle {path} cannot be read",
                why=type(error).__name__,
                fix="make the bundle again",
            ) from None


class BundleSource(StoreSource):
    """A bundle, read like a store. Restored once, beside it or where `work` says; no LanceDB is needed."""

    def __init__(self, path: str | Path, *, work: str | Path | None = None) -> None:
        self.manifest = read_manifest(path, check=False)
        self.bundle = Path(path)
        super().__init__(restore(path, work or self.bundle.with_name(self.bundle.name + ".store")))

    @property
    def store_id(self) -> str:
        """Of the store at home."""
        return self.manifest["store_id"]

    def subject(self, user_id: str) -> str:
        """Users of a bundle are known by their opaque ids already."""
        return user_id

    def find_erased(self, subjects: Iterable[str], since: int) -> set[str]:
        """A bundle cannot tell: it holds those who may be learned from now, as they were when it was made."""
        return set()

    def newest_erasure(self) -> int:
        return 0


def embeddings(path: str | Path) -> tuple[dict[str, int], object, str]:
    """(sha256 of a text → row, vectors, identity of the embedder)."""
    import numpy as np

    with zipfile.ZipFile(Path(path) / "embeddings.npz") as held:

        def array(name: str) -> Any:
            with held.open(f"{name}.npy") as file:
                return np.lib.format.read_array(file, allow_pickle=False)  # data from elsewhere never runs code

        return {str(key): row for row, key in enumerate(array("keys"))}, array("vectors"), str(array("identity"))


def put_adapter(path: str | Path, adapter: str | Path) -> None:
    """Lay a trained adapter into the bundle, for the way back."""
    read_manifest(path, check=False)
    home = Path(path) / "adapter"
    if home.exists():
        raise InvalidInput(f"{home} is there already", fix="remove it, or take it first")
    shutil.copytree(adapter, home)


def take_adapter(path: str | Path, store: StoreSource, target: str | Path) -> Path:
    """Copy the adapter out, provided that the bundle was made of this store. Publishing is another step, which checks
    its files and gates."""
    manifest = read_manifest(path, check=False)
    if manifest["store_id"] != store.journal.store_id:
        raise BadBundle(
            "the bundle was made of another store",
            why="its users, prompts and subjects are others",
            fix="unbundle it where it came from",
        )
    home, target = Path(path) / "adapter", Path(target)
    if not home.is_dir():
        raise BadBundle(f"{path} holds no adapter", fix="train with it first")
    for one in (home, *home.rglob("*")):
        if one.is_symlink() or not (one.is_dir() or one.is_file()):
            raise BadBundle(
                f"the adapter of the bundle {path} holds more than plain files",
                why=f"{one.name} is a link or a device",
                fix="do not take it: a link would carry files of this machine into the registry",
            )
    if target.exists():
        raise InvalidInput(f"{target} is there already", fix="name a folder that does not exist yet")
    shutil.copytree(home, target, symlinks=True)
    return target
