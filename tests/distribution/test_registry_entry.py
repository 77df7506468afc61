"""server.json: the entry for the MCP registry, in the form of its schema 2025-12-11."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from quilt_mcp.settings import Settings
from tests.distribution.building import run_script
from tests.support.server_process import ROOT
from tests.support.settings_tables import grouped_settings, name_variable

COMMITTED = ROOT / "server.json"


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


def test_the_entry_has_the_form_of_the_schema() -> None:
    check_form(json.loads(COMMITTED.read_text("utf-8")))


def check_form(entry: dict[str, Any]) -> None:
    """Check the limits of the schema, which is not in this repository."""
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", entry["name"])
    assert 0 < len(entry["description"]) <= 100
    assert entry.keys() <= {"$schema", "name", "title", "description", "version", "repository", "packages"}
    for package in entry["packages"]:
        assert package.keys() >= {"registryType", "identifier", "transport"}
        assert package["transport"] == {"type": "stdio"}
        for variable in package["environmentVariables"]:
            assert variable["format"] in {"string", "number", "boolean", "filepath"}
            assert isinstance(variable.get("default", ""), str)
            assert type(variable["isSecret"]) is type(variable["isRequired"]) is bool


def test_the_entry_describes_the_settings_of_a_local_user() -> None:
    [package] = json.loads(COMMITTED.read_text("utf-8"))["packages"]
    variables = {variable["name"]: variable for variable in package["environmentVariables"]}
    fields = {name_variable(name): field for name, field in Settings.model_fields.items()}
    local = {name_variable(name) for name in grouped_settings()["Local use"]}
    assert local <= variables.keys() <= fields.keys()
    assert {name for name, variable in variables.items() if variable["isSecret"]} == {"QUILT_API_KEY"}
    assert SecretStr.__name__ in str(fields["QUILT_API_KEY"].annotation)
    for name, variable in variables.items():
        assert variable["description"] == fields[name].description


@pytest.mark.soak
@pytest.mark.parametrize("arguments", [["--repository", "someone/quilt-mcp"], ["--bundle", "quilt.mcpb"]])
def test_half_of_a_release_is_refused(arguments: list[str], tmp_path: Path) -> None:
    with pytest.raises(Exception, match="returned non-zero exit status 2"):
        build(tmp_path / "server.json", *arguments)
    assert not (tmp_path / "server.json").exists()
