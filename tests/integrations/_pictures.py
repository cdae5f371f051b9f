"""The pictures of the guides, as Chromium shows `memkit ui` over a small store:

python -m tests.integrations._pictures          # writes docs/pictures/*.png anew
"""

from __future__ import annotations

import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from memkit import Memory
from memkit_ui.showing import link
from tests.bench._serve_ui import publish_two, run_record
from tests.integrations._shown import Shown, showing

PICTURES = Path(__file__).resolve().parents[2] / "docs" / "pictures"
_BEGAN = datetime(2026, 11, 2, 8, tzinfo=UTC)
_SAID = {
    "ana": (
        "Hi! My name is Ana, and I live in Oslo.",
        "I adopted a dog named Buddy.",
        "I am allergic to peanuts.",
        "lol ok whatever",
        "I work at a bakery.",
        "I moved to Bergen last week.",
        "Thanks, that helps!",
        "I adopted another dog named Scout.",
    ),
    "ben": ("I play the cello.", "I live in Graz.", "What do you think of it?"),
    "carla": ("My sister Ida lives in Porto.", "I bought a kayak."),
}


def _fill(path: Path) -> Path:
    with Memory(path) as memory:
        for user, lines in _SAID.items():
            for day, text in enumerate(lines):
                memory.add(text, user_id=user, at=_BEGAN + timedelta(days=day), session_id=f"day {day}")
        for label in ("up", "down"):
            hits = memory.search("Which dogs do I have?", user_id="ana", k=4)
            memory.observe(hits.trace_id, "You have two dogs, Buddy and Scout.", user_id="ana")
            memory.feedback(hits.trace_id, user_id="ana", label=label)
        allergy = next(one for one in memory.list(user_id="ana") if "peanuts" in one.text)
        memory.pin(allergy.id, user_id="ana")
    return path


def _take(shown: Shown, folder: Path) -> None:
    views = shown.memory.views
    update = next(op for op in reversed(shown.memory.history(user_id="ana")) if op.action == "update")
    read = views.reads("ana").items[0]["trace_id"]
    pages = {
        "remembered": (link("/user", u="ana"), 900, 640, False),
        "why-not": (link("/said", u="ana", q="lol ok whatever"), 900, 600, False),
        "decision": (link("/decision", u="ana", id=update.decision_id), 900, 900, True),
        "answer": (link("/answer", u="ana", id=read), 900, 640, False),
        "learning": (link("/learning"), 900, 700, True),
        "phone": (link("/timeline", u="ana"), 390, 760, True),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, (address, width, height, dark) in pages.items():
        shown.browser.size(width, height, dark=dark)
        shown.browser.go(shown.base + address)
        (folder / f"{name}.png").write_bytes(shown.browser.picture())


def take_pictures(folder: Path = PICTURES) -> None:
    with tempfile.TemporaryDirectory() as work:
        store = _fill(Path(work) / "memory")
        digest = publish_two(store, Path(work) / "work")[0]
        runs = Path(work) / "runs"
        run_record(runs / "nightly", digest)
        with showing(Path(work), store, runs) as shown:
            _take(shown, folder)


if __name__ == "__main__":
    take_pictures(*map(Path, sys.argv[1:]))
