"""No test may leave this machine: a connection to any other address is refused, and fails the run."""

from __future__ import annotations

import ipaddress
import sys
from typing import Any

import pytest

_outside: list[str] = []


def _only_loopback(event: str, args: tuple[Any, ...]) -> None:
    if event != "socket.connect" or not isinstance(args[1], tuple):
        return
    host = str(args[1][0]).split("%", 1)[0]
    try:
        inside = ipaddress.ip_address(host).is_loopback
    except ValueError:
        inside = host == "localhost"
    if not inside:
        _outside.append(host)
        raise PermissionError(f"tests may not connect to {host}")


def pytest_configure(config: pytest.Config) -> None:
    if "live" not in config.option.markexpr.replace("not live", ""):
        sys.addaudithook(_only_loopback)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if _outside:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if _outside:
        terminalreporter.line(f"connections beyond this machine were tried: {', '.join(sorted(set(_outside)))}")
