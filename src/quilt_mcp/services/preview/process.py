"""Starts the process that opens a file, gives it the ranges that it asks for, and ends it in time."""

import json
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from importlib.util import find_spec
from typing import IO, Protocol, cast

from quilt_mcp.app.build import advise_extra
from quilt_mcp.app.pools import interruptible
from quilt_mcp.core.answers import JSONObject
from quilt_mcp.core.errors import Unavailable
from quilt_mcp.core.tracing import current_caller_hash
from quilt_mcp.services.preview.asked import Asked
from quilt_mcp.services.preview.child import CPU_SECONDS, MOST_READ
from quilt_mcp.services.preview.refused import Refused

COMMAND = (sys.executable, "-P", "-s", "-B", "-X", "utf8", "-m", "quilt_mcp.services.preview")
KEPT = ("PATH", "LD_LIBRARY_PATH", "SYSTEMROOT")
"""What the process gets of the environment, which can hold keys."""
SECONDS = 2.0 * CPU_SECONDS
MOST_AT_ONCE, MOST_OF_ONE = 8, 2
"""How many files are opened at the same time, and how many of them for one caller who is identified."""
LONGEST_LINE = 400_000
LIBRARIES = {"csv": "pyarrow", "excel": "openpyxl", "json_lines": "pyarrow", "parquet": "pyarrow", "pdf": "pypdf"}
"""The library that opens each kind of file."""


class Source(Protocol):
    """What the process reads."""

    @property
    def size(self) -> int: ...

    def read(self, start: int, size: int) -> bytes: ...


class Buffered:
    """Bytes that are in memory, as a source."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    @property
    def size(self) -> int:
        return len(self._content)

    def read(self, start: int, size: int) -> bytes:
        return self._content[start : start + size]


class Openers:
    """Limits how many files are opened at the same time, by all callers and by each. It belongs to an app."""

    def __init__(self, _: object) -> None:
        self._changed = threading.Condition()
        self._held = Counter[str]()

    async def close(self) -> None:
        """Do nothing: each process ends with the read that started it, or at its time limit."""

    @contextmanager
    def take_place(self, caller: str | None, seconds: float = SECONDS) -> Iterator[None]:
        """Hold one of the places.

        Args:
            caller: identifies the caller; None for the local user, who can use all places.
            seconds: how long to wait for a place.

        Raises:
            Unavailable: no place was free in time.
        """
        name, most = caller or "", MOST_OF_ONE if caller else MOST_AT_ONCE
        with self._changed:
            is_free = self._changed.wait_for(
                lambda: self._held.total() < MOST_AT_ONCE and self._held[name] < most, timeout=seconds
            )
            if not is_free:
                raise Unavailable("Too many files are being opened at the same time.")
            self._held[name] += 1
        try:
            yield
        finally:
            with self._changed:
                self._held -= Counter([name])
                self._changed.notify_all()


def open_file(openers: Openers, asked: Asked, source: Source, command: Sequence[str] = COMMAND) -> JSONObject:
    """Return what the process found in a file.

    Args:
        openers: of the app.
        asked: what to show of it.
        source: the file.
        command: starts the process.

    Raises:
        Refused: the file cannot be shown.
        ResourceFailure: the source cannot be read.
    """
    if find_spec(LIBRARIES[asked.kind]) is None:
        raise Refused(f"To show it, {advise_extra('preview')}, and restart this server.")
    environment = {name: os.environ[name] for name in KEPT if name in os.environ}
    environment |= {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    place = openers.take_place(current_caller_hash())
    with place, _start(command, environment) as process, interruptible(process.kill):
        timer = threading.Timer(SECONDS, process.kill)
        timer.daemon = True
        timer.start()
        try:
            return _talk(process, source, asked)
        finally:
            timer.cancel()
            process.kill()


@contextmanager
def _start(command: Sequence[str], environment: Mapping[str, str]) -> Iterator["subprocess.Popen[bytes]"]:
    """Start the process. At the end, wait until it has ended, and drop what was not sent to it."""
    process = subprocess.Popen(  # noqa: S603 - a constant command
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        for pipe in (process.stdin, process.stdout):
            with suppress(OSError):
                cast("IO[bytes]", pipe).close()
        process.wait()


def _talk(process: "subprocess.Popen[bytes]", source: Source, asked: Asked) -> JSONObject:
    writer, reader, left = cast("IO[bytes]", process.stdin), cast("IO[bytes]", process.stdout), MOST_READ
    with suppress(BrokenPipeError):  # the process has ended; what it said before tells more
        writer.write(json.dumps(asdict(asked)).encode() + b"\n")
        writer.flush()
        while (line := reader.readline(LONGEST_LINE)).endswith(b"\n"):
            message = json.loads(line)
            if "read" not in message:
                return _check(message)
            start, size = message["read"]
            left -= size
            if left < 0 or start < 0:
                break
            part = source.read(start, size)
            writer.write(len(part).to_bytes(4, "big") + part)
            writer.flush()
    raise Refused("It takes too much time or memory to open, or it is damaged.")


def _check(message: JSONObject) -> JSONObject:
    if "bug" in message:
        raise RuntimeError(f"the process that opens files raised {str(message['bug'])[:80]}")
    if isinstance(done := message.get("done"), dict):
        return done
    raise Refused(str(message.get("failed")))
