"""Contents in the form of a golden: JSON as JSON, other texts as lines, blobs by size and hash."""

import base64
import hashlib
from typing import Any

from mcp_types import TextResourceContents
from pydantic_core import from_json

from mcp_parity.bodies import parse_json
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
            from_json(content.text, allow_inf_nan=False)
        except ValueError as error:
            raise ContractError(f"{uri}: announced as {announced}, but the text is not JSON: {error}") from error
    return shown


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
