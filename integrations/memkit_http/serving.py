"""Listening: the port is taken first, so that what is printed is true, and a port in use is told in words."""

from __future__ import annotations

import importlib.util
import logging
import signal
import socket
import sys
import threading
from typing import TYPE_CHECKING, Literal

from memkit.errors import InvalidConfig, MissingExtra
from memkit.inputs import whole_number

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from memkit import Memory


def need(who: str, extra: str, *packages: str) -> None:
    """Before anything is opened."""
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise MissingExtra(f"{who} needs the package {package}", fix=f'pip install "memkit[{extra}]"')


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 takes any free one."""
    whole_number(port, "port", 0, 65_535)
    found = None
    try:
        family, kind, number, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        found = socket.socket(family, kind, number)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
        found.listen(128)
    except (OSError, UnicodeError) as error:
        if found is not None:
            found.close()
        raise InvalidConfig(
            f"nothing can listen at {host}:{port}",
            why=getattr(error, "strerror", None) or str(error),
            fix="choose another --port (0 takes any free one), or stop what uses it",
        ) from None
    return found


def announce(what: str, host: str, at: socket.socket, path: str, memory: Memory) -> None:
    """Where it listens, and who decides what is remembered."""
    name = f"[{host}]" if ":" in host else host
    sys.stdout.write(f"{what} listens at http://{name}:{at.getsockname()[1]}{path}\n")
    sys.stdout.write(f"memories are decided by {memory.stats()['model']}\n")
    sys.stdout.flush()


def listen(
    app: ASGIApp, at: socket.socket, *, lifespan: Literal["on", "off", "auto"] = "off", log_level: str = "warning"
) -> None:
    """Until the process is told to stop: once the last call is answered, whoever opened the memory closes it."""
    import uvicorn

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _end)  # uvicorn raises it again at its end
    logging.getLogger("memkit.http").addHandler(logging.StreamHandler())
    config = uvicorn.Config(app, log_level=log_level, access_log=False, server_header=False, lifespan=lifespan)
    uvicorn.Server(config).run(sockets=[at])


def _end(*_: object) -> None:
    raise SystemExit(0)
