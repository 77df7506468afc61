"""The files of examples/ run, and do what README says."""

import json
import os
import re
import shutil
import subprocess
import sys
from http import HTTPStatus
from pathlib import Path
from runpy import run_path
from typing import Any

import httpx2
import pytest
from fastmcp import Client
from fastmcp.server.auth.providers.jwt import RSAKeyPair

from tests.support.docs import ROOT
from tests.support.pages import blocks

EXAMPLES = ROOT / "examples"
FOLDERS = [path.parent.name for path in EXAMPLES.glob("*/pytest.ini")]


def load(name: str) -> dict[str, Any]:
    return run_path(str(EXAMPLES / name), run_name="example")


def test_the_table_names_every_example() -> None:
    named = re.findall(r"^\| \[([\w.]+)\]", (EXAMPLES / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    packages = [path.parent.name for path in EXAMPLES.glob("*/pyproject.toml")]
    assert sorted(named) == sorted([*FOLDERS, *packages, *(path.name for path in EXAMPLES.glob("*.py"))])


@pytest.mark.soak
def test_a_read_in_both_ways_prints_what_the_readme_shows() -> None:
    [shown] = [json.loads(block.text) for block in blocks(EXAMPLES / "README.md") if block.language == "json"]
    command = [sys.executable, str(EXAMPLES / "read_both_ways.py")]
    assert json.loads(subprocess.run(command, capture_output=True, check=True).stdout) == shown


async def test_a_resource_of_your_own_is_read_in_both_ways_and_completed() -> None:
    async with Client(load("own_resource.py")["mcp"]) as client:
        [contents] = await client.read_resource("demo://hello/ada")
        answer = await client.call_tool("get_resource", {"uri": "demo://hello/ada"})
        refused = await client.call_tool("get_resource", {"uri": "demo://hello/bob"}, raise_on_error=False)
    assert json.loads(contents.text) == answer.structured_content["data"] == {"greeting": "Hello, Ada Lovelace."}
    assert refused.structured_content["suggested_actions"] == ["Known people: ada, grace."]


@pytest.mark.usefixtures("data_dir")
async def test_a_server_with_sign_in_answers_only_who_has_a_token() -> None:
    example, keys = load("server_with_sign_in.py"), RSAKeyPair.generate()
    app = example["create_app"](keys.public_key)
    token = keys.create_token("ada", issuer=example["ISSUER"], audience=example["AUDIENCE"])
    read = {"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": "metadata://templates"}}
    headers = {"accept": "application/json, text/event-stream", "authorization": f"Bearer {token}"}
    transport = httpx2.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as client,
    ):
        assert (await client.post("/mcp", json=read)).status_code == HTTPStatus.UNAUTHORIZED
        answer = await client.post("/mcp", json=read, headers=headers)
    assert json.loads(answer.json()["result"]["contents"][0]["text"])["available_templates"]


@pytest.mark.soak
@pytest.mark.parametrize("folder", FOLDERS)
def test_the_goldens_of_an_example_are_true_and_a_change_of_one_fails(folder: str, tmp_path: Path) -> None:
    copied = Path(shutil.copytree(EXAMPLES / folder, tmp_path / folder))
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}

    def run() -> int:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        return subprocess.run(command, cwd=copied, env=environment, check=False).returncode

    assert run() == pytest.ExitCode.OK
    golden = next(path for path in sorted((copied / "golden" / "data").rglob("*.json")))
    golden.write_text(golden.read_text(encoding="utf-8").replace('"', '"x', 1), encoding="utf-8")
    assert run() == pytest.ExitCode.TESTS_FAILED
