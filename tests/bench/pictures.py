"""Messages with pictures: found by their words as messages without, and nothing of a picture in the store."""

from __future__ import annotations

import base64
import random
import tempfile
from pathlib import Path

from memkit import Memory
from tests.bench._table import Row

MESSAGES, BYTES = 1_000, 30_000
_WHAT = ("receipt", "passport", "bicycle", "garden", "invoice", "x-ray", "recipe", "ticket", "contract", "sunset")


def run(*, full: bool = False) -> list[Row]:
    order = random.Random(7)
    pictures = [order.randbytes(BYTES) for _ in range(MESSAGES)]
    texts = [f"here is the {_WHAT[n % len(_WHAT)]} from Town{n}" for n in range(MESSAGES)]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "s"
        with Memory(place) as memory:
            for text, raw in zip(texts, pictures, strict=True):
                url = f"data:image/png;base64,{base64.b64encode(raw).decode()}"
                parts = [{"type": "text", "text": text}, {"type": "image_url", "image_url": {"url": url}}]
                memory.add({"role": "user", "content": parts}, user_id="with")
                memory.add(text, user_id="without")
            found = {user: sum(_finds(memory, user, n) for n in range(MESSAGES)) for user in ("with", "without")}
            memory.flush()
            inside = sum(_holds(place, pictures))
            memory.erase(user_id="with")
            left = sum(_holds(place, pictures))
            words = sum(bool(memory.search(text, user_id="with")) for text in texts[:50])
    alike = found["with"] >= found["without"]
    return [
        Row(
            "found by the words beside them", found["with"], f"of {MESSAGES}", f">= {found['without']}, as text", alike
        ),
        Row("pictures whose bytes are in the store", inside, f"of {MESSAGES}", "0", inside == 0),
        Row("… after erasing; or words of them", left + words, "", "0", left + words == 0),
    ]


def _finds(memory: Memory, user: str, number: int) -> bool:
    hits = memory.search(f"Where is the picture from Town{number}?", user_id=user, k=3)
    one = next((hit for hit in hits if hit.text.endswith(f"Town{number}")), None)
    return one is not None and (user == "without" or "attachments" in one.memory.metadata)


def _holds(place: Path, pictures: list[bytes]) -> list[bool]:
    """Whether some of a picture is there, as bytes or as it was sent."""
    stored = b"".join(path.read_bytes() for path in place.rglob("*") if path.is_file())
    return [raw[300:360] in stored or base64.b64encode(raw[300:360]) in stored for raw in pictures]
