"""Contents in the form of a golden: JSON as JSON, other texts as lines, blobs by size and hash."""

import base64
import hashlib
import json
import math
from collections import Counter
from typing import Any

from mcp_types import TextResourceContents

from mcp_parity.settings import ContractError

MOST_CHARACTERS = 50_000_000
LARGEST_IMAGE = 50_000


def show_content(uri: str, content: Any) -> dict[str, Any]:
    """Return a content of resources/read as a golden holds it.

    Raises:
        ContractError: it cannot be pinned.
    """
    shown: dict[str, Any] = {"mime_type": content.mime_type}
    if content.uri != uri:
        shown["uri"] = content.uri
    if content.meta:
        shown["meta"] = content.meta
    if not isinstance(content, TextResourceContents):
        return shown | show_blob(content.blob, content.mime_type)
    if len(content.text) > MOST_CHARACTERS:
        raise ContractError(f"{uri}: {len(content.text):,} characters are too many to compare; add it to mcp_exclude")
    shown |= show_text(content.text)
    announced = (content.mime_type or "").partition(";")[0]
    if "lines" in shown and (announced == "application/json" or announced.endswith("+json")):
        try:
            read_json(content.text)
        except ValueError as error:
            raise ContractError(f"{uri}: announced as {announced}, but the text is not JSON: {error}") from error
    return shown


def read_json(text: str) -> Any:
    """Return the value of a JSON text.

    Raises:
        ValueError: it is not JSON, or clients read it differently: NaN, infinity, 1e400, or a key that occurs twice.
    """
    try:
        return json.loads(text, object_pairs_hook=_read_object, parse_constant=_refuse, parse_float=_read_float)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _read_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        [(twice, _)] = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"the key {json.dumps(twice)} occurs twice in an object")
    return found


def _refuse(number: str) -> None:
    raise ValueError(f"{number} is not a number of JSON")


def _read_float(number: str) -> float:
    found = float(number)
    if math.isinf(found):
        raise ValueError(f"{number[:20]} is too large for clients")
    return found


def parse_json(text: str) -> Any:
    """Return the object or array that the text contains, or None.

    The MIME type is not considered: FastMCP announces a dict as text/plain by default.
    """
    if text[:1] not in "{[" and text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return read_json(text)
    except ValueError:
        return None


def show_text(text: str) -> dict[str, Any]:
    """Return a text as a golden holds it: JSON as JSON, else its lines."""
    parsed = parse_json(text)
    return {"lines": text.split("\n")} if parsed is None else {"data": parsed}


def show_blob(blob: str, mime_type: str | None) -> dict[str, Any]:
    """Return base64 text as a golden holds it: by size and hash. A review shows the small images."""
    raw = base64.b64decode(blob)
    shown = {"bytes": len(raw), "sha256": hashlib.sha256(raw).hexdigest()}
    image = {"image": blob} if (mime_type or "").startswith("image/") and len(raw) <= LARGEST_IMAGE else {}
    return {"blob": shown | image}
