"""Servers of other projects, with only the lines that an adopter writes: tests/adopters/."""

import csv
import shutil
import tomllib
from pathlib import Path

import pytest

from tests.environments import Environment, build_wheel, install_with_npm

ADOPTERS = Path(__file__).parent / "adopters"
PACKAGES = {
    "datawrapper": "datawrapper-mcp",
    "kubeflow": "kubeflow-mcp",
    "skills": "fastmcp",
    "sqlite": "mcp-server-sqlite",
    "time": "mcp-server-time",
    "wikipedia": "wikipedia-mcp",
    "everything": "@modelcontextprotocol/server-everything",
    "memory": "@modelcontextprotocol/server-memory",
    "mongodb": "mongodb-mcp-server",
}
OF_NPM = {"everything", "memory", "mongodb"}
RESOURCES = {
    "datawrapper": 1, "everything": 9, "kubeflow": 3, "memory": 1, "mongodb": 1, "skills": 3, "sqlite": 1, "time": 0,
    "wikipedia": 9,
}  # fmt: skip
OLDER_SDK = {"sqlite"}
"""Servers for an older version of the SDK. They have their own environment, and are started by a command."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("dist"))


CHECKS = {
    "mongodb": (1, "error    debug://mongodb: announced as application/json, but the text is not JSON"),
    "wikipedia": (0, "/search/{query} and 8 more: not read: the server completes no value"),
    "time": (0, "0 resources, 0 resource templates, 2 tools"),
}
"""What a check says: the exit status, and a text. Of the others, a check finds no errors."""


def set_up(name: str, wheel: Path, tmp_path: Path) -> tuple[Environment, Path]:
    """Install the wheel and the server. Return the environment and the project with what an adopter writes."""
    project = tmp_path / name
    shutil.copytree(ADOPTERS / name, project)
    environment = Environment(tmp_path / "venv")
    if name in OF_NPM:
        environment.install(f"{wheel}[test]")
        install_with_npm(project, PACKAGES[name])
    elif name in OLDER_SDK:
        environment.install(f"{wheel}[test]")
        server = Environment(tmp_path / "server")
        server.install(PACKAGES[name], "mcp<2")
        environment.add_commands_of(server)
    else:
        environment.install(f"{wheel}[test]", PACKAGES[name])
    return environment, project


@pytest.mark.install
@pytest.mark.parametrize("name", PACKAGES)
def test_an_adopter_passes_and_can_be_checked(name: str, wheel: Path, tmp_path: Path) -> None:
    environment, project = set_up(name, wheel, tmp_path)
    status, output = environment.pytest(project, "--snapshot-update")
    assert status == 0, output
    status, output = environment.pytest(project)
    assert status == 0, output
    with (project / "golden" / "mcp-list.csv").open(encoding="utf-8", newline="") as file:
        assert len([row for row in csv.DictReader(file) if row["type"] != "tool"]) == RESOURCES[name]
    server = tomllib.loads((project / "pyproject.toml").read_text("utf-8"))["tool"]["pytest"]["ini_options"][
        "mcp_server"
    ]
    expected, text = CHECKS.get(name, (0, "  read     "))
    status, output = environment.run(project, "mcp_parity.cli", "check", server)
    assert (status, text in output) == (expected, True), output


def test_an_adopter_needs_few_lines() -> None:
    for name in PACKAGES:
        tests = ADOPTERS / name / "tests" / "test_contract.py"
        assert tests.read_text(encoding="utf-8") == "from mcp_parity.contract import *\n"
