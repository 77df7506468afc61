"""The messages between a client and the server over stdio, as the MCP library reads and writes them."""

import io
import json
import logging
import re
import time
from collections.abc import Callable
from threading import Lock

from typing_extensions import Buffer

from quilt_mcp.app.message_text import find_invalid_text
from quilt_mcp.commands.handshake import Conversation, Question, is_plain_id, parse, read_method
from quilt_mcp.commands.stdio_audit import StdioAudit
from quilt_mcp.commands.stdio_front import Front, has_reader, write_all

POLL_SECONDS = 0.05
IDLE_POLLS = 4
"""A request with an unusual id may not have started yet, and its answer may not have been written yet."""
ANSWER = re.compile(rb'\{"jsonrpc":"2\.0","id":(-?\d+|"(?:[^"\\]|\\.)*"),"(?:result|error)"')
MAX_READ = 65_536
"""The size up to which messages are parsed here."""
CANCELLED = "notifications/cancelled"
WATCHED = 32
"""The number of messages of a client among which its first questions are."""

logger = logging.getLogger(__name__)


class Answers(io.BufferedIOBase):
    """Writes whole lines to the client, from several threads, except answers that the client has received already.

    Args:
        front: which sent those answers.
        audit: receives all answers.

    Attributes:
        unanswered: the ids of requests without an answer so far.
    """

    name = "stdout"

    def __init__(self, front: Front, audit: StdioAudit) -> None:
        self._front = front
        self._audit = audit
        self._lock = Lock()
        self._awaited: dict[str | int, tuple[Question, str | None]] = {}
        self.unanswered: set[str | int] = set()

    def expect(self, question: Question) -> None:
        """Check the answer to this question when it is written, or keep it for later starts."""
        _, sent = self._front.answered.pop(question.request_id, (None, None))
        if sent is not None or self._front.answers.find(question) is None:
            with self._lock:
                self._awaited[question.request_id] = question, sent

    def writable(self) -> bool:
        """Return that it is."""
        return True

    def write(self, lines: Buffer, /) -> int:
        """Write lines, except those that the client has received already. Return the size of all."""
        content = bytes(lines)
        size = len(content)
        # a search for the beginnings of lines takes 20 times as long
        found = (ANSWER.match(line) for line in content.split(b"\n"))
        answered = [json.loads(one[1]) for one in found if one]
        with self._lock:
            if not self._awaited.keys().isdisjoint(answered):
                content = b"".join(line for line in content.splitlines(keepends=True) if self._is_new(line))
            write_all(self._front.output, content)
        self.unanswered.difference_update(answered)
        self._audit.answer(content)
        return size

    def _is_new(self, line: bytes) -> bool:
        """Return whether the client has not received this line yet."""
        answer = json.loads(line)
        if "method" in answer or answer.get("id") not in self._awaited:
            return True
        question, sent = self._awaited.pop(answer["id"])
        result = answer.get("result")
        if sent is not None:
            if json.loads(sent) == result:
                return False
            logger.warning("the answer to %s that was kept from an earlier start is out of date", question.method)
        try:
            self._front.answers.keep(question, None if result is None else json.dumps(result, separators=(",", ":")))
        except OSError as error:
            logger.debug("the answer to %s is not kept: %s", question.method, error.strerror)
        return sent is None


