"""A server that cannot start says why in one line, also under `fastmcp run`."""

import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from pydantic import TypeAdapter, ValidationError

import quilt_mcp.main
from quilt_mcp.app.domain import Domain
from quilt_mcp.app.home import NoHomeError
from quilt_mcp.app.settings import Group, SettingsGroup
from quilt_mcp.main import create_or_exit
from quilt_mcp.server import QuiltServer, create_server, read_settings
from tests.support.toys import toy
from tests.support.waiting import SECONDS

ROOT = Path(__file__).parents[2]


def answer() -> dict[str, str]:
    return {}


class ShopSettings(SettingsGroup):
    group = Group("Shop", "")

    opening: str = ""


def create(*domains: Domain) -> Callable[[], QuiltServer]:
    return lambda: create_server(read_settings(domains, opening="9"), domains=domains)


def fail() -> QuiltServer:
    raise NoHomeError


shop = partial(Domain, name="shop")
CREATED = {
    "missing extra": (
        create(shop(resources=[], settings=ShopSettings, libraries=["no_such_library"], extra="shopping")),
        "The setting opening needs no_such_library: install the extra `shopping`, or unset it.",
    ),
    "scheme claimed twice": (
        create(shop(resources=[toy("shop://one", answer)]), Domain(name="market", resources=[toy("shop://b", answer)])),
        "The domains shop and market both claim shop://.",
    ),
    "duplicate URI": (
        create(shop(resources=[toy("shop://one", answer)] * 2)),
        "URI defined twice: shop://one.",
    ),
    "function without the variable": (
        create(shop(resources=[toy("shop://one/{name}", answer)])),
        "Service function does not match the URI: got an unexpected keyword argument 'name' in shop://one/{name}.",
    ),
    "no home directory": (fail, f"{NoHomeError()}"),
}
VARIABLE = "Invalid environment variable QUILT_MCP_{}: "
CONFIGURED = {
    "a wrong type": ({"QUILT_MCP_DEADLINE_SECONDS": "x"}, f"{VARIABLE.format('DEADLINE_SECONDS')}Input should be a "),
    "a contradiction": ({"QUILT_MCP_REQUIRED_SCOPES": "read"}, "Invalid settings: "),
    "an origin without a scheme": ({"QUILT_MCP_ALLOWED_ORIGINS": "a.example"}, VARIABLE.format("ALLOWED_ORIGINS")),
    "a host with a scheme": ({"QUILT_MCP_ALLOWED_HOSTS": "https://a.example"}, VARIABLE.format("ALLOWED_HOSTS")),
    "another home": ({"QUILT_MCP_DATA_DIR": "~no-such-user/data"}, VARIABLE.format("DATA_DIR")),
    "an empty claim": ({"QUILT_MCP_REQUIREMENTS_USER_CLAIM": ""}, VARIABLE.format("REQUIREMENTS_USER_CLAIM")),
    "an invalid sign-in": (
        {"QUILT_MCP_STATIC_TOKENS": "/none"},
        "QUILT_MCP_STATIC_TOKENS is neither a valid value nor a readable file.",
    ),
    "a static token without a client": (
        {"QUILT_MCP_STATIC_TOKENS": '{"zq-secret": {}}'},
        "QUILT_MCP_STATIC_TOKENS: Field required (at client_id)",
    ),
}


@pytest.mark.parametrize("case", CREATED)
def test_a_server_that_cannot_be_created_gives_one_line(case: str) -> None:
    create, line = CREATED[case]
    with pytest.raises(SystemExit) as ended:
        create_or_exit(create)
    assert ended.value.code == f"quilt-mcp: {line}"


@pytest.mark.parametrize("case", CONFIGURED)
def test_an_invalid_setting_gives_one_line(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    environment, line = CONFIGURED[case]
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as ended:
        create_or_exit()
    assert str(ended.value.code).startswith(f"quilt-mcp: {line}")
    assert "\n" not in str(ended.value.code)


def test_a_bug_keeps_its_traceback() -> None:
    def fail_to_parse() -> QuiltServer:
        TypeAdapter(int).validate_python("x")
        return create_server()

    with pytest.raises(ValidationError):
        create_or_exit(fail_to_parse)


def run_with_fastmcp(file: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("fastmcp")), "run", str(file), "--no-banner"]
    given = os.environ | {"PYTHONPATH": str(ROOT)} | environment
    return subprocess.run(
        command, env=given, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=SECONDS
    )


@pytest.mark.soak
@pytest.mark.parametrize("case", CREATED)
def test_fastmcp_run_shows_why_a_server_cannot_be_created(case: str, tmp_path: Path) -> None:
    file = tmp_path / "served.py"
    file.write_text(
        f"from quilt_mcp.main import create_or_exit\nfrom {__name__} import CREATED\n"
        f"mcp = create_or_exit(CREATED[{case!r}][0])\n"
    )
    ran = run_with_fastmcp(file)
    assert (ran.returncode, ran.stdout, ran.stderr) == (1, "", f"quilt-mcp: {CREATED[case][1]}\n")


@pytest.mark.soak
@pytest.mark.parametrize("case", CONFIGURED)
def test_fastmcp_run_shows_which_setting_is_invalid(case: str) -> None:
    environment, line = CONFIGURED[case]
    ran = run_with_fastmcp(Path(str(quilt_mcp.main.__file__)), **environment)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.startswith(f"quilt-mcp: {line}")
    assert ran.stderr.count("\n") == 1
