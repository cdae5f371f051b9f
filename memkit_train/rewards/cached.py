"""A frozen model answers the same prompt the same way, so it is asked once: in this run, and with a file in any run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from memkit.engine.record import prompt_text
from memkit.models import digest, to_json
from memkit.seams.backbone import Backbone, GenReply, GenRequest, Replies
from memkit_train.replay.delegating import DelegatingBackbone


class CachedBackbone(DelegatingBackbone):
    """Greedy replies by prompt and adapter; sampled ones and failures go through. The file is append-only JSON lines,
    and a torn last line (a crash) is left out."""

    def __init__(self, inner: Backbone, file: Path | None = None) -> None:
        super().__init__(inner)
        self.file = file
        self._known: dict[str, tuple[str, str]] = {}
        self.hits = self.misses = 0
        for line in file.read_text(encoding="utf-8").splitlines() if file is not None and file.is_file() else ():
            try:
                key, text, finish = json.loads(line)
            except ValueError:
                continue
            self._known[key] = (text, finish)

    def generate(self, requests: Sequence[GenRequest]) -> Replies:
        keys = [self._key(request) for request in requests]
        missing: dict[str, GenRequest] = {}
        for key, request in zip(keys, requests, strict=True):
            if key not in self._known:
                missing.setdefault(key, request)
        self.hits, self.misses = self.hits + len(requests) - len(missing), self.misses + len(missing)
        fresh = dict(zip(missing, self.inner.generate(list(missing.values())), strict=True)) if missing else {}
        greedy = {key: reply for key, reply in fresh.items() if missing[key].sampling.temperature == 0}
        self._keep({key: reply for key, reply in greedy.items() if isinstance(reply, GenReply)})
        return [fresh[key] if key in fresh else self._reply(key) for key in keys]

    def _reply(self, key: str) -> GenReply:
        text, finish = self._known[key]
        return GenReply(text, model=self.identity, finish=finish)

    def _keep(self, fresh: dict[str, GenReply]) -> None:
        self._known.update({key: (reply.text, reply.finish) for key, reply in fresh.items()})
        if self.file is not None and fresh:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with self.file.open("a", encoding="utf-8") as out:
                out.writelines(to_json([key, reply.text, reply.finish]) + "\n" for key, reply in fresh.items())

    def _key(self, request: GenRequest) -> str:
        sampled = [request.sampling.temperature, request.sampling.seed, request.key]
        return digest(
            [
                self.identity,
                request.adapter,
                prompt_text(request.prompt),
                request.prompt.max_tokens,
                sampled if request.sampling.temperature else [],
            ]
        )