class Messages(io.BufferedIOBase):
    """The client's messages. Those with invalid text are answered here, because the MCP library would drop them.

    The MCP library keeps a session in the protocol of its first request. A client that asks for `server/discover` and
    then sends `initialize` gets another session: the stream ends before `initialize`, and starts again with it.

    Without a lock, which Python would wait for at exit while a thread still reads.

    Args:
        front: the streams.
        answers: to the client.
        is_busy: whether a request is in progress.
        audit: receives all messages.
        at_most: how long the end of the stream waits for them, in seconds.
    """

    def __init__(
        self,
        front: Front,
        answers: Answers,
        is_busy: Callable[[], bool],
        audit: StdioAudit,
        *,
        at_most: float,
    ) -> None:
        self._front = front
        self._audit = audit
        self._answers = answers
        self._is_busy = is_busy
        self._at_most = at_most
        self._incomplete = bytearray()
        self._conversation = Conversation()
        self._unwatched = WATCHED
        self._may_initialize = self._has_asked = False
        self._is_opened = self._has_switched = False
        self._next_session = b""

    def open_session(self) -> bool:
        """Return whether there is a session to serve: the first, and another if the client changed the protocol."""
        is_first, self._is_opened = not self._is_opened, True
        return is_first or bool(self._next_session)

    def readable(self) -> bool:
        """Return that it is."""
        return True

    def read1(self, size: int = -1) -> bytes:
        """Return whole messages; nothing at the end of a session."""
        while not self._next_session and (chunk := self._front.read1(size)):
            *lines, tail = chunk.split(b"\n")
            if lines:
                lines[0] = bytes(self._incomplete) + lines[0]
                self._incomplete.clear()
            self._incomplete += tail
            if found := self._take(lines):
                return found
        if self._next_session and self._has_switched:
            found, self._next_session = self._next_session, b""
            return self._note_requests(found.splitlines(keepends=True))
        if self._next_session:
            self._has_switched = True
        elif self._incomplete:
            last = bytes(self._incomplete)
            self._incomplete.clear()
            return self._take([last]) or self.read1()
        self._wait_until_idle()
        return b""

    def _take(self, lines: list[bytes]) -> bytes:
        """Return the messages of this session that the MCP library can read. Keep those of the next session."""
        valid = [line + b"\n" for line in lines if self._is_valid(line)]
        starts = [self._watch(line) for line in valid]
        place = starts.index(True) if any(starts) else len(valid)
        self._next_session = b"".join(valid[place:])
        return self._note_requests(valid[:place])

    def _note_requests(self, lines: list[bytes]) -> bytes:
        """Return the messages, which the MCP library reads now. At the end, their answers are awaited."""
        for line in lines:
            self._note_request(line)
            self._audit.read(line)
        return b"".join(lines)

    def _note_request(self, line: bytes) -> None:
        message = (len(line) <= MAX_READ and parse(line)) or {}
        params, request_id, method = message.get("params"), message.get("id"), message.get("method")
        # the MCP library does not answer other forms
        is_request = message.get("jsonrpc") == "2.0" and isinstance(method, str) and isinstance(params, dict | None)
        if is_request and is_plain_id(request_id):
            self._answers.unanswered.add(request_id)
        if method == CANCELLED and isinstance(params, dict) and is_plain_id(params.get("requestId")):
            self._answers.unanswered.discard(params["requestId"])

    def _watch(self, line: bytes) -> bool:
        """Look at one of the first messages. Return whether a new session starts with it."""
        if self._unwatched <= 0 and not self._front.answered:
            return False
        self._unwatched -= 1
        if question := self._conversation.read(line):
            self._answers.expect(question)
        method = read_method(line)
        starts = self._may_initialize and method == "initialize"
        if method == "server/discover":
            self._may_initialize = not self._has_asked
        elif not method.startswith("notifications/"):
            self._may_initialize, self._has_asked = False, True
        return starts

    def _is_valid(self, line: bytes) -> bool:
        """Return whether the MCP library can read the message. Answer a request that it cannot read."""
        invalid = find_invalid_text(line)
        if invalid is None:
            return True
        logger.warning("a message contains text that is not valid Unicode: %s", invalid.where)
        if invalid.is_request:
            self._audit.note_invalid_text()
            self._answers.write(invalid.to_error() + b"\n")
        return False

    def _wait_until_idle(self) -> None:
        idle, until = 0, time.monotonic() + self._at_most
        while idle < IDLE_POLLS and time.monotonic() < until and has_reader(self._front.output):
            time.sleep(POLL_SECONDS)
            idle = 0 if self._is_busy() or self._answers.unanswered else idle + 1
