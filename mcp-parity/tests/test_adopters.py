"""Servers of other projects, with only the lines that an adopter writes: tests/adopters/."""

import csv
import shutil
from pathlib import Path

import pytest

from tests.environments import Environment, build_wheel

ADOPTERS = Path(__file__).parent / "adopters"
PACKAGES = {
    "datawrapper": "datawrapper-mcp",
    "kubeflow": "kubeflow-mcp",
    "skills": "fastmcp",
    "sqlite": "mcp-server-sqlite",
    "wikipedia": "wikipedia-mcp",
}
RESOURCES = {"datawrapper": 1, "kubeflow": 3, "skills": 3, "sqlite": 1, "wikipedia": 9}
OLDER_SDK = {"sqlite"}
"""Servers for an older version of the SDK. They have their own environment, and are started by a command."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("dist"))


@pytest.mark.install
@pytest.mark.parametrize("name", PACKAGES)
def test_an_adopter_passes(name: str, wheel: Path, tmp_path: Path) -> None:
    environment = Environment(tmp_path / "venv")
    if name in OLDER_SDK:
        environment.install(f"{wheel}[test]")
        server = Environment(tmp_path / "server")
        server.install(PACKAGES[name], "mcp<2")
        environment.add_commands_of(server)
    else:
        environment.install(f"{wheel}[test]", PACKAGES[name])
    project = tmp_path / name
    shutil.copytree(ADOPTERS / name, project)
    status, output = environment.pytest(project, "--snapshot-update")
    assert status == 0, output
    status, output = environment.pytest(project)
    assert status == 0, output
    with (project / "golden" / "mcp-list.csv").open(encoding="utf-8", newline="") as file:
        assert len([row for row in csv.DictReader(file) if row["type"] != "tool"]) == RESOURCES[name]


def test_an_adopter_needs_few_lines() -> None:
    for name in PACKAGES:
        tests = ADOPTERS / name / "tests" / "test_contract.py"
        assert tests.read_text(encoding="utf-8") == "from mcp_parity.contract import *\n"
