"""The six commands of the memory tool on files that no disk holds. There is no path to escape to; what would be one on
a disk is refused all the same. Replies and errors have the wording that the model knows from the SDK's own tool."""

from __future__ import annotations

import contextlib
import posixpath
from collections.abc import Iterator, Mapping, Sequence

from anthropic.lib.tools import ToolError

from memkit.errors import MemkitError
from memkit_plug.files import File, FileChange, Files

ROOT = "/memories"

_MAX_LINES = 999_999
_NUMBER_WIDTH = 6
_DEPTH = 2
_FOLDER_BYTES = 4_096
"""What a folder weighs in listings, as on a disk."""


class Folder:
    def __init__(self, files: Files) -> None:
        self._files = files

    def view(self, path: str, view_range: Sequence[int] | None) -> str:
        place = _checked(path)
        with _in_words():
            files = self._files.all(ROOT + "/")
        if place in files:
            return _numbered(path, files[place].content, view_range)
        if not _is_folder(files, place):
            raise ToolError(f"The path {path} does not exist. Please provide a valid path.")
        lines = [f"{_size(_FOLDER_BYTES)}\t{path}"]
        lines += [f"{_size(size)}\t{path}/{name}" for name, size in _listing(files, place)]
        head = f"Here're the files and directories up to 2 levels deep in {path}, excluding hidden items:"
        return "\n".join([head, *lines])

    def create(self, path: str, text: str) -> str:
        place = _checked(path)

        def decide(change: FileChange) -> None:
            if place in change.files or _is_folder(change.files, place):
                raise ToolError(f"File {path} already exists")
            _refuse_file_as_folder(change.files, place)
            change.write(place, text)

        self._change(decide)
        return f"File created successfully at: {path}"

    def str_replace(self, path: str, old: str, new: str) -> str:
        place = _checked(path)
        snippet: list[str] = []

        def decide(change: FileChange) -> None:
            content = _there(change.files, place, path).content
            count = content.count(old)
            if count == 0:
                raise ToolError(f"No replacement was performed, old_str `{old}` did not appear verbatim in {path}.")
            if count > 1:
                lines = ", ".join(str(content[:at].count("\n") + 1) for at in _places(content, old))
                raise ToolError(
                    f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: {lines}."
                    " Please ensure it is unique"
                )
            changed = content.replace(old, new)
            change.write(place, changed)
            line, all_lines = content[: content.find(old)].count("\n"), changed.split("\n")
            snippet[:] = [_line(number + 1, all_lines[number]) for number in range(len(all_lines))][
                max(0, line - 2) : line + 3
            ]

        self._change(decide)
        return "\n".join(
            ["The memory file has been edited. Here is the snippet showing the change (with line numbers):", *snippet]
        )

    def insert(self, path: str, at: int, text: str) -> str:
        place = _checked(path)

        def decide(change: FileChange) -> None:
            lines = _there(change.files, place, path).content.split("\n")
            if lines[-1] == "":
                lines.pop()
            if not 0 <= at <= len(lines):
                raise ToolError(
                    f"Invalid `insert_line` parameter: {at}. It should be within the range [0, {len(lines)}]."
                )
            lines.insert(at, text.rstrip("\n"))
            joined = "\n".join(lines)
            change.write(place, joined if joined.endswith("\n") else f"{joined}\n")

        self._change(decide)
        return f"The file {path} has been edited."

    def delete(self, path: str) -> str:
        place = _checked(path)
        if place == ROOT:
            raise ToolError(f"Cannot delete the {ROOT} directory itself")

        def decide(change: FileChange) -> None:
            ended = [place] if place in change.files else _under(change.files, place)
            if not ended:
                raise ToolError(f"The path {path} does not exist")
            for one in ended:
                change.delete(one)

        self._change(decide)
        return f"Successfully deleted {path}"

    def rename(self, old_path: str, new_path: str) -> str:
        old, new = _checked(old_path), _checked(new_path)
        if old == ROOT:
            raise ToolError(f"Cannot rename the {ROOT} directory itself")

        def decide(change: FileChange) -> None:
            if new in change.files or _is_folder(change.files, new):
                raise ToolError(f"The destination {new_path} already exists")
            moved = [old] if old in change.files else _under(change.files, old)
            if not moved:
                raise ToolError(f"The path {old_path} does not exist")
            if new.startswith(old + "/"):
                raise ToolError(f"Cannot move {old_path} into itself")
            _refuse_file_as_folder(change.files, new)
            for one in moved:
                change.move(one, new + one[len(old) :])

        self._change(decide)
        return f"Successfully renamed {old_path} to {new_path}"

    def clear(self) -> str:
        def decide(change: FileChange) -> None:
            for one in change.files:
                change.delete(one)

        self._change(decide)
        return "All memory cleared"

    def _change(self, decide: object) -> None:
        with _in_words():
            self._files.change(ROOT + "/", decide)  # type: ignore[arg-type]


