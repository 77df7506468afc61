"""The server without an SDK, with tools that are called. FAULT names a fault of it."""

import json
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests import raw_server

FAULT = raw_server.FAULT
ONLY_READS = {"readOnlyHint": True}
TEXT = {"type": "string"}
TOOLS: list[dict[str, Any]] = [
    {
        "name": "search",
        "annotations": ONLY_READS,
        "inputSchema": {"type": "object", "properties": {"q": TEXT}, "required": ["q"], "examples": [{"q": "b"}]},
    },
    {
        "name": "count",
        "annotations": ONLY_READS,
        "inputSchema": {"type": "object", "properties": {"of": {"type": "string", "examples": ["rows"]}}},
        "outputSchema": {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]},
    },
    {"name": "plot", "annotations": ONLY_READS, "inputSchema": {"type": "object"}},
    {"name": "buy", "inputSchema": {"type": "object"}},
]
ORDERS: list[int] = []
IMAGE = {"type": "image", "mimeType": "image/png", "data": "iVBORw=="}


def call(params: dict[str, Any]) -> dict[str, Any]:
    """Answer `tools/call`."""
    return {"search": search, "count": count, "plot": plot, "buy": buy}[params["name"]](params.get("arguments") or {})


def search(arguments: dict[str, Any]) -> dict[str, Any]:
    """Answer with a text that is JSON."""
    query = arguments.get("q")
    if query == "none" or FAULT == "refuses to search":
        reason = "closed" if FAULT == "refuses with another text" else "nothing found"
        return {"content": [{"type": "text", "text": reason}], "isError": True}
    found = {"q": query, "found": 3.0 if FAULT == "finds another type" else 4 if FAULT == "finds more" else 3}
    if FAULT == "searches with a clock":
        found["now"] = time.monotonic_ns()
    return {"content": [{"type": "text", "text": json.dumps(found)}]}


def count(_: dict[str, Any]) -> dict[str, Any]:
    """Answer with a text and structured content."""
    structured: dict[str, Any] = {"count": "3" if FAULT == "counts against its schema" else 3}
    text = json.dumps({"count": 4} if FAULT == "counts twice" else structured)
    answer: dict[str, Any] = {"content": [{"type": "text", "text": text}], "structuredContent": structured}
    return answer | ({"structuredContent": None} if FAULT == "counts in its text only" else {})


def plot(_: dict[str, Any]) -> dict[str, Any]:
    """Answer with an image. With a fault, change a resource."""
    if FAULT == "writes when it plots":
        ORDERS.append(1)
    if FAULT == "refuses to plot":
        return {"content": [{"type": "text", "text": "no rows"}], "isError": True}
    if FAULT == "plots for ever":
        time.sleep(600)
    if FAULT == "plots with a clock":
        return {"content": [{"type": "text", "text": str(time.monotonic_ns())}]}
    return {"content": [IMAGE | ({"data": "iVBORg=="} if FAULT == "plots another image" else {})]}


def buy(_: dict[str, Any]) -> dict[str, Any]:
    """Change a resource, as the tool says."""
    ORDERS.append(1)
    return {"content": [{"type": "text", "text": "bought"}]}


def read(params: dict[str, Any]) -> dict[str, Any]:
    """Answer `resources/read`: the text has the orders."""
    found = raw_server.read(params)
    if params["uri"] == "raw://text":
        found["contents"][0]["text"] += f"\n{len(ORDERS)}"
    return found


def list_tools(_: dict[str, Any]) -> dict[str, Any]:
    """Answer `tools/list`."""
    return {"tools": TOOLS[1:] if FAULT == "does not search" else TOOLS}


if __name__ == "__main__":
    raw_server.METHODS |= {"resources/read": read, "tools/call": call, "tools/list": list_tools}
    raw_server.main()
