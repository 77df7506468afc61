"""Recognizes the requests that the fast lane answers (lane.py), in the one form in which clients send them."""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from mcp.shared.inbound import MCP_METHOD_HEADER, MCP_NAME_HEADER, MCP_PROTOCOL_VERSION_HEADER
from mcp_types import CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY, PROTOCOL_VERSION_META_KEY
from mcp_types.methods import validate_client_request
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_MODERN_VERSION
from pydantic import ValidationError
from pydantic_core import from_json

from quilt_mcp.core import surfaces
from quilt_mcp.core.answers import JSONObject

CALL, READ = "tools/call", "resources/read"
URI = re.compile(r"([a-z][a-z0-9+.-]*)://[!-~]{0,2000}", re.ASCII)
PLAIN_TEXT = re.compile(r"[ -~]{0,128}", re.ASCII)
MAX_INTEGER = 2**53
MAX_BODY, MAX_CLIENT, MAX_CLIENTS = 16_384, 4096, 256
VERSION, METHOD, NAME = (name.encode() for name in (MCP_PROTOCOL_VERSION_HEADER, MCP_METHOD_HEADER, MCP_NAME_HEADER))
CONSIDERED = {VERSION, METHOD, NAME, b"content-type", b"accept"}
JSON = b"application/json"
ACCEPTED = {JSON + b", text/event-stream", JSON + b",text/event-stream", b"text/event-stream, " + JSON}
CLIENT_KEYS = {PROTOCOL_VERSION_META_KEY, CLIENT_INFO_META_KEY, CLIENT_CAPABILITIES_META_KEY}


@dataclass(frozen=True, slots=True)
class PlainRequest:
    """A request to read a resource.

    Attributes:
        number: its id.
        method: CALL or READ.
        uri: the URI; empty for discovery.
        is_sessionless: whether it is of the sessionless protocol. If not, it is of the older one.
    """

    number: int | str
    method: str
    uri: str
    is_sessionless: bool


class RequestReader:
    """Reads plain requests.

    Args:
        schemes: of the URIs that can be requested.
        max_clients: how many descriptions of clients are remembered as valid.
    """

    def __init__(self, schemes: Collection[str], max_clients: int = MAX_CLIENTS) -> None:
        self._schemes, self._max_clients = schemes, max_clients
        self._clients: set[str] = set()

    def read(self, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> PlainRequest | None:
        """Return the request; None if any part of it is not in the one form that is known."""
        found = _find_headers(headers)
        if found is None or len(body) > MAX_BODY:
            return None
        try:
            message: JSONObject = from_json(body, allow_inf_nan=False)
        except ValueError:
            return None
        match message:
            case {"jsonrpc": "2.0", "id": number, "method": str(method), "params": dict(params), **more} if not more:
                uri = self._find_uri(method, params)
            case _:
                return None
        name = uri if method == READ else surfaces.TOOL_NAME
        is_plain = _is_plain_id(number) and _is_routed(found, method, name)
        if uri is None or not is_plain or not self._is_known_client(found[VERSION].decode(), method, params):
            return None
        return PlainRequest(number, method, uri, is_sessionless=METHOD in found)

    def _find_uri(self, method: str, params: JSONObject) -> str | None:
        """Return the URI to read; None if the method or a parameter is another."""
        uri, arguments = params.get("uri"), params.get("arguments")
        if method == CALL and isinstance(arguments, dict) and params.get("name") == surfaces.TOOL_NAME:
            if not params.keys() <= {"name", "arguments", "_meta"} or not arguments.keys() <= {"uri"}:
                return None
            uri = arguments.get("uri")
            if not arguments:
                return ""
        elif method != READ or not params.keys() <= {"uri", "_meta"}:
            return None
        match = URI.fullmatch(uri) if isinstance(uri, str) else None
        return uri if match and match[1] in self._schemes else None

    def _is_known_client(self, version: str, method: str, params: JSONObject) -> bool:
        """Return whether the MCP library accepts the client description in the request. Checked once per client."""
        meta = params.get("_meta", {})
        if not isinstance(meta, dict) or not _is_plain_id(meta.get("progressToken", 0)):
            return False
        client = {key: value for key, value in meta.items() if key != "progressToken"}
        if version != LATEST_MODERN_VERSION:
            return not client
        key = f"{method} {client!r}"
        if key in self._clients:
            return True
        if (
            client.get(PROTOCOL_VERSION_META_KEY) != version
            or not client.keys() <= CLIENT_KEYS
            or len(key) > MAX_CLIENT
        ):
            return False
        try:
            validate_client_request(method, version, params)
        except ValidationError:
            return False
        if len(self._clients) >= self._max_clients:
            self._clients.clear()
        self._clients.add(key)
        return True


def _find_headers(headers: Iterable[tuple[bytes, bytes]]) -> dict[bytes, bytes] | None:
    """Return the headers that MCP considers; None if one of them is repeated or unusual."""
    found: dict[bytes, bytes] = {}
    for name, value in headers:
        if name in found or (name not in CONSIDERED and name.startswith(b"mcp-")):
            return None
        if name in CONSIDERED:
            found[name] = value
    is_usual = found.get(b"content-type") == JSON and found.get(b"accept") in ACCEPTED
    return found if is_usual else None


def _is_routed(headers: dict[bytes, bytes], method: str, name: str | None) -> bool:
    """Return whether the headers have a version, and in the sessionless protocol also the method and the name."""
    version = headers.get(VERSION, b"").decode("latin-1")
    if version == LATEST_MODERN_VERSION:
        return headers.get(METHOD) == method.encode() and headers.get(NAME) == (name or "").encode()
    return version in HANDSHAKE_PROTOCOL_VERSIONS and METHOD not in headers and NAME not in headers


def _is_plain_id(value: object) -> bool:
    if type(value) is int:
        return -MAX_INTEGER < value < MAX_INTEGER
    return type(value) is str and PLAIN_TEXT.fullmatch(value) is not None
