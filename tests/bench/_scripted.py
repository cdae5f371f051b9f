"""A backbone that says what it is told to, per role, and counts how often it was asked."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from memkit.seams.backbone import GenReply, GenRequest, Replies

Say = "str | Callable[[GenRequest], str]"


class Scripted:
    max_parallel = 64

    def __init__(
        self, says: Mapping[str, Any], *, style: str = "json", delay_s: float = 0.0, cut: bool = False
    ) -> None:
        self.says, self.style, self.delay_s, self.cut = dict(says), style, delay_s, cut
        self.asked: Counter[str] = Counter()

    identity = "scripted/1"

    def generate(self, requests: Sequence[GenRequest]) -> Replies:
        if self.delay_s:
            time.sleep(self.delay_s)
        out = []
        for request in requests:
            self.asked[request.prompt.role] += 1
            say = self.says[request.prompt.role]
            text = say(request) if callable(say) else say
            finish = "length" if self.cut and request.prompt.role == self.says.get("_cut") else "stop"
            out.append(GenReply(text, model=self.identity, finish=finish, missing=_MISSING))
        return out

    def close(self) -> None: ...


_MISSING = {
    name: "a scripted reply has no tokens" for name in ("prompt_ids", "token_ids", "logprobs", "sampled_logprobs")
}
