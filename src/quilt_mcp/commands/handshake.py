"""Parses the first requests of a client, and formats their stored answers.

The answers to these requests depend only on the version of the protocol and on the server. This module imports only the
standard library.
"""

import json
import re
from collections.abc import Sequence
from typing import NamedTuple, TypeGuard

METHODS = frozenset({"ping", "tools/list", "resources/templates/list", "prompts/list"})
"""The methods with stored answers, besides `initialize` and `server/discover`."""
INITIALIZED = "notifications/initialized"
SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
"""An escaped surrogate. The server refuses half of a pair."""
MAX_BYTES = 4 * 1024 * 1024
MAX_ID = 100
_PREFIX = "io.modelcontextprotocol/"
_VERSION, _INFO, _CAPABILITIES = (
    f"{_PREFIX}{name}" for name in ("protocolVersion", "clientInfo", "clientCapabilities")
)

_CLIENT = {"name": "quilt-mcp", "version": "1"}
_SESSION = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": _CLIENT}
_ENVELOPE = {"_meta": {_VERSION: "2026-07-28", _INFO: _CLIENT, _CAPABILITIES: {}}}


class Question(NamedTuple):
    """A request that has the same answer for every client.

    Attributes:
        request_id: the id of the request.
        method: the method.
        key: everything that the answer depends on, as text.
    """

    request_id: str | int
    method: str
    key: str


class Conversation:
    """The earlier messages of a client that affect the answers to its next requests."""

    def __init__(self) -> None:
        self._session: list[object] | None = None  # of the protocol with a handshake
        self._is_sessionless = False
        self._used: set[str | int] = set()

    def read(self, line: bytes) -> Question | None:
        """Return the request in a message if its answer is the same for every client, otherwise None."""
        message = None if SURROGATE.search(line) else parse(line)
        if message is None or message.keys() - {"jsonrpc", "id", "method", "params"} or message.get("jsonrpc") != "2.0":
            return None
        request_id, method, params = message.get("id"), message.get("method"), message.get("params", {})
        if not is_plain_id(request_id) or not isinstance(method, str) or not isinstance(params, dict):
            return None
        key = self._make_key(method, params)
        if key is None or request_id in self._used:
            return None
        self._used.add(request_id)
        return Question(request_id, method, json.dumps(key, sort_keys=True))

    def _make_key(self, method: str, params: dict[str, object]) -> list[object] | None:
        if method == "initialize":
            return self._start_session(params)
        if "_meta" in params:
            return self._read_envelope(method, params)
        if self._session is None or method not in METHODS or params:
            return None
        return [method, self._session]

    def _start_session(self, params: dict[str, object]) -> list[object] | None:
        version, capabilities = params.get("protocolVersion"), params.get("capabilities")
        if params.keys() != {"protocolVersion", "capabilities", "clientInfo"} or not _is_info(params["clientInfo"]):
            return None
        if not isinstance(version, str) or not _is_capabilities(capabilities) or self._session or self._is_sessionless:
            return None
        self._session = ["initialize", version]
        return self._session

    def _read_envelope(self, method: str, params: dict[str, object]) -> list[object] | None:
        envelope = params["_meta"]
        if params.keys() != {"_meta"} or not isinstance(envelope, dict) or self._session:
            return None
        if envelope.keys() != {_VERSION, _INFO, _CAPABILITIES} or not _is_info(envelope[_INFO]):
            return None
        if not isinstance(envelope[_VERSION], str) or not _is_capabilities(envelope[_CAPABILITIES]):
            return None
        if method != "server/discover":  # after which a client can still choose the protocol with a handshake
            if method not in METHODS:
                return None
            self._is_sessionless = True
        return [method, envelope[_VERSION]]


def make_first_messages() -> list[bytes]:
    """Return the first messages of a client of each protocol, as lines."""
    lists = sorted(METHODS - {"ping"})
    with_handshake = _make_requests([("initialize", _SESSION), *((method, {}) for method in lists)])
    sessionless = _make_requests([(method, _ENVELOPE) for method in ("server/discover", *lists)])
    with_handshake.insert(1, _make_line({"method": INITIALIZED}))
    return [b"".join(with_handshake), b"".join(sessionless)]


def _make_requests(requests: Sequence[tuple[str, object]]) -> list[bytes]:
    numbered = enumerate(requests)
    return [_make_line({"id": number, "method": method, "params": params}) for number, (method, params) in numbered]


def _make_line(fields: dict[str, object]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **fields}).encode() + b"\n"


def read_method(line: bytes) -> str:
    """Return the method of a message; an empty text if it has none, or is not valid JSON."""
    method = (parse(line) or {}).get("method")
    return method if isinstance(method, str) else ""


def frame(question: Question, result: str) -> bytes:
    """Return the line that answers a request."""
    return f'{{"jsonrpc":"2.0","id":{json.dumps(question.request_id)},"result":{result}}}\n'.encode()


def parse(line: bytes) -> dict[str, object] | None:
    """Return the message in a line; None if it is not a JSON object."""
    if len(line) > MAX_BYTES:
        return None
    try:
        message = json.loads(line.decode(), parse_constant=_refuse)  # of bytes, it would also accept UTF-16 and a BOM
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else None


def _refuse(constant: str) -> object:
    raise ValueError(f"{constant} is not JSON")


def is_plain_id(request_id: object) -> TypeGuard[str | int]:
    """Return whether a request id is a short ASCII text or an integer that every client can read."""
    if isinstance(request_id, str):
        return len(request_id) <= MAX_ID and request_id.isascii() and request_id.isprintable()
    return type(request_id) is int and abs(request_id) < 2**53


def _is_info(info: object) -> bool:
    if not isinstance(info, dict) or not {"name", "version"} <= info.keys():
        return False
    return all(isinstance(value, str) for name, value in info.items() if name != "icons")


def _is_capabilities(capabilities: object) -> bool:
    return isinstance(capabilities, dict) and all(isinstance(one, dict | None) for one in capabilities.values())
