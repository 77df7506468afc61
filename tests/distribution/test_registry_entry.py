"""server.json: the entry for the MCP registry.

The registry's schema 2025-12-11 is not in this repository; `check_form` has its rules for the fields of our entry. On
2026-11-24 the published schema accepted the entry of this repository and that of a release. Nothing was published.
"""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from quilt_mcp.services.settings import StackSettings
from tests.distribution.building import run_script
from tests.support.server_process import ROOT
from tests.support.settings import Settings
from tests.support.settings_tables import grouped_settings, name_variable

COMMITTED = ROOT / "server.json"
SCHEMA = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
REQUIRED = {"$schema", "name", "title", "description", "version", "packages"}
FORMATS = {"string", "number", "boolean", "filepath"}


def build(path: Path, *arguments: str | Path) -> dict[str, Any]:
    run_script("entry", path, *arguments)
    entry: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return entry


def test_the_entry_is_up_to_date(tmp_path: Path) -> None:
    build(tmp_path / "server.json")
    assert (tmp_path / "server.json").read_text("utf-8") == COMMITTED.read_text("utf-8"), "run `make mcp-list`"


@pytest.mark.soak
def test_the_entry_of_a_release_names_its_repository_and_its_bundle(bundle: Path, tmp_path: Path) -> None:
    entry = build(tmp_path / "server.json", "--repository", "someone/quilt-mcp", "--bundle", bundle)
    [package] = entry["packages"]
    assert entry["name"] == "io.github.someone/quilt-mcp"
    assert entry["repository"] == {"url": "https://github.com/someone/quilt-mcp", "source": "github"}
    assert package["identifier"] == (
        f"https://github.com/someone/quilt-mcp/releases/download/v{entry['version']}/quilt.mcpb"
    )
    assert package["fileSha256"] == hashlib.sha256(bundle.read_bytes()).hexdigest()
    check_form(entry)


def test_the_entry_has_the_form_that_the_registry_requires() -> None:
    check_form(json.loads(COMMITTED.read_text("utf-8")))


def check_form(entry: dict[str, Any]) -> None:
    """Check the rules of the registry's schema for the fields of an entry, and that it has no others."""
    assert REQUIRED <= entry.keys() <= REQUIRED | {"repository"}
    assert entry["$schema"] == SCHEMA
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", entry["name"])
    assert all(1 <= len(entry[name]) <= 100 for name in ("title", "description"))
    assert re.fullmatch(r"\d+\.\d+\.\d+", entry["version"])
    if repository := entry.get("repository"):
        assert (repository.keys(), repository["source"]) == ({"url", "source"}, "github")
    [package] = entry["packages"]
    required = {"registryType", "identifier", "transport", "environmentVariables"}
    assert required <= package.keys() <= required | {"fileSha256"}
    assert (package["registryType"], package["transport"]) == ("mcpb", {"type": "stdio"})
    assert re.fullmatch(r"https://[^ ]+/quilt\.mcpb", package["identifier"])
    assert re.fullmatch(r"[a-f0-9]{64}", package.get("fileSha256", "0" * 64))
    for variable in package["environmentVariables"]:
        assert {"name"} <= variable.keys() <= {"name", "description", "format", "default", "isSecret", "isRequired"}
        assert variable.get("format", "string") in FORMATS


def test_the_entry_describes_the_settings_of_a_local_user() -> None:
    [package] = json.loads(COMMITTED.read_text("utf-8"))["packages"]
    variables = {variable["name"]: variable for variable in package["environmentVariables"]}
    fields = {name_variable(name): field for name, field in Settings.model_fields.items()}
    local = {name_variable(name) for name in grouped_settings()[StackSettings.group]}
    assert local <= variables.keys() <= fields.keys()
    assert {name for name, variable in variables.items() if variable["isSecret"]} == {"QUILT_API_KEY"}
    assert SecretStr.__name__ in str(fields["QUILT_API_KEY"].annotation)
    for name, variable in variables.items():
        assert variable["description"] == fields[name].description


@pytest.mark.parametrize("arguments", [["--repository", "someone/quilt-mcp"], ["--bundle", "quilt.mcpb"]])
def test_half_of_a_release_is_refused(arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_script("entry", tmp_path / "server.json", *arguments, status=2)
    assert "--repository and --bundle belong together" in capsys.readouterr().err
    assert not (tmp_path / "server.json").exists()
