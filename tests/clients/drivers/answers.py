"""What the drivers share: the server and the URIs that they are given, and one line for each URI with what came.

A driver runs with the Python and the libraries of its client.
"""

import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

GIVEN: dict[str, Any] = json.loads(sys.argv[1])
Ask = Callable[[], Awaitable[dict[str, Any]]]


async def answer(uri: str, **ways: Ask) -> None:
    """Ask in each way, and print what came: a text, the structured content, or an error."""
    found: dict[str, Any] = {"uri": uri}
    for way, ask in ways.items():
        try:
            found[way] = await ask()
        except Exception as error:  # noqa: BLE001 - of any library
            found[way] = {"error": str(error) or repr(error)}
    sys.stdout.write(json.dumps(found) + "\n")


def describe(result: Any) -> dict[str, Any]:
    """Return what a `CallToolResult` of any version of the SDK has."""
    structured = getattr(result, "structured_content", None) or getattr(result, "structuredContent", None)
    is_error = getattr(result, "is_error", None) or getattr(result, "isError", None)
    return {"text": result.content[0].text, "structured": structured, "is_error": bool(is_error)}
