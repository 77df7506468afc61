"""What a server answers in two worlds, pinned in golden/: a person who is signed in, and one who is not."""

import os

import pytest
from fastmcp import FastMCP
from mcp_parity.contract import *
from typing_extensions import TypedDict

from quilt_mcp.core.errors import NotSignedIn
from quilt_mcp.core.manager import ResourceManager
from quilt_mcp.core.registry import define
from quilt_mcp.core.surfaces import add_surfaces


class Account(TypedDict):
    """The answer of demo://account."""

    user: str
    """The name of the person."""


async def read_account() -> Account:
    """Who is signed in."""
    if not (user := os.environ.get("DEMO_USER")):
        raise NotSignedIn("Nobody is signed in.", suggested_actions=["Set DEMO_USER."])
    return {"user": user}


@pytest.fixture(params=["home", "signed_out"])
def mcp_world(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("DEMO_USER", "" if request.param == "signed_out" else "ada")
    return str(request.param)


@pytest.fixture
def mcp_parity_server(mcp_world: str) -> FastMCP:
    row = define("demo://account", read_account, name="Account")
    mcp = FastMCP("demo")
    add_surfaces(mcp, ResourceManager({row["uri"]: row}))
    return mcp
