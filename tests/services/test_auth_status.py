"""auth://status answers with what is known, whatever the stack returns; and directories that cannot be written."""

import errno
import json
import os
import subprocess
import sys
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
import quilt3
import quilt3.session
import quilt3.util

from quilt_mcp.core.answers import JSONObject
from quilt_mcp.demo.http_server import Answer
from quilt_mcp.demo.world import World
from quilt_mcp.services.auth_metadata import filesystem_status
from quilt_mcp.tools.resource_access import get_resource
from tests.support import apps
from tests.support.python_caller import read, read_error
from tests.support.quilt_fakes import answer_queries, refuse
from tests.support.waiting import SECONDS

ME = {"name": "amara_osei", "email": "amara.osei@acme.example.com", "is_admin": True}


async def read_status() -> JSONObject:
    answer = await get_resource("auth://status")
    assert answer.success, answer
    assert answer.data["catalog_url"]
    assert answer.data["suggested_actions"]
    return answer.data


async def test_an_unexpected_response_is_unknown_with_the_reason(
    fresh_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    payloads: tuple[object, ...] = (refuse(["me"]), {"data": {"me": {"name": 5}}}, {"data": {"me": []}}, {"data": []})
    for payload in payloads:
        apps.use_environment()
        with monkeypatch.context() as patched:
            answer_queries(patched, {"me": payload, "meWithoutRole": payload})
            status = await read_status()
        assert (payload, status["status"], status["user_info"]) == (payload, "unknown", None)
        assert status["details"]


WITHOUT_A_PATH = {"errors": [{"message": "Internal server error"}]}


async def test_a_response_without_the_user_has_a_status_and_a_reason(fresh_world: World) -> None:
    for answer, expected in (
        (Answer(HTTPStatus.OK, b"<!doctype html>"), "unreachable"),
        (Answer(HTTPStatus.OK, {}), "unreachable"),
        (Answer(HTTPStatus.OK, WITHOUT_A_PATH), "unknown"),
        (Answer(HTTPStatus.BAD_REQUEST, WITHOUT_A_PATH), "unknown"),
        (Answer(HTTPStatus.FORBIDDEN, b"<!doctype html>", (("Content-Type", "text/html"),)), "unknown"),
        (Answer(HTTPStatus.FORBIDDEN, WITHOUT_A_PATH), "refused"),
        (Answer(HTTPStatus.REQUEST_TIMEOUT, WITHOUT_A_PATH), "unreachable"),
        (Answer(HTTPStatus.IM_A_TEAPOT, {}), "unknown"),
        (Answer(HTTPStatus.TOO_MANY_REQUESTS, WITHOUT_A_PATH), "unreachable"),
        (Answer(HTTPStatus.INTERNAL_SERVER_ERROR, WITHOUT_A_PATH), "unreachable"),
        (Answer(HTTPStatus.BAD_GATEWAY, b"<!doctype html>"), "unreachable"),
    ):
        apps.use_environment()
        fresh_world.stack.forced["/graphql"] = answer
        status = await read_status()
        found = (answer, status["status"], status["authenticated"], status["user_info"])
        assert found == (answer, expected, False, None)
        assert status["details"]


async def test_a_login_of_an_unknown_user_has_expired(fresh_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    answer_queries(monkeypatch, {"me": {"data": {"me": None}}})
    assert (await read_status())["status"] == "expired"


@pytest.mark.parametrize("name", ["auth.json", "config.yml"])
async def test_damaged_files_of_quilt3_make_the_login_unknown(name: str, fresh_world: World) -> None:
    path, command = {
        "auth.json": (quilt3.session.AUTH_PATH, "quilt-mcp login"),
        "config.yml": (quilt3.util.CONFIG_PATH, "quilt-mcp login https://"),
    }[name]
    path.write_text("", encoding="utf-8")
    answer = await get_resource("auth://status")
    assert answer.success
    status = answer.data
    assert (status["status"], status["authenticated"], status["catalog_url"]) == ("unknown", False, None)
    assert set(status["credentials"].values()) == {None}
    assert status["details"].startswith(f"Quilt's file {name} cannot be read.")
    assert command in status["suggested_actions"][0]
    assert fresh_world.stack.calls == []


async def test_an_address_that_is_not_valid_has_no_host(fresh_world: World) -> None:
    quilt3.util.CONFIG_PATH.write_text("navigator_url: 'https://[quilt'", encoding="utf-8")
    status, info = await read_status(), await read("auth://catalog/info")
    assert (status["status"], status["catalog_name"], status["credentials"]["aws_source"]) == (
        "not_configured",
        None,
        "aws_default_chain",
    )
    assert (info["catalog_url"], info["catalog_name"]) == ("https://[quilt", None)


async def test_aws_has_no_source_as_long_as_the_stack_is_unknown(
    fresh_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUILT_CATALOG_URL", "https://quilt..example.com")
    status = await read_status()
    assert (status["status"], status["credentials"]["aws_source"]) == ("unreachable", None)
    assert (await read_error("athena://databases")).details == "ProxyError"


async def test_an_expiry_outside_of_the_calendar_is_unknown(fresh_world: World) -> None:
    logins = json.loads(quilt3.session.AUTH_PATH.read_text(encoding="utf-8"))
    logins[fresh_world.registry_url]["expires_at"] = "SECONDS"
    for seconds in ("1768521600000000", "1e999", "NaN"):
        apps.use_environment()
        content = json.dumps(logins).replace('"SECONDS"', seconds)
        quilt3.session.AUTH_PATH.write_text(content, encoding="utf-8")
        status = await read_status()
        found = (seconds, status["status"], status["credentials"]["source"], status["credentials"]["token_expires_at"])
        assert found == (seconds, "authenticated", "login", None)


def test_a_directory_that_is_not_writable_has_an_error(fresh_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: Any) -> Any:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("tempfile.TemporaryFile", fail)
    answer = filesystem_status()
    assert answer["status"] == "read_only"
    assert answer["directories"]["workflows"]["error"] == "OSError: Read-only file system"


FULL_DISK = """
import json, resource
from quilt_mcp.app import App
from quilt_mcp.services.auth_metadata import filesystem_status
from tests.support.settings import Settings

resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # as on a full disk, files can be created, but nothing can be written
with App(Settings()).active():
    print(json.dumps(filesystem_status()))
"""


@pytest.mark.soak
@pytest.mark.skipif(sys.platform == "win32", reason="no module `resource`")
def test_a_directory_in_which_nothing_can_be_written_is_not_writable(tmp_path: Path) -> None:
    environment = os.environ | {
        "HOME": str(tmp_path),
        "QUILT_MCP_DATA_DIR": str(tmp_path),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK], capture_output=True, text=True, timeout=SECONDS, check=True, env=environment
    )
    answer = json.loads(done.stdout)
    assert answer["status"] == "read_only"
    workflows = answer["directories"]["workflows"]
    assert (workflows["exists"], workflows["writable"]) == (True, False)
    assert workflows["error"] == f"OSError: {os.strerror(errno.EFBIG)}"
