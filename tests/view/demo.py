"""The demo server, as the page meets it: live answers, in the order in which the server sends them."""

import csv
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastmcp import Client
from mcp.client.extension import advertise

from quilt_mcp.core.introduction import APPS
from quilt_mcp.server import create_server
from quilt_mcp.view import MIME_TYPE
from tests.contract.cases import HOME
from tests.support.worlds import enter_stopped
from tests.view.answers import Answer
from tests.view.browser import Ask

INVENTORY = Path(__file__).parents[1] / "fixtures" / "mcp-list.csv"
APP_CLIENT = [advertise(APPS, {"mimeTypes": [MIME_TYPE]})]
LIVER = "quilt://buckets/acme-analysis-results/packages/rnaseq/liver"
FILES = {
    "text": f"{LIVER}/contents?path=code%2Fnormalize.R",
    "markdown": f"{LIVER}/contents?path=README.md",
    "csv": f"{LIVER}/contents?path=samples.csv",
    "json-lines": f"{LIVER}/contents?path=metrics.jsonl",
    "parquet": f"{LIVER}/contents?path=counts%2Fliver.parquet",
    "notebook": f"{LIVER}/contents?path=notebooks%2Fexplore.ipynb",
    "pdf": f"{LIVER}/contents?path=report.pdf",
    "picture": f"{LIVER}/contents?path=figures%2Fpca.png",
    "archived": f"{LIVER}/contents?path=raw%2FL01.fastq.gz",
}
"""A file of each form, by its form."""


def read_addresses() -> list[str]:
    """Return the URI of each resource of the demo, with values for its variables, and of the list of all."""
    with INVENTORY.open(encoding="utf-8", newline="") as file:
        return ["", *(row["example_uri"] for row in csv.DictReader(file) if row["example_uri"])]


@asynccontextmanager
async def open_demo(world: str = HOME) -> AsyncIterator[Ask]:
    """Start the server of a demo world in this process. The clock stands still."""
    with enter_stopped(world):
        async with Client(create_server(), extensions=APP_CLIENT) as client:

            async def ask(method: str, params: Answer) -> Answer:
                assert method == "tools/call"
                result = await client.call_tool_mcp(params["name"], params["arguments"])
                found: Answer = result.model_dump(mode="json", by_alias=True, exclude_none=True)
                return found

            yield ask


async def read(ask: Ask, uri: str) -> Answer:
    """Return the body of an answer."""
    result = await ask("tools/call", {"name": "get_resource", "arguments": {"uri": uri} if uri else {}})
    body: Answer = result["structuredContent"]
    return body
