"""`quilt-mcp login` and `quilt-mcp logout`."""

import io
import json
import os
from collections.abc import Iterator
from http import HTTPStatus

import pytest
import quilt3.session
import quilt3.util

from quilt_mcp.commands.cli import main
from quilt_mcp.demo.company import ADMIN
from quilt_mcp.demo.http_server import Answer
from quilt_mcp.demo.world import World
from tests.support.worlds import enter_stopped

OTHER = "https://registry.other.example.com"


@pytest.fixture
def world() -> Iterator[World]:
    """A new user of the stack: nothing is configured."""
    with enter_stopped("signed_out") as entered:
        quilt3.util.CONFIG_PATH.unlink()
        yield entered


def give(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(code))


def make_code(world: World) -> str:
    user = world.company.find_user(ADMIN)
    return world.stack.sign_in(user)


def test_one_command_configures_and_signs_in_beside_a_login_to_another_stack(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    theirs = {"access_token": "theirs", "refresh_token": "theirs", "expires_at": 1}
    quilt3.session.AUTH_PATH.write_text(json.dumps({OTHER: theirs}))
    code = make_code(world)
    give(f"{code}\n", monkeypatch)
    assert main(["login", f"{world.url}/b/acme-analysis-results?tab=1"]) == 0
    out, _ = capsys.readouterr()
    assert f"Signed in to {world.url} as {ADMIN}" in out
    assert out.splitlines()[-1] == "Next: quilt-mcp install"
    logins = json.loads(quilt3.session.AUTH_PATH.read_text())
    assert logins.keys() == {OTHER, world.registry_url}
    assert logins[OTHER] == theirs
    assert quilt3.session.CREDENTIALS_PATH.exists()
    assert code not in out
    if os.name == "posix":
        assert quilt3.session.AUTH_PATH.stat().st_mode & 0o077 == 0


def test_without_a_catalog_the_configured_one_is_used(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["login"]) == 2
    assert "quilt-mcp login https://<your catalog>" in capsys.readouterr().err
    quilt3.util.configure_from_url(world.url)
    give(make_code(world), monkeypatch)
    assert main(["login"]) == 0
    assert f"Signed in to {world.url}" in capsys.readouterr().out


def test_an_expired_code_changes_no_login_and_says_where_a_new_one_is(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code = make_code(world)
    for expected in (0, 1):  # a code is valid once
        give(code, monkeypatch)
        assert main(["login", world.url]) == expected
    complaint = capsys.readouterr().err
    assert f"{world.registry_url}/login" in complaint
    assert code not in complaint
    assert json.loads(quilt3.session.AUTH_PATH.read_text()).keys() == {world.registry_url}


def test_no_code_is_asked_for_twice(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    give("\n", monkeypatch)
    assert main(["login", world.url]) == 2
    assert "No code was given" in capsys.readouterr().err
    assert not quilt3.util.CONFIG_PATH.exists()


class Terminal(io.StringIO):
    """Says that it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("display", [":0", ""])
def test_a_terminal_shows_the_address_and_opens_it_if_there_is_a_browser(
    display: str, world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened: list[str] = []

    def open_page(page: str) -> bool:
        opened.append(page)
        return True

    monkeypatch.setattr("webbrowser.open", open_page)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setenv("DISPLAY", display)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr("getpass.getpass", lambda _: make_code(world))
    assert main(["login", world.url]) == 0
    page = f"{world.registry_url}/login"
    assert opened == ([page] if display else [])
    assert page in capsys.readouterr().out


def test_a_user_without_a_role_is_signed_in_and_told_what_is_missing(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world.stack.forced["/api/auth/get_credentials"] = world.stack.no_role
    give(make_code(world), monkeypatch)
    assert main(["login", world.url]) == 0
    out, err = capsys.readouterr()
    assert "Signed in" in out
    assert "Ask a Quilt administrator for a role" in err


@pytest.mark.parametrize(
    ("catalog", "words"),
    [
        ("", "must be an address"),
        ("ftp://quilt.example.com", "must be an address"),
        ("https://ann:zq-secret@quilt.example.com", "must be an address"),
        ("https://unknown.example.com", "unknown.example.com"),
    ],
)
def test_an_address_without_a_catalog_is_refused(
    catalog: str, words: str, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["login", catalog]) in {1, 2}
    complaint = capsys.readouterr().err
    assert words in complaint
    assert "zq-secret" not in complaint
    assert not quilt3.util.CONFIG_PATH.exists()
    assert world.user is None


def test_a_registry_of_another_domain_gets_no_code(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = {**world.stack.describe_catalog(), "registryUrl": "https://elsewhere.example.org"}
    world.stack.forced["/config.json"] = Answer(HTTPStatus.OK, config)
    give(make_code(world), monkeypatch)
    assert main(["login", world.url]) == 1
    assert "does not belong to the catalog" in capsys.readouterr().err
    world.stack.forced["/config.json"] = Answer(HTTPStatus.OK, {})
    assert main(["login", world.url]) == 1
    assert "is not a Quilt catalog" in capsys.readouterr().err


def test_damaged_files_are_replaced(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    quilt3.util.CONFIG_PATH.write_text("")
    quilt3.session.AUTH_PATH.write_text('{"half')
    give(make_code(world), monkeypatch)
    assert main(["login", world.url]) == 0
    assert "auth.json.damaged" in capsys.readouterr().err
    assert json.loads(quilt3.session.AUTH_PATH.read_text()).keys() == {world.registry_url}


def test_the_choice_to_send_no_usage_metrics_stays(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    quilt3.util.configure_from_url(world.url)
    quilt3.util.set_config_value("telemetry_disabled", value=True)
    give(make_code(world), monkeypatch)
    assert main(["login", world.url]) == 0
    assert quilt3.util.get_from_config("telemetry_disabled") is True


def test_a_variable_that_replaces_the_login_is_named(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("QUILT_CATALOG_URL", world.url)
    give(make_code(world), monkeypatch)
    assert main(["login", world.url]) == 0
    assert "QUILT_CATALOG_URL" in capsys.readouterr().err


def test_logout_keeps_the_catalog_and_can_be_repeated(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["logout"]) == 0
    assert capsys.readouterr().out == "There is no login.\n"
    give(make_code(world), monkeypatch)
    assert main(["login", world.url]) == 0
    assert main(["logout"]) == 0
    assert json.loads(quilt3.session.AUTH_PATH.read_text()) == {}
    assert quilt3.util.get_from_config("navigator_url") == world.url
