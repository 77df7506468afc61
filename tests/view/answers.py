"""Every answer that the goldens hold, as the view receives it."""

import json
from functools import cache
from typing import Any

from tests.support.golden import GOLDEN

Answer = dict[str, Any]


@cache
def read_answers() -> dict[str, Answer]:
    """Return the data of the admin's world by URI, and those of other worlds and errors by their file."""
    found: dict[str, Answer] = {}
    for path in sorted((GOLDEN / "data").rglob("*.json")):
        body = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(body, dict) and body.get("success"):
            found[str(path.relative_to(GOLDEN)) if "--" in path.name else body["uri"]] = body
    found[""] = json.loads((GOLDEN / "discovery" / "get-resource.json").read_text(encoding="utf-8"))
    for path in sorted((GOLDEN / "files").rglob("*.json")):
        body = json.loads(path.read_text(encoding="utf-8"))
        if body.get("success"):
            found[f"files/{path.name}"] = body
    for path in sorted((GOLDEN / "errors").rglob("*.json")):
        golden = json.loads(path.read_text(encoding="utf-8"))
        body = golden.get("tool", golden)
        if body.get("success") is False:
            if not isinstance(body.get("valid_uris", []), list):  # goldens name the list only
                body["valid_uris"] = [uri for uri in found if "://" in uri][:60]
            found[str(path.relative_to(GOLDEN))] = body
    return found


def to_result(body: Answer) -> Answer:
    """Return the result of a tool with this body."""
    sent = {name: value for name, value in body.items() if name != "attachments"}
    blocks = [{"type": "text", "text": json.dumps(sent)}]
    blocks += [
        {"type": "image", "mimeType": one["mime_type"], "data": one["blob"]["image"]}
        for one in body.get("attachments", ())
    ]
    return {"content": blocks, "structuredContent": sent, "isError": not body.get("success")}
