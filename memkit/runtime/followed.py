"""What was erased elsewhere must go from here, too: each machine keeps a LanceDB of its own beside a shared journal. Or
all share one on object storage; then what was erased from that is noted in the journal, for all of them, and each
machine still forgets what its shadows decided.

The journal names erasures by what only its own salt makes of a user id, and so does whoever looks for their rows. An
erasure of a part leaves a user with other rows, which are then written anew with everything else."""

from __future__ import annotations

import json
import os
import secrets
from typing import TYPE_CHECKING

from memkit.journal.disk import from_os_error

if TYPE_CHECKING:
    from memkit.journal import Journal
    from memkit.store import Projection

_FILE = "erased.json"


class Followed:
    """The erasures that reached this machine. A store that is one folder has nothing to follow."""

    def __init__(self, journal: Journal) -> None:
        self._journal, self._file = journal, journal.place / _FILE
        self._key = f"erased_from/{journal.catalog.place}" if journal.catalog is not None else ""

    @property
    def is_there(self) -> bool:
        """Whether anything was ever written to LanceDB."""
        catalog = self._journal.catalog
        return (self._journal.place / "lance").is_dir() if catalog is None else catalog.read() is not None

    @property
    def is_current(self) -> bool:
        """Whether LanceDB holds nothing of what was erased: until then it answers nothing."""
        if not self._journal.is_shared or not self.is_there:
            return True
        return self._journal.erasure_count() == len(self._done())

    def follow(self, projection: Projection) -> bool:
        """Erase here what was erased; with the applier lock. True: LanceDB is to be built anew."""
        done, receipts = self._done(), self._journal.erasures()
        fresh = {receipt.subject for receipt in receipts if receipt.erasure_id not in done}
        users = [user for user in projection.users() if self._journal.subject(user) in fresh] if fresh else []
        covered, again = projection.watermark(), False
        for user in users:
            projection.erase(user)
            again |= any(record.seq <= covered for _, record in self._journal.live(user_id=user, limit=1))
        if not again:
            self.note([receipt.erasure_id for receipt in receipts])
        return again

    def list_erased(self) -> list[str]:
        """Looked up before LanceDB is built anew, by a journal from which these are gone."""
        return [receipt.erasure_id for receipt in self._journal.erasures()] if self._journal.is_shared else []

    def note(self, erasure_ids: list[str]) -> None:
        if not self._journal.is_shared:
            return
        if self._key:
            self._journal.meta_set(self._key, json.dumps(erasure_ids))
        self._note_here(erasure_ids)

    def follow_here(self) -> None:
        """What is this machine's alone, where LanceDB is not."""
        if self._key and self._journal.erasure_count() != len(self._done_here()):
            self._note_here(self.list_erased())

    def _note_here(self, erasure_ids: list[str]) -> None:
        self._forget_compared(set(erasure_ids) - self._done_here())
        aside = self._file.with_name(f"{_FILE}.{secrets.token_hex(4)}")
        try:
            aside.write_text(json.dumps(erasure_ids) + "\n", "utf-8")
            os.replace(aside, self._file)
        except OSError as error:
            raise from_os_error(error, self._file) from error

    def _forget_compared(self, fresh: set[str]) -> None:
        """What shadows of this machine decided for those users."""
        from memkit.adapters.opening import FOLDER
        from memkit.adapters.shadow import SHADOW, ShadowLog

        compared = ShadowLog(self._journal.place / FOLDER / SHADOW)
        subjects = {receipt.subject for receipt in self._journal.erasures() if receipt.erasure_id in fresh}
        for user in {pair.user_id for pair in compared.read()} if subjects else ():
            if self._journal.subject(user) in subjects:
                compared.forget(user)

    def _done(self) -> set[str]:
        return set(json.loads(self._journal.meta_get(self._key) or "[]")) if self._key else self._done_here()

    def _done_here(self) -> set[str]:
        try:
            return set(json.loads(self._file.read_text("utf-8")))
        except (OSError, ValueError):
            return set()
