"""The server without an SDK, with a tool of which the answers can have attachments. FAULT names a fault of it."""

import base64
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests import raw_server

FAULT, ROWS, TEXT = raw_server.FAULT, "raw://rows", "raw://text"
IMAGE = {"mimeType": "image/png", "blob": base64.b64encode(b"\x89PNG one").decode()}
SOUND = {"mimeType": "audio/wav", "blob": base64.b64encode(b"RIFF").decode()}
TABLE = {"uri": "raw://table", "mimeType": "application/vnd.apache.parquet", "blob": base64.b64encode(b"PAR1").decode()}
BLOB_TWICE = "has a blob in its body and as a block"
TOOL = {
    "name": "get_resource",
    "inputSchema": {"type": "object", "properties": {"uri": {"type": "string"}}, "required": ["uri"]},
}


def attach(*, surface: str) -> list[dict[str, Any]]:
    """Return what a surface attaches to the rows: an image, a sound and a table."""
    parts: list[dict[str, Any]] = [IMAGE, SOUND, TABLE]
    if not FAULT.startswith(f"{surface}: "):
        return parts
    changed = base64.b64encode(b"\x89PNG two").decode()
    return {
        "none is attached": [],
        "one is missing": [IMAGE, TABLE],
        "the last is missing": [IMAGE, SOUND],
        "one is twice": [IMAGE, SOUND, SOUND, TABLE],
        "two are exchanged": [SOUND, IMAGE, TABLE],
        "one has other bytes": [IMAGE | {"blob": changed}, SOUND, TABLE],
        "one has another type": [IMAGE | {"mimeType": "image/jpeg"}, SOUND, TABLE],
        "a table has another type": [IMAGE, SOUND, TABLE | {"mimeType": "text/csv"}],
        "a table has another URI": [IMAGE, SOUND, TABLE | {"uri": "raw://other"}],
        "one is not base64": [IMAGE | {"blob": "-_-_"}, SOUND, TABLE],
    }[FAULT.partition(": ")[2]]


def read(params: dict[str, Any]) -> dict[str, Any]:
    """Answer `resources/read`: the rows have attachments."""
    found = raw_server.read(params)
    if params["uri"] == ROWS:
        found["contents"] += [{"uri": ROWS} | one for one in attach(surface="read")]
    return found


def call(params: dict[str, Any]) -> dict[str, Any]:
    """Answer `tools/call`: what resources/read answers, as a body and blocks."""
    uri = params["arguments"]["uri"]
    body: dict[str, Any] = {"success": True, "uri": uri}
    try:
        [content] = raw_server.read({"uri": uri})["contents"]
    except LookupError as error:
        return {"content": [{"type": "text", "text": f"no resource {error}"}], "isError": True}
    body["mime_type"] = content["mimeType"]
    blocks = [to_block(uri, one) for one in attach(surface="tool")] if uri == ROWS else []
    if "blob" in content:
        blocks.append(to_block(uri, content))
        if FAULT == BLOB_TWICE:
            body["blob"] = content["blob"]
    elif uri == TEXT:
        body["text"] = content["text"]
    else:
        body["data"] = json.loads(content["text"])
    return {"content": [{"type": "text", "text": json.dumps(body)}, *blocks], "structuredContent": body}


ORDERS = {"orders": 3, "open": True}
FOREIGN = {"name": "read_resource", "inputSchema": TOOL["inputSchema"]}


def read_orders(params: dict[str, Any]) -> dict[str, Any]:
    """Answer `resources/read` beside a tool that answers in another form."""
    if params["uri"] != ROWS:
        raise LookupError(params["uri"])
    return {"contents": [{"uri": ROWS, "mimeType": "application/json", "text": json.dumps(ORDERS)}]}


def call_foreign(params: dict[str, Any]) -> dict[str, Any]:
    """Answer `tools/call` with a text, with structured content beside it, or with an embedded resource."""
    uri, form = params["arguments"]["uri"], FAULT.partition(": ")[2]
    if uri != ROWS:
        refused = f"cannot read {uri}: {'go away' if form == 'refuses with another text' else 'unknown'}"
        return {"content": [{"type": "text", "text": refused}], "isError": True}
    text = json.dumps(ORDERS)
    resource = {"uri": uri, "mimeType": "application/json", "text": text}
    embedded = {
        "embeds it": resource,
        "embeds it without a type": {"uri": uri, "text": text},
        "embeds another URI": resource | {"uri": "raw://other"},
        "embeds another type": resource | {"mimeType": "text/plain"},
    }
    structured: dict[str, Any] = {
        "structures it": ORDERS,
        "structures it as a result": {"result": ORDERS},
        "structures its text": {"result": text},
        "structures another value": ORDERS | {"orders": 4},
        "structures another type": ORDERS | {"orders": 3.0},
        "structures less": {"orders": 3},
        "structures another result": {"result": ORDERS | {"orders": 4}},
        "structures another text": {"result": "none"},
        "structures another form": {"count": 1},
        "structures another form that changes": {"count": 2},
    }
    block = {"type": "resource", "resource": embedded[form]} if form in embedded else {"type": "text", "text": text}
    return {"content": [block]} | ({"structuredContent": structured[form]} if form in structured else {})


def to_block(uri: str, content: dict[str, Any]) -> dict[str, Any]:
    """Return a content as a block: an image or a sound, else an embedded resource."""
    kind = content["mimeType"].partition("/")[0]
    if kind in ("image", "audio"):
        return {"type": kind, "mimeType": content["mimeType"], "data": content["blob"]}
    return {"type": "resource", "resource": {"uri": uri} | content}


def list_tools(_: dict[str, Any]) -> dict[str, Any]:
    """Answer `tools/list`."""
    return {"tools": [FOREIGN if FAULT.startswith("foreign") else TOOL]}


if __name__ == "__main__":
    raw_server.METHODS |= {"resources/read": read, "tools/call": call, "tools/list": list_tools}
    if FAULT.startswith("foreign"):
        raw_server.METHODS |= {"resources/read": read_orders, "tools/call": call_foreign}
    raw_server.main()