@contextlib.contextmanager
def _in_words() -> Iterator[None]:
    """To the model, which reads what went wrong."""
    try:
        yield
    except MemkitError as error:
        raise ToolError(str(error)) from None


def _checked(path: str) -> str:
    if path != ROOT and not path.startswith(ROOT + "/"):
        raise ToolError(f"Path must start with {ROOT}, got: {path}")
    place = posixpath.normpath(path)
    if (place != ROOT and not place.startswith(ROOT + "/")) or any(ord(char) < 32 for char in path):
        raise ToolError(f"Path {path} would escape {ROOT} directory")
    return place


def _there(files: Mapping[str, File], place: str, path: str) -> File:
    if place in files:
        return files[place]
    if _is_folder(files, place):
        raise ToolError(f"The path {path} is not a file.")
    raise ToolError(f"The path {path} does not exist. Please provide a valid path.")


def _under(files: Mapping[str, File], place: str) -> list[str]:
    return [path for path in files if path.startswith(place + "/")]


def _is_folder(files: Mapping[str, File], place: str) -> bool:
    return place == ROOT or bool(_under(files, place))


def _refuse_file_as_folder(files: Mapping[str, File], place: str) -> None:
    parent = posixpath.dirname(place)
    while parent != ROOT:
        if parent in files:
            raise ToolError(f"The path {parent} is not a directory.")
        parent = posixpath.dirname(parent)


def _listing(files: Mapping[str, File], place: str) -> list[tuple[str, int]]:
    """Names under a folder, depth first, folders with a closing slash; what is hidden, and all in it, is left out."""
    sizes: dict[tuple[str, ...], int] = {}
    for path in _under(files, place):
        names = tuple(path[len(place) + 1 :].split("/"))
        if any(name.startswith(".") for name in names[:_DEPTH]):
            continue
        for depth in range(1, min(len(names), _DEPTH + 1)):
            sizes[(*names[:depth], "")] = _FOLDER_BYTES
        if len(names) <= _DEPTH:
            sizes[names] = len(files[path].content.encode())
    return [("/".join(names), size) for names, size in sorted(sizes.items())]


def _numbered(path: str, content: str, view_range: Sequence[int] | None) -> str:
    lines = content.split("\n")
    if len(lines) > _MAX_LINES:
        raise ToolError(f"File {path} exceeds maximum line limit of 999,999 lines.")
    first, shown = 0, lines
    if view_range and len(view_range) == 2:
        first = max(1, view_range[0]) - 1
        shown = lines[first : len(lines) if view_range[1] == -1 else view_range[1]]
    numbered = [_line(first + number, line) for number, line in enumerate(shown, start=1)]
    return f"Here's the content of {path} with line numbers:\n" + "\n".join(numbered)


def _line(number: int, text: str) -> str:
    return f"{str(number).rjust(_NUMBER_WIDTH)}\t{text}"


def _places(content: str, text: str) -> Iterator[int]:
    at = content.find(text)
    while at != -1:
        yield at
        at = content.find(text, at + 1)


def _size(count: int) -> str:
    unit = min(max(count.bit_length() - 1, 0) // 10, 3)
    scaled = count / 1024**unit
    return f"{int(scaled) if scaled == int(scaled) else round(scaled, 1)}{'BKMG'[unit]}"
