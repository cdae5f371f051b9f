"""Reading a pickle as data.

Qdrant's local store keeps its points pickled. Unpickling runs whatever the file says, so this reads the stream and
runs nothing: plain values come out as they are, an object as its state, and anything else is refused.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable
from typing import Any

MAX_OPCODES = 1_000_000


class NotPlain(ValueError):
    """The stream holds more than plain values and the state of objects."""


_VALUES = {
    "BINUNICODE",
    "SHORT_BINUNICODE",
    "BINUNICODE8",
    "UNICODE",
    "BININT",
    "BININT1",
    "BININT2",
    "LONG1",
    "LONG4",
    "INT",
    "LONG",
    "BINFLOAT",
    "FLOAT",
    "BINBYTES",
    "SHORT_BINBYTES",
    "BINBYTES8",
}
_CONSTANTS: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_DICT": dict,
    "EMPTY_LIST": list,
    "EMPTY_SET": list,
    "EMPTY_TUPLE": list,
}
_MARK = object()


class Object(dict[str, Any]):
    """An object of whatever class: its state."""


def read(raw: bytes) -> Any:
    machine = _Machine()
    try:
        for number, (opcode, argument, _) in enumerate(pickletools.genops(raw)):
            if number > MAX_OPCODES:
                raise NotPlain("it is too long")
            if opcode.name == "STOP":
                return machine.stack[-1]
            machine.step(opcode.name, argument)
    except NotPlain:
        raise
    except (IndexError, KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise NotPlain(f"it is damaged ({type(error).__name__})") from None
    raise NotPlain("it has no end")


class _Machine:
    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def step(self, name: str, argument: Any) -> None:
        stack = self.stack
        if name in ("PROTO", "FRAME"):
            return
        if name in _VALUES:
            stack.append(argument)
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name]())
        elif name == "MARK":
            stack.append(_MARK)
        elif name == "MEMOIZE":
            self.memo[len(self.memo)] = stack[-1]
        elif name in ("BINPUT", "LONG_BINPUT", "PUT"):
            self.memo[int(argument)] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET", "GET"):
            stack.append(self.memo[int(argument)])
        elif name in ("TUPLE1", "TUPLE2", "TUPLE3"):
            count = int(name[-1])
            stack[-count:] = [stack[-count:]]
        elif name in ("TUPLE", "LIST", "FROZENSET"):
            stack.append(self._marked())
        elif name == "APPEND":
            value = stack.pop()
            stack[-1].append(value)
        elif name in ("APPENDS", "ADDITEMS"):
            values = self._marked()
            stack[-1].extend(values)
        elif name == "SETITEM":
            value, key = stack.pop(), stack.pop()
            stack[-1][key] = value
        elif name == "SETITEMS":
            values = self._marked()
            stack[-1].update(zip(values[::2], values[1::2], strict=True))
        elif name == "GLOBAL":
            stack.append(Object)  # which class it is does not matter: none is made
        elif name == "STACK_GLOBAL":
            stack[-2:] = [Object]
        elif name in ("NEWOBJ", "REDUCE"):
            stack[-2:] = [Object()]
        elif name == "BUILD":
            state = stack.pop()
            stack[-1].update(state.get("__dict__", state))
        elif name in ("POP", "POP_MARK"):
            self._marked() if name == "POP_MARK" else stack.pop()
        else:
            raise NotPlain(f"it uses {name}")

    def _marked(self) -> list[Any]:
        start = len(self.stack) - 1 - self.stack[::-1].index(_MARK)
        values = self.stack[start + 1 :]
        del self.stack[start:]
        return values
