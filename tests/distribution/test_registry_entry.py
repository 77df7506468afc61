"""server.json: the entry for the MCP registry.

The registry's schema 2025-12-11 is not in this repository. SUBSET is our own schema. It has all rules of the published
schema for the fields of our entry, requires more of them, and refuses other fields. On 2026-11-24 the published schema
accepted both entries, that of this repository and that of a release. Nothing was published.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # it ships no types
import pytest
from pydantic import SecretStr

from quilt_mcp.settings import Settings
from tests.distribution.building import run_script
from tests.support.server_process import ROOT
from tests.support.settings_tables import grouped_settings, name_variable

COMMITTED = ROOT / "server.json"
TEXT = {"type": "string"}
STDIO = {"type": "stdio"}
BUNDLE = "https://example.com/quilt.mcpb"
VARIABLE = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": TEXT,
        "description": TEXT,
        "format": {"enum": ["string", "number", "boolean", "filepath"]},
        "default": TEXT,
        "isSecret": {"type": "boolean"},
        "isRequired": {"type": "boolean"},
    },
    "additionalProperties": False,
}
PACKAGE: dict[str, Any] = {
    "type": "object",
    "required": ["registryType", "identifier", "transport"],
    "properties": {
        "registryType": {"const": "mcpb"},
        "identifier": {**TEXT, "pattern": "^https://[^ ]+/quilt\\.mcpb$"},
        "version": {**TEXT, "minLength": 1, "not": {"const": "latest"}},
        "fileSha256": {**TEXT, "pattern": "^[a-f0-9]{64}$"},
        "transport": {"const": STDIO},
        "environmentVariables": {"type": "array", "items": VARIABLE},
    },
    "additionalProperties": False,
}
RELEASED = PACKAGE | {"required": [*PACKAGE["required"], "fileSha256"]}
"""The registry requires the checksum of a bundle, though its schema does not."""
REPOSITORY = {
    "type": "object",
    "required": ["url", "source"],
    "properties": {"url": {**TEXT, "pattern": "^https://"}, "source": {"const": "github"}},
    "additionalProperties": False,
}
SUBSET: dict[str, Any] = {
    "type": "object",
    "required": ["$schema", "name", "description", "version", "packages"],
    "properties": {
        "$schema": {"const": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"},
        "name": {**TEXT, "minLength": 3, "maxLength": 200, "pattern": "^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$"},
        "title": {**TEXT, "minLength": 1, "maxLength": 100},
        "description": {**TEXT, "minLength": 1, "maxLength": 100},
        "version": {**TEXT, "maxLength": 255},
        "repository": REPOSITORY,
        "packages": {"type": "array", "items": PACKAGE},
    },
    "additionalProperties": False,
}


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
    jsonschema.validate(package, RELEASED, jsonschema.Draft7Validator)


def test_the_entry_has_the_form_of_our_subset_of_the_schema() -> None:
    check_form(json.loads(COMMITTED.read_text("utf-8")))


@pytest.mark.parametrize(
    "change",
    [
        {"name": "quilt-mcp"},
        {"description": "x" * 101},
        {"version": 1},
        {"further": True},
        {"repository": {"url": "not a URL", "source": "github"}},
        {"$schema": "https://static.modelcontextprotocol.io/schemas/2025-10-17/server.schema.json"},
        {"packages": [{"registryType": "mcpb", "identifier": BUNDLE}]},
        {"packages": [{"registryType": "mcpb", "identifier": "quilt.mcpb", "transport": {"type": "stdio"}}]},
        {"packages": [{"registryType": "mcpb", "identifier": BUNDLE, "transport": {"type": "http"}}]},
        {"packages": [{"registryType": "mcpb", "identifier": BUNDLE, "transport": STDIO, "version": "latest"}]},
        {"packages": [{"registryType": "mcpb", "identifier": BUNDLE, "transport": STDIO, "fileSha256": "A1"}]},
    ],
)
def test_the_subset_refuses_another_form(change: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        check_form(json.loads(COMMITTED.read_text("utf-8")) | change)


def check_form(entry: dict[str, Any]) -> None:
    """Check an entry with our subset of the schema."""
    jsonschema.Draft7Validator.check_schema(SUBSET)
    jsonschema.validate(entry, SUBSET, jsonschema.Draft7Validator)


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


@pytest.mark.parametrize("arguments", [["--repository", "someone/quilt-mcp"], ["--bundle", "quilt.mcpb"]])
def test_half_of_a_release_is_refused(arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_script("entry", tmp_path / "server.json", *arguments, status=2)
    assert "--repository and --bundle belong together" in capsys.readouterr().err
    assert not (tmp_path / "server.json").exists()
