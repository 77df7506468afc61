r"""Find messages of clients that the MCP library does not answer as it should, and make the errors that answer them.

JSON can contain half of a surrogate pair (`"\ud800"`), and bytes can be something else than UTF-8. The MCP library
cannot read such a message: it sends no answer over stdio, and none with the id of the request over HTTP. A request with
an id such as 1.5 or null is a notification for it, and gets no answer: its client would wait.

Some of its parsers read UTF-16, UTF-32 and a byte order mark, and others do not, depending on the version of the
protocol. What is not UTF-8 is refused before all of them, and before any check here, because these checks read UTF-8.
"""

import json
import re
from codecs import BOM_UTF8
from dataclasses import dataclass

from mcp_types import INVALID_REQUEST, PARSE_ERROR

from quilt_mcp.app.json_depth import MAX_DEPTH, is_nested_too_deeply
from quilt_mcp.core.answers import JSONObject
from quilt_mcp.core.errors import INVALID_PARAMS

_OTHER_ID = re.compile(rb'"(?:i|\\u0069)(?:d|\\u0064)"\s*+:\s*+(?!"|-?\d++\s*+[,}])')
# A surrogate may be in the message: as an escape, which can also be half of a valid pair, or as bytes.
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_HALF = re.compile("[\ud800-\udfff]")
_SHOWN = 200
_ADVICE = (
    "Send UTF-8 without a byte order mark. Replace or remove each half of a surrogate pair (U+D800 to U+DFFF) and each "
    "invalid byte."
)
_NOT_UTF8 = "The message is not JSON in UTF-8."


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a message is not passed on to the MCP library.

    Attributes:
        code, message, details: of the error.
        request_id: the id of the request; None if it has none that can be answered.
        is_request: whether the client waits for an answer.
    """

    code: int
    message: str
    details: str | None = None
    request_id: str | int | None = None
    is_request: bool = True

    def to_error(self) -> bytes:
        """Return the JSON-RPC error that answers the message. It is ASCII, so the id can contain anything."""
        error: JSONObject = {"code": self.code, "message": self.message}
        if self.details:
            error["data"] = {
                "success": False,
                "error": "InvalidUnicode",
                "message": self.message,
                "details": self.details,
                "suggested_actions": [_ADVICE],
                "transient": False,
            }
        return json.dumps({"jsonrpc": "2.0", "id": self.request_id, "error": error}, separators=(",", ":")).encode()


def find_refusal(message: bytes) -> Refusal | None:
    """Return why a message is refused; None if it is not, or is UTF-8 that is not JSON.

    A notification with an invalid id stays one: some clients send `"id": null`.
    """
    has_mark = message.startswith(BOM_UTF8)
    if has_mark or 0 in message:  # JSON in UTF-16 or UTF-32 begins with an ASCII character, which has this byte
        found = "starts with a byte order mark" if has_mark else "contains the byte 0, as UTF-16 and UTF-32 do"
        return Refusal(PARSE_ERROR, _NOT_UTF8, f"It {found}.")
    if is_nested_too_deeply(message):
        text = f"The message is nested too deeply. Send at most {MAX_DEPTH} levels."
        return Refusal(PARSE_ERROR, text)
    if message.lstrip(b" \t\r\n").startswith(b"["):
        return Refusal(INVALID_REQUEST, "Batches are not supported. Send each message on its own.")
    invalid = _find_invalid_byte(message)
    if invalid is None and not (_SURROGATE.search(message) or _OTHER_ID.search(message)):
        return None
    try:
        text = message.decode("utf-8", "surrogateescape")  # each byte that is not UTF-8 becomes a surrogate
        decoded: object = json.loads(text, parse_int=lambda digits: int(digits[:1000]))  # Python refuses 5,000 digits
    except ValueError:
        return None if invalid is None else Refusal(PARSE_ERROR, _NOT_UTF8, f"Byte {invalid} is not valid UTF-8.")
    return _check_fields(decoded)


def _check_fields(decoded: object) -> Refusal | None:
    fields = decoded if isinstance(decoded, dict) else {}
    request_id = fields.get("id")
    is_id = isinstance(request_id, str | int) and not isinstance(request_id, bool)
    if found := _find_half(decoded):
        details = f"{found[0]}: character {found[1]} is not valid."
        text = "The message contains text that is not valid Unicode."
        known = request_id if is_id else None
        return Refusal(INVALID_PARAMS, text, details, known, is_id and "method" in fields)
    is_answerable = (
        "id" not in fields or is_id or str(fields.get("method", "notifications/")).startswith("notifications/")
    )
    return None if is_answerable else Refusal(INVALID_REQUEST, "The id of a request must be a text or an integer.")


def _find_invalid_byte(message: bytes) -> int | None:
    try:
        message.decode()
    except UnicodeDecodeError as error:
        return error.start
    return None


def _find_half(message: object) -> tuple[str, int] | None:
    """Return the path and the index of the first half of a surrogate pair. Not recursive, because Python limits it."""
    waiting: list[tuple[str, object]] = [("", message)]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, str) and (half := _HALF.search(value)):
            return _show(path), half.start()
        path = path[:_SHOWN]  # a key can be long
        if isinstance(value, list):
            waiting += [(f"{path}[{index}]", one) for index, one in enumerate(value)][::-1]
        if isinstance(value, dict):
            for key, one in reversed(value.items()):
                waiting += [(f"{path}.{key[:_SHOWN]}", one), (f"{path}.(key)", key)]
    return None


def _show(path: str) -> str:
    """Return the path for an error: printable, and not too long."""
    shown = path.removeprefix(".")[:_SHOWN] or "the message"
    return "".join(one if one.isprintable() else "?" for one in shown)
