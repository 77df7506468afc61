"""The wheel, and installations from a clone, in directories without this project's files."""

import os
import shutil
import subprocess
from pathlib import Path
from zipfile import ZipFile

import pytest

from quilt_mcp import __version__
from tests.distribution.building import WORKFLOWS, ask_over_stdio, create_environment, run_or_skip
from tests.support.server_process import ROOT

COMMIT = "quilt_mcp/app/commit.txt"
"""The build writes it, if it knows the commit."""
INSTALLERS = {"pipx": ["install"], "uv": ["tool", "install"]}


@pytest.mark.soak
def test_the_wheel_has_every_file_of_the_package_and_nothing_else(wheel: Path) -> None:
    names = {name for name in ZipFile(wheel).namelist() if not name.partition("/")[0].endswith(".dist-info")}
    sources = {path for path in (ROOT / "src" / "quilt_mcp").rglob("*") if path.is_file() and path.suffix != ".pyc"}
    assert names - {COMMIT} == {path.relative_to(ROOT / "src").as_posix() for path in sources}


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A copy of the files that are in git, without the tested versions in .ci."""
    listed = subprocess.run(
        ["/bin/sh", "-c", "git ls-files -z src *.toml *.md LICENSE"], cwd=ROOT, capture_output=True, check=False
    )
    if listed.returncode:
        pytest.skip("this is not a clone")
    target = tmp_path / "clone"
    for name in listed.stdout.decode().split("\0")[:-1]:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, target / name)
    return target


def check_commands(quilt_mcp: Path, directory: Path) -> None:
    """Run commands as a new user does, in an empty directory."""

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        environment = {"HOME": str(directory), "PATH": os.environ["PATH"]}
        return subprocess.run(
            [quilt_mcp, *words], cwd=directory, env=environment, capture_output=True, text=True, check=False
        )

    version = run("--version")
    assert (version.returncode, version.stdout.split()[:2]) == (0, ["quilt-mcp", __version__])
    demo = run("demo")
    assert demo.returncode == 0, demo.stdout + demo.stderr
    read = run("get", WORKFLOWS, "--json")
    assert read.returncode == 0, read.stderr
    doctor = run("doctor")
    assert "quilt-mcp login https://<your catalog>" in doctor.stdout, (
        doctor.stdout + doctor.stderr
    )  # what a new user has to do first
    assert "Traceback" not in demo.stderr + doctor.stderr


@pytest.mark.soak
def test_an_older_python_refuses_the_wheel_with_one_line_and_installs_nothing(wheel: Path, tmp_path: Path) -> None:
    older = find_older_python()
    target = tmp_path / "installed"
    command: list[str | Path] = [
        older,
        "-m",
        "pip",
        "--isolated",
        "install",
        "--no-index",
        "--no-deps",
        "--target",
        target,
        wheel,
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    [error] = [line for line in done.stderr.splitlines() if line.startswith("ERROR:")]
    assert "requires a different Python" in error
    assert error.endswith("not in '>=3.11'")
    assert (done.returncode, target.exists()) == (1, False)


def find_older_python() -> Path:
    """Return a Python that is older than what this project supports, and has pip."""
    places = [*map(Path, os.environ["PATH"].split(os.pathsep)), *Path.home().glob(".pyenv/versions/3.*/bin")]
    for path in (place / f"python3.{minor}" for place in places for minor in (10, 9)):
        if path.is_file() and subprocess.run([path, "-m", "pip", "--version"], capture_output=True).returncode == 0:  # noqa: PLW1510 - the status is the answer
            return path
    pytest.skip("no Python older than 3.11 is installed")


@pytest.mark.install
async def test_the_wheel_alone_serves_and_runs_the_demo(wheel: Path, tmp_path: Path) -> None:
    commands = create_environment(tmp_path / "venv", f"{wheel}[demo]")
    home = tmp_path / "home"
    home.mkdir()
    check_commands(commands / "quilt-mcp", home)
    tools, workflows = await ask_over_stdio(str(commands / "quilt-mcp"), ["serve"], home, cwd=home)
    assert "get_resource" in tools
    assert workflows["workflows"] == []
    tools, buckets = await ask_over_stdio(
        str(commands / "quilt-mcp"), ["serve", "--demo"], home, uri="tabulator://buckets", cwd=home
    )
    assert buckets["count"] == 2


@pytest.mark.install
@pytest.mark.parametrize("installer", INSTALLERS)
def test_a_clone_can_be_installed_as_a_tool(installer: str, clone: Path, tmp_path: Path) -> None:
    program = shutil.which(installer)
    if program is None:
        pytest.skip(f"{installer} is not installed")
    commands, home = tmp_path / "bin", tmp_path / "home"
    home.mkdir()
    places = {
        "PIPX_HOME": str(tmp_path / "pipx"),
        "PIPX_BIN_DIR": str(commands),
        "UV_TOOL_DIR": str(tmp_path / "tools"),
        "UV_TOOL_BIN_DIR": str(commands),
    }
    run_or_skip(program, *INSTALLERS[installer], f"{clone}[demo]", environment=places)
    check_commands(commands / "quilt-mcp", home)


@pytest.mark.install
def test_uvx_runs_the_demo_of_a_clone(clone: Path, tmp_path: Path) -> None:
    """The command of the README."""
    program = shutil.which("uvx")
    if program is None:
        pytest.skip("uv is not installed")
    places = {"HOME": str(tmp_path), "UV_TOOL_DIR": str(tmp_path / "tools")}
    shown = run_or_skip(program, "--from", ".[demo]", "quilt-mcp", "demo", cwd=clone, environment=places)
    assert "same" in shown


@pytest.mark.install
def test_every_extra_can_be_installed_from_a_clone(clone: Path, tmp_path: Path) -> None:
    commands = create_environment(tmp_path / "venv", f"{clone}[analysis,postgres,valkey]")
    program = "import crosshair, psycopg, redis"
    subprocess.run([commands / "python", "-c", program], cwd=tmp_path, check=True)
