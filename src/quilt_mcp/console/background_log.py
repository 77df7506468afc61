"""Handlers of logs whose lines a thread writes. A slow disk, or a stalled reader of stderr, delays no request."""

import logging
import select
from collections.abc import Callable
from logging.handlers import QueueHandler, QueueListener
from queue import Empty, Full, SimpleQueue
from threading import Event
from typing import TextIO

CLOSE_SECONDS = 3.0
REST_SECONDS = 0.05


class LineHandler(logging.StreamHandler[TextIO]):
    """Writes the message of each record as one line, past the buffer of the stream.

    A thread that waits in the buffer holds its lock, which the interpreter needs to exit.

    Attributes:
        note: called after each write, with the reason if it failed.
    """

    note: Callable[[str | None], object] = staticmethod(lambda _: None)
    _is_torn = False

    def open(self) -> None:
        """Open the stream. Subclasses do; here it is open.

        Raises:
            OSError: it cannot be opened.
        """

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record at once. After a failure, it starts on a line of its own."""
        try:
            self.open()
            start, self._is_torn = "\n" if self._is_torn else "", True
            _write(self.stream, f"{start}{record.getMessage()}\n")
        except (OSError, ValueError) as error:  # ValueError: the stream is closed
            self.note(getattr(error, "strerror", None) or type(error).__name__)
        else:
            self._is_torn = False
            self.note(None)


class BackgroundHandler(QueueHandler):
    """Formats records, and hands them to a thread that writes them. The thread starts with the first record.

    Args:
        target: writes the lines.
        limit: how many lines can wait. More are lost.
        patience: how long its end waits for a write that stalls, in seconds.
    """

    def __init__(self, target: LineHandler, limit: int, *, patience: float = CLOSE_SECONDS) -> None:
        self.records: SimpleQueue[logging.LogRecord | None] = SimpleQueue()  # a signal handler can log during a `put`
        super().__init__(self.records)
        self.target, self.patience, self._limit = target, patience, limit
        self._listener = _Listener(self)

    @property
    def waiting(self) -> int:
        return self.records.qsize()

    def enqueue(self, record: logging.LogRecord) -> None:
        """Add a record to the queue.

        Raises:
            Full: there is no room. `logging` then calls `handleError`.
        """
        if self.waiting >= self._limit:
            raise Full
        self.put(record)

    def put(self, record: logging.LogRecord) -> None:
        """Add a record to the queue, also if there is no room."""
        self._listener.start_once()
        self.records.put(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name in the standard library
        """Note that the record is lost. The base class would write it to stderr."""
        del record
        self.target.note("too many lines wait")

    def flush(self) -> None:
        """Wait until all records are written, or a few seconds if a write stalls."""
        self._listener.stop()

    def close(self) -> None:
        """Write all records, and end the thread. A later record starts another."""
        self.flush()
        super().close()


class _Listener(QueueListener):
    def __init__(self, source: BackgroundHandler) -> None:
        super().__init__(source.records, source.target)
        self._records, self._is_ending = source.records, Event()
        self._source = source  # `logging` flushes only handlers that something refers to, such as this thread

    def start_once(self) -> None:
        if self._thread is None:
            self._is_ending.clear()
            self.start()

    def dequeue(self, block: bool) -> logging.LogRecord | None:  # type: ignore[override]  # noqa: FBT001 - the sentinel is None
        """Return the next record. After the last one, rest: to wake this thread costs more than to write a record."""
        try:
            return self._records.get_nowait()
        except Empty:
            self._is_ending.wait(REST_SECONDS)
            return self._records.get(block)

    def handle(self, record: logging.LogRecord) -> None:
        """Write without the lock of the handler: `logging.shutdown` takes it, and would wait for a stalled write."""
        self._source.target.emit(record)

    def stop(self) -> None:
        """End the thread, and wait for it, but not for a write that stalls."""
        self._source.acquire()
        try:  # no record comes after the sentinel
            thread, self._thread = self._thread, None
            if thread is not None:
                self.enqueue_sentinel()
                self._is_ending.set()
        finally:
            self._source.release()
        if thread is not None:
            thread.join(self._source.patience)


def _write(stream: TextIO, line: str) -> None:
    """Write a line with one call of the operating system, if it takes the whole line.

    Raises:
        OSError: as the call.
        ValueError: the stream is closed.
    """
    buffer = getattr(stream, "buffer", None)
    if buffer is None:  # it is in memory
        stream.write(line)
        return
    raw, left = getattr(buffer, "raw", buffer), memoryview(line.encode(stream.encoding, "backslashreplace"))
    while left:
        written = raw.write(left)
        if written is None:  # another program that has the same stream can set it to non-blocking
            select.select((), (raw,), ())
        else:
            left = left[written:]
