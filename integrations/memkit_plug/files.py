"""Memories as named files. A file is an episode whose first line is its path, so search finds it by name and content,
and history, undo, export and erase work on it. A change is decided on one state of the bank and refused when another
process changed it meanwhile; then it is decided again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from memkit.errors import Conflict, InvalidText, LimitExceeded, NotFound
from memkit.inputs import has_surrogates
from memkit.models import MemoryRecord, Op, OpDraft, digest
from memkit.ops import make_op_id
from memkit_plug.bound import AnyMemory, open_bank

T = TypeVar("T")

_ATTEMPTS = 100


@dataclass(frozen=True, slots=True)
class File:
    path: str
    content: str
    record: MemoryRecord
    doubles: tuple[str, ...] = ()
    """Memories of the same path that an undo brought back beside this one; the next change ends them."""

    @property
    def extra(self) -> Mapping[str, Any]:
        """What the host keeps with the file."""
        return self.record.metadata.get("extra") or {}


@dataclass(slots=True)
class FileChange:
    """Files as they are, and what is to become of them."""

    files: dict[str, File]
    drafts: list[OpDraft] = field(default_factory=list)
    doubles: list[str] = field(default_factory=list)
    """Of the files that change."""

    def write(self, path: str, content: str, extra: Mapping[str, Any] | None = None) -> None:
        there = self.files.get(path)
        self._draft("add" if there is None else "update", there, path, content, extra)

    def move(self, path: str, new_path: str) -> None:
        there = self.files[path]
        self._draft("update", there, new_path, there.content, there.extra)

    def delete(self, path: str, note: str | None = None) -> None:
        """`note` is kept with the op."""
        self.drafts.append(OpDraft("delete", self.files[path].record.id, text=note, origin="api"))
        self.doubles += self.files[path].doubles

    def note(self, note: str) -> None:
        """Nothing changes, and that it was asked for is on record."""
        self.drafts.append(OpDraft("noop", text=note, origin="api"))

    def _draft(self, action: Any, there: File | None, path: str, content: str, extra: Any) -> None:
        metadata = {"file": path, **({"extra": dict(extra)} if extra else {})}
        self.drafts.append(
            OpDraft(
                action,
                None if there is None else there.record.id,
                f"{path}\n{content}",
                kind="episode",
                metadata=metadata,
                origin="api",
                content_salt=digest(["file", path]),
            )
        )
        if there is not None:
            self.doubles += there.doubles


class Files:
    """The files of one bank. Each host keeps its own under a prefix."""

    def __init__(self, memory: AnyMemory, user_id: str | None = None, agent_id: str | None = None) -> None:
        self._bank = open_bank(memory, user_id, agent_id)

    @property
    def scope(self) -> tuple[str, str]:
        """Whose they are: (owner, agent)."""
        return self._bank.bank.user_id, self._bank.bank.agent_id

    def all(self, prefix: str) -> dict[str, File]:
        """Path → file, sorted, of all paths that start with `prefix`."""
        found: dict[str, File] = {}
        for record in self._bank.live(kinds=["episode"]):
            file = _file(record)
            if file is not None and file.path.startswith(prefix):
                earlier = found.get(file.path)
                doubles = (*earlier.doubles, earlier.record.id) if earlier is not None else ()
                found[file.path] = replace(file, doubles=doubles)
        return dict(sorted(found.items()))

    def change(
        self, prefix: str, decide: Callable[[FileChange], T], *, decision_id: str | None = None
    ) -> tuple[T, list[Op]]:
        """What `decide` returns, and the ops it led to. It may run again, so all it does to the world is done through
        the change it is given; what it raises leaves everything as it is. A `decision_id` is applied once, ever: see
        `decided`."""
        left = _ATTEMPTS
        while True:
            left -= 1
            seq, _ = self._bank.version()
            change = FileChange(self.all(prefix))
            result = decide(change)
            drafts = [self._checked(draft) for draft in change.drafts]
            if not drafts:
                return result, []
            try:
                if change.doubles:  # before the change, which may write the very words of one of them
                    ended = [OpDraft("delete", memory_id, origin="api") for memory_id in change.doubles]
                    self._bank.commit(ended, expected_seq=seq)
                    continue
                return result, self._bank.commit(drafts, expected_seq=seq, decision_id=decision_id)
            except (Conflict, NotFound):
                if not left:
                    raise

    def find_op(self, decision_id: str) -> Op | None:
        """The first op of an earlier change."""
        ops = self._bank.ops(op_id=make_op_id(decision_id, 0))
        return ops[0] if ops else None

    def _checked(self, draft: OpDraft) -> OpDraft:
        text = draft.text or ""
        if draft.metadata is not None:
            path, _, content = text.partition("\n")
            text = f"{path}\n{self._bank.redact(content)}"
            draft = replace(draft, text=text)
        if has_surrogates(text) or "\x00" in text.partition("\n")[0]:
            raise InvalidText("a file holds what cannot be written as UTF-8", fix="repair the text")
        if len(text.encode()) > self._bank.max_text_bytes:
            raise LimitExceeded(f"a file has more than {self._bank.max_text_bytes} bytes", fix="split it into several")
        return draft


def _file(record: MemoryRecord) -> File | None:
    path = record.metadata.get("file")
    if not isinstance(path, str):
        return None
    first, _, content = record.text.partition("\n")
    return File(path, content, record) if first == path else None
