"""A small project that adopts the contract, for the tests of the plugin."""

import asyncio
import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import syrupy
from fastmcp import Client

import mcp_parity.contract
import mcp_parity.plugin

SERVER = """
import base64
import itertools
import json
import os
import time

from fastmcp import FastMCP
from fastmcp.exceptions import NotFoundError, ResourceError
from fastmcp.server.middleware import Middleware
from fastmcp.tools import ToolResult
from mcp.shared.exceptions import MCPError

mcp = FastMCP("shop", mask_error_details=True)
WORLD = {"open": True}
counter = itertools.count()


@mcp.resource("shop://status", mime_type="application/json")
def status() -> str:
    return json.dumps({"open": WORLD["open"], "orders": 3, "owner": {"name": "Ada"}, "rate": 0.0})


@mcp.resource("shop://notes", mime_type="text/markdown")
def notes() -> str:
    return "# Notes\\n\\nNone."


@mcp.resource("shop://licence")
def licence() -> str:
    raise ResourceError("no licence")


@mcp.resource("shop://logo", mime_type="image/png")
def logo() -> bytes:
    return b"\\x89PNG"


@mcp.resource("shop://orders/{number}")
def order(number: int) -> dict[str, int]:
    return {"number": number}


class Refuse(Middleware):
    async def on_read_resource(self, context, call_next):
        try:
            return await call_next(context)
        except MCPError:
            raise
        except Exception as error:
            name = "NotFound" if isinstance(error, NotFoundError) else "Failed"
            body = {"success": False, "uri": str(context.message.uri), "error": name, "message": str(error)}
            code = -32602 if name == "NotFound" else -32603
            raise MCPError(code=code, message=str(error), data=body) from error


def list_all(resources, templates):
    found = [(str(one.uri), one) for one in resources] + [(one.uri_template, one) for one in templates]
    rows = [
        {"uri": uri, "description": one.description or "", "mime_type": one.mime_type, **(one.meta or {})}
        for uri, one in sorted(found, key=lambda pair: pair[0])
    ]
    return {"success": True, "uri": "", "data": {"shop": rows}}


def show(content):
    if isinstance(content.content, bytes):
        return {"mime_type": content.mime_type, "blob": base64.b64encode(content.content).decode()}
    try:
        return {"mime_type": content.mime_type, "data": json.loads(content.content)}
    except ValueError:
        return {"mime_type": content.mime_type or "text/plain", "text": content.content}


def add_get_resource(server):
    @server.tool
    async def get_resource(uri: str | None = None) -> ToolResult:
        if uri is None:
            body = list_all(await server.list_resources(), await server.list_resource_templates())
        else:
            try:
                [content] = (await server.read_resource(uri)).contents
                body = {"success": True, "uri": uri, **show(content)}
            except MCPError as error:
                body = error.error.data
        return ToolResult(content=json.dumps(body), structured_content=body, is_error=not body["success"])

    server.add_middleware(Refuse())


add_get_resource(mcp)
# more
"""
CONFIGURATION = """
[tool.pytest.ini_options]
mcp_server = "server:mcp"
mcp_examples = ["shop://orders/{number} = shop://orders/7"]
"""
NEEDLESS = (
    *("cacheprovider", "debugging", "doctest", "faulthandler", "junitxml", "legacypath", "pastebin", "recwarn"),
    *("setuponly", "setupplan", "stepwise", "subtests", "terminalprogress", "threadexception", "unittest"),
)
# Only what a small project needs: the others took a third of the time of a short run.
FEW = ("--disable-plugin-autoload", "--no-header", "--assert=plain", *(f"-pno:{name}" for name in NEEDLESS))
# All that are installed, as in a real project. Hypothesis's imports hundreds of modules, and again in each run.
INSTALLED = [f"-pno:{name}" for name in ("randomly", "cacheprovider", "asyncio", "hypothesispytest", "timeout")]
PLUGINS = [syrupy, mcp_parity.plugin]
"""The plugins that the project needs. To name them with -p would read the metadata of all installed packages."""
SERVED_HERE = """
import pytest
from mcp_parity.contract import *

@pytest.fixture
def mcp_parity_server():
    return mcp
"""
AWAY = """
@pytest.fixture(params=["home", "{world}"])
def mcp_world(request):
    return request.param
"""
TESTS = {"lists": "test_the_lists_are_those_of_the_goldens", "inventory": "test_the_inventory_is_what_the_server_lists"}
LIE = """
class Lie(Middleware):
    async def on_call_tool(self, context, call_next):
        result = await call_next(context)
        body = result.structured_content
        if context.message.arguments.get("uri") == "shop://status":
            change(body, result)
            result.content[0].text = json.dumps(body)
        return result


mcp.add_middleware(Lie())
"""


