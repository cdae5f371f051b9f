"""Documents in passages: what an embedder reads as a whole, each with its place (the headings above it, its page)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser

from memkit.text.passages import WINDOW, windows

_BETWEEN = " › "
_HEADING = re.compile(r"^ {0,3}(#{1,6})\s+(.+?)\s*#*\s*$")
_UNDERLINE = re.compile(r"^ {0,3}(=+|-{2,})\s*$")
_FENCE = re.compile(r"^ {0,3}(```|~~~)")
_FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
_LONGEST_HEADING = 120
_SILENT = frozenset({"script", "style", "noscript", "template", "svg", "title", "nav"})
_BREAKS = "p div section article main header footer li ul ol table tr td th br hr pre blockquote dt dd figcaption"
_BLOCKS = frozenset(_BREAKS.split())


@dataclass(frozen=True, slots=True)
class Passage:
    text: str
    """Under its headings: they say what it is about."""
    heading: str = ""
    page: int = 0
    """From 1; 0 where the document has no pages."""


def read_plain(text: str) -> list[Passage]:
    return list(_passages("", text))


def read_pages(pages: Sequence[str]) -> list[Passage]:
    return [one for number, text in enumerate(pages, 1) for one in _passages("", text, number)]


def read_markdown(text: str) -> list[Passage]:
    """Headings count outside of code alone; what stands before the first has none."""
    outline = _Outline()
    fence = ""
    for line in _FRONT_MATTER.sub("", text.replace("\r\n", "\n")).split("\n"):
        opened = _FENCE.match(line)
        if opened and fence in ("", opened[1]):
            fence = "" if fence else opened[1]
        heading = None if fence or opened or len(line) > 2 * _LONGEST_HEADING else _HEADING.match(line)
        if heading:
            outline.open(len(heading[1]), heading[2])
        elif not fence and (under := _UNDERLINE.match(line)) and outline.last_line:
            outline.open(1 if under[1][0] == "=" else 2, outline.take_line())
        else:
            outline.say(line + "\n")
    return outline.close()


def read_html(text: str) -> list[Passage]:
    """What a browser would show, but for menus."""
    page = _Page()
    page.feed(text)
    page.close()
    return page.outline.close()


READERS: dict[str, Callable[[str], list[Passage]]] = {
    ".txt": read_plain,
    ".text": read_plain,
    ".md": read_markdown,
    ".markdown": read_markdown,
    ".html": read_html,
    ".htm": read_html,
}
"""By the ending of a document's name."""


class _Outline:
    """The headings above a place, and what is said under them."""

    def __init__(self) -> None:
        self._above: dict[int, str] = {}
        self._said: list[str] = []
        self._found: list[Passage] = []

    @property
    def last_line(self) -> str:
        return self._said[-1].strip() if self._said else ""

    def take_line(self) -> str:
        return self._said.pop().strip()

    def say(self, text: str) -> None:
        self._said.append(text)

    def open(self, level: int, heading: str) -> None:
        self._flush()
        self._above = {one: above for one, above in self._above.items() if one < level}
        self._above[level] = " ".join(heading.split())[:_LONGEST_HEADING]

    def close(self) -> list[Passage]:
        self._flush()
        return self._found

    def _flush(self) -> None:
        heading = _BETWEEN.join(self._above[level] for level in sorted(self._above))
        self._found += _passages(heading, "".join(self._said))
        self._said = []


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.outline = _Outline()
        self._silent: list[str] = []
        self._heading: list[str] | None = None

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag in _SILENT:
            self._silent.append(tag)
        elif _level(tag):
            self._heading = []
        elif tag in _BLOCKS:
            self.outline.say("\n")

    def handle_endtag(self, tag: str) -> None:
        if tag in self._silent:
            del self._silent[self._silent.index(tag) :]
        elif _level(tag) and self._heading is not None:
            self.outline.open(_level(tag), "".join(self._heading))
            self._heading = None
        elif tag in _BLOCKS:
            self.outline.say("\n")

    def handle_data(self, data: str) -> None:
        if self._silent:
            return
        if self._heading is not None:
            self._heading.append(data)
        else:
            self.outline.say(re.sub(r"\s+", " ", data))


def _level(tag: str) -> int:
    return int(tag[1]) if len(tag) == 2 and tag[0] == "h" and tag[1] in "123456" else 0


def _passages(heading: str, text: str, page: int = 0) -> Iterator[Passage]:
    said = re.sub(r"\n\s*\n+", "\n", re.sub(r"[^\S\n]+", " ", text)).strip()
    for window in windows(said, WINDOW - len(heading) if heading else WINDOW):
        yield Passage(f"{heading}\n{window}" if heading else window, heading, page)
