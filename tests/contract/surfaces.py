"""Reads URIs on both surfaces. mcp-parity checks that the answers agree."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mcp_parity
from fastmcp import Client

AnyClient = Client[Any]


@dataclass(frozen=True)
class Answer:
    """The answer of both surfaces: the data, or the two forms of one error."""

    uri: str
    body: dict[str, Any]
    """The tool's body, without its timestamp."""
    resource_error: dict[str, Any] | None = None

    def to_golden(self) -> dict[str, Any]:
        """Return the content of the golden."""
        if self.resource_error is None:
            return self.body
        return {"resource": self.resource_error, "tool": self.body}


async def ask(client: AnyClient, uri: str) -> Answer:
    """Read the URI on both surfaces.

    Raises:
        ContractError: the answers differ in more than the protocol requires.
    """
    return convert(await mcp_parity.observe(client, uri, mcp_parity.Settings(Path()), "get_resource"))


def convert(found: mcp_parity.Answer) -> Answer:
    """Return an answer in the form of our goldens: the tool's body, which has all that resources/read tells."""
    assert found.body is not None
    if found.contents is None:
        return Answer(found.uri, found.body, found.error)
    content, *attachments = found.contents
    assert content.keys() == {"mime_type", "data"}
    # mcp-parity compares the values, and the attachments. Here the fields also have the same order.
    assert json.dumps(content["data"]) == json.dumps(found.body["data"])
    return Answer(found.uri, found.body | ({"attachments": attachments} if attachments else {}), found.error)
