"""Answers a client's first requests over stdio while the server is imported, then hands the streams over to it.

The server also reads every message, so that it is in the state that the client expects. Its answers to
requests that were answered here are compared and not sent. This module imports only the standard library.
"""

import io
import os
import select
import sys
from collections.abc import Sequence
from pathlib import Path
from threading import Lock, Thread

import platformdirs

from quilt_mcp.commands.first_answers import Answers, open_answers
from quilt_mcp.commands.handshake import INITIALIZED, Conversation, Question, frame, read_method

CHUNK = 65_536


class Front(io.RawIOBase):
    """The client's messages as the server reads them. At first, messages with a known answer are answered here.

    Descriptors 0 and 1 are replaced: child processes must not read the client's messages, nor write to the client.

    Args:
        answers: those that are known.

    Attributes:
        answers: as given.
        output: the descriptor of the client.
        answered: the questions that were answered here, and the results.

    Raises:
        OSError: descriptor 0, 1 or 2 is closed.
    """

    def __init__(self, answers: Answers) -> None:
        self.answers = answers
        self.answered: dict[str | int, tuple[Question, str]] = {}
        self._input, self.output = os.dup(0), os.dup(1)
        with open(os.devnull, "rb") as nothing:  # noqa: PTH123 - it has no other name
            os.dup2(nothing.fileno(), 0)
        os.dup2(2, 1)
        self._lock = Lock()
        self._server_reads = not answers
        self._conversation = Conversation()
        self._read, self._incomplete = b"", b""
        self._thread: Thread | None = None
        if answers:
            self._thread = Thread(target=self._answer, daemon=True, name="front")
            self._thread.start()

    def readable(self) -> bool:
        """Return that it is."""
        return True

    def read1(self, size: int = -1) -> bytes:
        """Return the next bytes; at first those that were read already. From now on, only the server answers."""
        if self._thread:
            with self._lock:
                self._server_reads = True
                before, self._read = self._read, b""
            if before:
                return before
            self._thread.join()  # it waits for the client, as the server would
            self._thread = None
            if last := self._read + self._incomplete:
                return last
        return _read(self._input, size if size > 0 else CHUNK)

    def _answer(self) -> None:
        is_open = True
        while is_open and not self._server_reads:
            chunk = _read(self._input, CHUNK)
            with self._lock:
                *lines, self._incomplete = (self._incomplete + chunk).split(b"\n")
                for line in lines:
                    if not self._server_reads:
                        self._server_reads = not self._answer_line(line)
                    self._read += line + b"\n"
            is_open = bool(chunk)

    def _answer_line(self, line: bytes) -> bool:
        """Return whether to read on: the message was answered, or it needs no answer."""
        question = self._conversation.read(line)
        if question is None:
            return read_method(line) == INITIALIZED
        result = self.answers.find(question)
        if result is None:
            return False
        try:
            write_all(self.output, frame(question, result))
        except OSError:  # the client disconnected; the server's own answer fails in the same way
            return False
        self.answered[question.request_id] = question, result
        return True


def open_front(arguments: Sequence[str]) -> Front | None:
    """Take the streams of this process, or return those that were taken before.

    Args:
        arguments: of the command.

    Returns:
        None if the standard streams are not files, such as those of a program that embeds this command.
    """
    taken = getattr(sys.stdin, "buffer", None)
    if isinstance(taken, Front):
        return taken
    try:
        usual = [stream.fileno() for stream in (sys.stdin, sys.stdout, sys.stderr)] == [0, 1, 2]
    except (io.UnsupportedOperation, AttributeError):  # replaced, or closed
        return None
    if not usual:
        return None
    folder: Path | None
    try:
        folder = platformdirs.user_cache_path("quilt-mcp", appauthor=False)
    except RuntimeError:  # the user has no home directory; `serve` says so, if it needs one
        folder = None
    front = Front(open_answers(folder, arguments))
    sys.stdin = io.TextIOWrapper(front, encoding="utf-8")
    return front


def write_all(descriptor: int, content: bytes | memoryview) -> None:
    """Write all bytes to a descriptor."""
    left = memoryview(content)
    while left:
        try:
            left = left[os.write(descriptor, left) :]
        except BlockingIOError:  # another program that has the same stream can set this
            select.select((), (descriptor,), ())


def has_reader(descriptor: int) -> bool:
    """Return whether the other end of the pipe is open. On Windows, only a write shows that it is closed."""
    if sys.platform == "win32":
        return True
    poll = select.poll()
    poll.register(descriptor, 0)
    # macOS reports POLLNVAL for a terminal
    return not any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


def _read(descriptor: int, size: int) -> bytes:
    while True:
        try:
            return os.read(descriptor, size)
        except BlockingIOError:
            select.select((descriptor,), (), ())
