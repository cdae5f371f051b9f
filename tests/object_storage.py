"""Real S3 for tests and benchmarks, from a package: moto's server, a process of its own on loopback, behind a gate that
can count, cut and hold requests. Conditional writes are refused there as S3 refuses them."""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from functools import cache

import pytest

BUCKET = "memories"
_KEYS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_REGION": "us-east-1",
    "AWS_ALLOW_HTTP": "true",
    "NO_PROXY": "127.0.0.1",
}


class Gate:
    """Between whoever uses the bucket and the server. Each request passes `admit(number, line)`: False cuts the
    connection, and the server never sees it."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self._listener.getsockname()[1]
        self._mutex = threading.Lock()
        self.count = 0
        self.admit: Callable[[int, str], bool] = lambda number, line: True
        threading.Thread(target=self._accept, daemon=True).start()

    def reset(self, admit: Callable[[int, str], bool] | None = None) -> None:
        with self._mutex:
            self.count, self.admit = 0, admit or (lambda number, line: True)

    def _accept(self) -> None:
        while True:
            asks, _ = self._listener.accept()
            threading.Thread(target=self._serve, args=(asks,), daemon=True).start()

    def _serve(self, asks: socket.socket) -> None:
        """One request after another on a connection, and their answers, as bytes."""
        with contextlib.suppress(OSError), asks, socket.create_connection(("127.0.0.1", self._target)) as there:
            threading.Thread(target=_pour, args=(there, asks), daemon=True).start()
            source = asks.makefile("rb")
            while head := _read_head(source):
                line = head.split(b"\r\n", 1)[0].decode("latin-1")
                with self._mutex:
                    self.count += 1
                    number, admit = self.count, self.admit
                if not admit(number, line):
                    asks.shutdown(socket.SHUT_RDWR)
                    return
                there.sendall(head)
                left = _length(head)
                while left:
                    data = source.read1(min(left, 1 << 16))
                    if not data:
                        return
                    there.sendall(data)
                    left -= len(data)


def _pour(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)


def _read_head(source: object) -> bytes:
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        line: bytes = source.readline()  # type: ignore[attr-defined]
        if not line:
            return b""
        head += line
    return head


def _length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.partition(b":")[2])
    return 0


class ObjectStorage:
    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = self.port = free.getsockname()[1]
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._direct = f"http://127.0.0.1:{port}"
        while not self._answers():
            assert self._process.poll() is None, "moto.server did not start"
            time.sleep(0.05)
        self.gate = Gate(port)
        _call("PUT", f"{self._direct}/{BUCKET}")
        self.environment = {**_KEYS, "AWS_ENDPOINT": f"http://127.0.0.1:{self.gate.port}"}

    def _answers(self) -> bool:
        try:
            _call("GET", f"{self._direct}/moto-api/")
        except OSError:
            return False
        return True

    def objects(self, prefix: str) -> dict[str, bytes]:
        """Every object below a prefix, with its bytes; past the gate."""
        from pyarrow import fs

        where = self._direct.partition("://")[2]
        there = fs.S3FileSystem(access_key="test", secret_key="test", endpoint_override=where, scheme="http")
        found = there.get_file_info(fs.FileSelector(f"{BUCKET}/{prefix}", allow_not_found=True, recursive=True))
        files = [one.path for one in found if one.type == fs.FileType.File]
        return {path: there.open_input_file(path).read() for path in files}

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()


def _call(method: str, url: str) -> bytes:
    with urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=10) as answer:
        return answer.read()


@cache
def object_storage() -> ObjectStorage | None:
    """None where the package is not installed."""
    if importlib.util.find_spec("moto") is None or importlib.util.find_spec("flask") is None:
        return None
    made = ObjectStorage()
    atexit.register(made.stop)
    return made


@contextlib.contextmanager
def reached(storage: ObjectStorage) -> Iterator[None]:
    """LanceDB finds it there, as it finds any: by the environment."""
    before = {name: os.environ.get(name) for name in storage.environment}
    os.environ.update(storage.environment)
    storage.gate.reset()
    try:
        yield
    finally:
        storage.gate.reset()
        for name, value in before.items():
            if value is None:
                os.environ.pop(name)
            else:
                os.environ[name] = value


def own_bucket() -> ObjectStorage:
    """For a test, which is skipped where there is none."""
    found = object_storage()
    if found is None:
        pytest.skip("moto[server] is not installed: no object storage to test on")
    return found