def _import_everything() -> None:
    """Import what a server imports. pytester forgets later imports, and some libraries cannot be imported twice."""
    modules: dict[str, Any] = {}
    exec(SERVER, modules)  # noqa: S102 - our own text

    async def call() -> None:
        async with Client(modules["mcp"]) as client:
            await client.call_tool_mcp("get_resource", {"uri": "shop://status"})

    asyncio.run(call())


_import_everything()


@dataclass(frozen=True)
class Fault:
    """A server with a fault, and how it is found.

    Attributes:
        where: the subject of the test that must fail: a URI, `lists` or `inventory`.
        edits: the texts of the first server that are replaced, and their replacements.
        messages: texts of the failure.
        world: the world that has the fault; empty if it is the home world. Another has the goldens of the home world.
    """

    where: str
    edits: dict[str, str]
    messages: tuple[str, ...]
    world: str = ""

    @property
    def server(self) -> str:
        """The code of the server."""
        server = SERVER
        for old, new in self.edits.items():
            assert old in server
            server = server.replace(old, new)
        return server

    @property
    def test(self) -> str:
        """The name of the test."""
        if self.where in TESTS:
            return TESTS[self.where] + (f"[{self.world}]" if self.world else "")
        case = f"{self.world}-{self.where}" if self.world else self.where
        return f"test_both_surfaces_give_the_answer_of_the_golden[{case}]"


class Project:
    """The files of the project, and pytest in it."""

    def __init__(self, pytester: pytest.Pytester, server: str) -> None:
        self.pytester = pytester
        self.root: Path = pytester.path
        self.write("server.py", server)
        self.write("pyproject.toml", CONFIGURATION)
        self.write("tests/test_contract.py", "from mcp_parity.contract import *\n")

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def change(self, old: str, new: str, name: str = "server.py") -> None:
        """Replace a text of a file, which must contain it."""
        text = (self.root / name).read_text(encoding="utf-8")
        assert old in text
        self.write(name, text.replace(old, new))

    def add(self, code: str) -> None:
        """Add code to the end of the server."""
        self.change("# more", f"{code}\n# more")

    def set(self, line: str) -> None:
        """Add a line to the configuration."""
        self.change("[tool.pytest.ini_options]", f"[tool.pytest.ini_options]\n{line}", "pyproject.toml")

    def run(self, *arguments: str, plugins: Sequence[str] = FEW) -> tuple[int, str]:
        """Run pytest in this process, and return the exit status and the output."""
        objects = PLUGINS if plugins == FEW else []
        result = self.pytester.runpytest_inprocess(*plugins, "-W", "default", *arguments, plugins=objects)
        return int(result.ret), result.stdout.str() + result.stderr.str()

    def update(self, *arguments: str) -> tuple[int, str]:
        """Write the goldens."""
        return self.run("--snapshot-update", *arguments)

    def pin(self, first: Path) -> None:
        """Write the goldens, or copy them from the directory in which they were written first."""
        if not (first / "golden").exists():
            status, output = self.update()
            assert status == 0, output
            shutil.copytree(self.root / "golden", first / "golden")
        else:
            shutil.copytree(first / "golden", self.root / "golden")

    def fail(self, *arguments: str) -> str:
        """Run the tests, which must fail, and return the output."""
        status, output = self.run(*arguments)
        assert status == 1, output
        return output

    def read(self, faults: dict[str, Fault], *arguments: str) -> dict[str, str]:
        """Run one test for each faulty server, all in one run. Return the messages of the tests that fail."""
        tests = {}
        for number, (name, fault) in enumerate(faults.items()):
            self.write(
                f"tests/test_{number}.py",
                fault.server + SERVED_HERE + (AWAY.format(world=fault.world) if fault.world else ""),
            )
            tests[f"tests/test_{number}.py::{fault.test}"] = name
        ran = self.pytester.inline_run(*FEW, "-W", "default", *arguments, *tests, plugins=PLUGINS)
        failures = [one for one in ran.getreports("pytest_runtest_logreport") if one.failed]
        return {tests[one.nodeid]: one.longreprtext for one in failures}

    def golden(self, name: str) -> Any:
        return json.loads((self.root / "golden" / f"{name}.json").read_text(encoding="utf-8"))

    @property
    def files(self) -> dict[str, str]:
        """The texts of the files in golden/."""
        paths = [path for path in (self.root / "golden").rglob("*") if path.is_file()]
        return {path.relative_to(self.root).as_posix(): path.read_text(encoding="utf-8") for path in paths}
