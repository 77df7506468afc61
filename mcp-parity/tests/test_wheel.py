"""The built wheel alone in an empty environment, as a stranger adopts it."""

import subprocess
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.environments import Environment, build_wheel
from tests.repository import require_git

SERVER = """
from fastmcp import FastMCP

mcp = FastMCP("shop", mask_error_details=True)


@mcp.resource("shop://status")
def status() -> dict:
    return {"open": True}
"""


def test_no_file_of_the_repository_is_ignored() -> None:
    """A wheel does not contain files that .gitignore names, even if git tracks them."""
    require_git()
    command = ["git", "ls-files", "--cached", "--ignored", "--exclude-standard"]
    ran = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    if ran.returncode:
        pytest.skip("This is not a git checkout.")
    assert ran.stdout == ""


@pytest.mark.install
def test_a_stranger_adopts_a_server_with_two_lines(tmp_path: Path) -> None:
    wheel = build_wheel(tmp_path / "dist")
    names = ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} == {"mcp_parity", f"mcp_parity-{wheel.name.split('-')[1]}.dist-info"}
    assert {"mcp_parity/py.typed", "mcp_parity/review.html"} <= set(names)
    environment = Environment(tmp_path / "venv")
    environment.install(f"{wheel}[test]")
    project = tmp_path / "project"
    (project / "tests").mkdir(parents=True)
    (project / "server.py").write_text(SERVER, encoding="utf-8")
    (project / "pyproject.toml").write_text('[tool.pytest.ini_options]\nmcp_server = "server:mcp"\n', encoding="utf-8")
    (project / "tests" / "test_contract.py").write_text("from mcp_parity.contract import *\n", encoding="utf-8")
    status, output = environment.pytest(project, "--snapshot-update")
    assert status == 0, output
    status, output = environment.pytest(project)
    assert (status, "6 passed" in output) == (0, True), output
    server = project / "server.py"
    server.write_text(SERVER.replace("True}", "1}"), encoding="utf-8")
    status, output = environment.pytest(project)
    assert status == 1
    assert "shop://status differs from golden/data/shop/status.json" in output
    assert "contents[0].data.open: golden: true; server: 1" in output
