"""The bundle for Claude Desktop. `mcpb`, the command of its authors, is the judge of its form."""

import json
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from tests.distribution.building import ask_over_stdio, create_environment, run_or_skip, run_script
from tests.support.server_process import ROOT
from tests.support.settings import Settings
from tests.support.settings_tables import name_variable

MCPB = "@anthropic-ai/mcpb@2.1.2"
NPM = shutil.which("npm")
UV = shutil.which("uv")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SUBSTITUTE = """
import { readFileSync } from "node:fs";
import { getMcpConfigForManifest } from "@anthropic-ai/mcpb/node";
const manifest = JSON.parse(readFileSync(process.argv[1], "utf-8"));
const userConfig = JSON.parse(process.argv[2]);
const options = { manifest, userConfig, extensionPath: "/bundle", systemDirs: {}, pathSeparator: "/" };
console.log(JSON.stringify(await getMcpConfigForManifest(options)));
"""


def manifest_of(bundle: Path) -> dict[str, Any]:
    with ZipFile(bundle) as archive:
        found: dict[str, Any] = json.loads(archive.read("manifest.json"))
    return found


@pytest.mark.soak
@pytest.mark.skipif(NPM is None or shutil.which("node") is None, reason="node and npm are not installed")
def test_mcpb_accepts_the_bundle_and_passes_the_users_settings(bundle: Path, tmp_path: Path) -> None:
    run_or_skip(str(NPM), "install", "--silent", "--no-audit", "--no-fund", "--prefix", tmp_path, MCPB)
    mcpb = tmp_path / "node_modules" / ".bin" / "mcpb"
    subprocess.run([mcpb, "unpack", bundle, tmp_path / "unpacked"], check=True)
    manifest = tmp_path / "unpacked" / "manifest.json"
    validated = subprocess.run([mcpb, "validate", manifest], capture_output=True, text=True, check=False)
    assert (validated.returncode, validated.stdout.strip()) == (0, "Manifest schema validation passes!")

    def configure(user: dict[str, str]) -> dict[str, Any]:
        node = ["node", "--input-type=module", "-e", SUBSTITUTE, str(manifest), json.dumps(user)]
        done = subprocess.run(node, cwd=tmp_path, capture_output=True, text=True, check=True)
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    given = {"catalog_url": "https://quilt.acme.example.com", "api_key": "qk_one"}
    assert configure(given) == {
        "command": "uv",
        "args": ["run", "--directory", "/bundle", "server.py"],
        "env": {"QUILT_CATALOG_URL": "https://quilt.acme.example.com", "QUILT_API_KEY": "qk_one"},
    }
    assert configure({})["env"] == {"QUILT_CATALOG_URL": "", "QUILT_API_KEY": ""}


def test_the_manifest_follows_from_the_project_and_its_settings(bundle: Path) -> None:
    manifest = manifest_of(bundle)
    assert (manifest["version"], manifest["license"]) == (PROJECT["version"], PROJECT["license"])
    assert manifest["compatibility"]["runtimes"] == {"python": PROJECT["requires-python"]}
    assert manifest["server"]["type"] == "uv"
    fields = {name_variable(name): field for name, field in Settings.model_fields.items()}
    passed = manifest["server"]["mcp_config"]["env"]
    asked = manifest["user_config"]
    assert passed == {"QUILT_CATALOG_URL": "${user_config.catalog_url}", "QUILT_API_KEY": "${user_config.api_key}"}
    for variable, key in (("QUILT_CATALOG_URL", "catalog_url"), ("QUILT_API_KEY", "api_key")):
        assert asked[key]["description"] == fields[variable].description
    assert {key: option["sensitive"] for key, option in asked.items()} == {"catalog_url": False, "api_key": True}


@pytest.mark.soak
def test_the_same_sources_give_the_same_bytes(bundle: Path, tmp_path: Path) -> None:
    run_script("bundle", tmp_path / "again.mcpb")
    assert (tmp_path / "again.mcpb").read_bytes() == bundle.read_bytes()


def test_the_bundle_installs_the_tested_versions(unpacked: Path) -> None:
    written = tomllib.loads((unpacked / "pyproject.toml").read_text(encoding="utf-8"))
    expected = {key: value for key, value in PROJECT.items() if key != "optional-dependencies"}
    assert written["project"] == expected
    versions = written["tool"]["uv"]["constraint-dependencies"]
    tested = (ROOT / ".ci" / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert versions == [line for line in tested if line and not line.startswith("#")]


@pytest.mark.soak
async def test_the_unpacked_bundle_serves_a_user_without_settings(unpacked: Path, bundle: Path, tmp_path: Path) -> None:
    """With this Python instead of uv."""
    manifest = manifest_of(bundle)
    *_, entry_point = manifest["server"]["mcp_config"]["args"]
    assert entry_point == manifest["server"]["entry_point"]
    unset = dict.fromkeys(manifest["server"]["mcp_config"]["env"], "")
    tools, workflows = await ask_over_stdio(
        sys.executable, [entry_point], tmp_path, cwd=unpacked, PYTHONPATH=str(unpacked / "src"), **unset
    )
    assert tools == sorted(tool["name"] for tool in manifest["tools"])
    assert workflows["workflows"] == []


@pytest.mark.soak
def test_without_uv_one_line_says_what_to_run(unpacked: Path) -> None:
    """A Python without packages starts the file."""
    command = [sys.executable, "-I", "-S", str(unpacked / "server.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("No module named 'quilt_mcp'. uv installs what this file needs: uv run ")
    assert done.stderr.count("\n") == 1


@pytest.mark.install
@pytest.mark.parametrize("installer", ["uv", "pip"])
async def test_the_bundle_installs_itself_and_serves(
    installer: str, unpacked: Path, bundle: Path, tmp_path: Path
) -> None:
    config = manifest_of(bundle)["server"]["mcp_config"]
    arguments = [word.replace("${__dirname}", str(unpacked)) for word in config["args"]]
    if installer == "pip":
        command = create_environment(tmp_path / "venv", unpacked) / "python"
        arguments = [str(unpacked / arguments[-1])]
    elif UV is None:
        pytest.skip("uv is not installed")
    else:
        command = Path(UV)
        run_or_skip(UV, "sync", "--quiet", "--directory", unpacked)
    home = tmp_path / "home"
    home.mkdir()
    tools, workflows = await ask_over_stdio(str(command), arguments, home)
    assert "get_resource" in tools
    assert workflows["workflows"] == []
