"""A domain in a wheel of its own, installed beside the wheel of this project."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.distribution.building import create_environment
from tests.support.server_process import ROOT

pytestmark = pytest.mark.install


def test_a_wheel_of_one_module_adds_a_domain_and_takes_it_away(wheel: Path, tmp_path: Path) -> None:
    commands = create_environment(tmp_path / "venv", wheel, ROOT / "examples" / "own_domain")
    file = tmp_path / "stations.json"
    file.write_text(json.dumps({"oslo": [59.9, 10.7]}), encoding="utf-8")
    environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "QUILT_MCP_STATIONS_FILE": str(file)}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [str(commands / words[0]), *words[1:]]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    read = run("quilt-mcp", "get", "stations://stations/oslo", "--json")
    assert json.loads(read.stdout)["data"] == {"name": "oslo", "latitude": 59.9, "longitude": 10.7}
    checks = json.loads(run("quilt-mcp", "doctor", "--json").stdout)["checks"]
    assert {check["name"]: check["detail"] for check in checks}["domain stations"] == "stations-domain 0.1.0"
    assert run("quilt-mcp", "stations").stdout == "Stations come from QUILT_MCP_STATIONS_FILE.\n"
    assert run("python", "-m", "pip", "uninstall", "--quiet", "--yes", "stations-domain").returncode == 0
    gone = json.loads(run("quilt-mcp", "get", "stations://stations/oslo", "--json").stdout)
    assert gone["error"] == "InvalidURI"
