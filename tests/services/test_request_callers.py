"""Callers of HTTP requests: their stack, their credentials, and how long they are kept."""

import gc
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

import pytest
import quilt3.util
import requests

from quilt_mcp.app import identity
from quilt_mcp.app.identity import Identity
from quilt_mcp.core.errors import ResourceExecutionError, Unavailable
from quilt_mcp.demo.http_server import Answer
from quilt_mcp.demo.stack import Grant
from quilt_mcp.demo.world import World
from quilt_mcp.services.athena_read_service import athena_databases_list
from quilt_mcp.services.auth_metadata import auth_status, catalog_info
from quilt_mcp.services.governance_service import admin_users_list
from quilt_mcp.services.permissions_service import discover_permissions
from quilt_mcp.services.settings import Timeout
from quilt_mcp.services.stack import catalog, quilt_files
from quilt_mcp.services.stack import sign_in as token_sign_in
from quilt_mcp.services.stack.caller import LocalCallers, RequestCallers
from quilt_mcp.services.stack.failures import NeedsAdmin, NotSignedInToQuilt
from quilt_mcp.services.stack.login import Stack
from quilt_mcp.services.stack.session import StackSession
from tests.services.stack_calls import list_calls
from tests.support import apps
from tests.support.settings import Settings
from tests.worlds.failing_aws import FailingAWS

ANN, BOB = Identity("ann", "https://idp.example"), Identity("bob", "https://idp.example")
TOKEN = "qk_S3CRET"


@pytest.fixture
def stack_url(fresh_world: World) -> str:
    """The world's stack. TOKEN belongs to a member; the local user is an administrator."""
    member = next(user for user in fresh_world.company.users if not user.is_admin and user.role)
    fresh_world.stack.grants[TOKEN] = Grant(member, is_admin=False, expires_at=float("inf"))
    fresh_world.stack.calls.clear()
    return fresh_world.url


def create_callers(stack_url: str, **options: Any) -> RequestCallers:
    return RequestCallers(Settings(catalog_url=stack_url), **options)


@pytest.fixture
def as_ann(stack_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every read in this test is by Ann, with TOKEN."""
    apps.use_settings(Settings(catalog_url=stack_url))
    monkeypatch.setattr(identity, "current", lambda: ANN)
    monkeypatch.setattr(identity, "header_token", lambda _: TOKEN)


@pytest.mark.usefixtures("as_ann")
def test_a_caller_uses_its_own_token_and_aws_credentials(fresh_world: World) -> None:
    status = auth_status()
    assert status["user_info"]
    assert status["user_info"]["is_admin"] is False
    assert status["credentials"] == {
        "source": "request",
        "token_expires_at": None,
        "aws_source": "quilt",
        "aws_expires_at": None,
    }
    assert discover_permissions()["user_identity"]["user_name"] == status["user_info"]["username"]
    assert catalog_info()["is_authenticated"] is True
    assert "/api/token" not in list_calls(fresh_world)


@pytest.mark.usefixtures("as_ann")
def test_a_member_gets_needs_admin_if_the_local_user_is_an_administrator() -> None:
    with pytest.raises(NeedsAdmin):
        admin_users_list()


def test_a_caller_belongs_to_one_identity_with_one_token(stack_url: str) -> None:
    kept = create_callers(stack_url)
    first = kept.get(ANN, TOKEN)
    assert kept.get(ANN, TOKEN) is first
    others = [kept.get(BOB, TOKEN), kept.get(ANN, "qk_other"), kept.get(ANN, None)]
    assert len({id(one) for one in [first, *others]}) == 4


def test_concurrent_first_reads_share_one_caller(stack_url: str, fresh_world: World) -> None:
    kept = create_callers(stack_url)
    with ThreadPoolExecutor(16) as pool:
        found = set(pool.map(lambda _: kept.get(ANN, TOKEN), range(64)))
    assert len(found) == 1
    assert list_calls(fresh_world) == ["/config.json"]


def test_above_the_maximum_the_least_recently_used_caller_is_closed(stack_url: str, closed: list[str | None]) -> None:
    kept = create_callers(stack_url, max_callers=2)
    for token in "abac":
        kept.get(ANN, token)
    assert closed == ["b"]


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """The tokens of the sessions that have been closed."""
    tokens: list[str | None] = []

    def open_noted(timeout: Timeout, token: str | None) -> requests.Session:
        session = StackSession(timeout, token)
        session.close = lambda: tokens.append(token)  # type: ignore[method-assign]  # to observe the call
        return session

    monkeypatch.setattr(token_sign_in, "StackSession", open_noted)
    return tokens


def test_an_unreferenced_caller_is_closed_without_the_garbage_collector(
    stack_url: str, closed: list[str | None]
) -> None:
    gc.disable()
    try:
        caller = create_callers(stack_url).get(ANN, TOKEN)
        gone, aws = weakref.ref(caller), caller.aws
        aws.call("sts", "get_caller_identity")
        del caller
        assert gone() is None
        assert closed == []  # a service can hold only this part
        del aws
        assert closed == [TOKEN]
    finally:
        gc.enable()


def test_a_caller_is_not_kept_after_its_time(stack_url: str) -> None:
    kept = create_callers(stack_url, seconds=0.0)
    assert kept.get(ANN, TOKEN) is not kept.get(ANN, TOKEN)


@pytest.mark.usefixtures("as_ann")
def test_after_the_token_expires_its_aws_credentials_are_not_used(fresh_world: World) -> None:
    assert athena_databases_list()["count"] > 0
    del fresh_world.stack.grants[TOKEN]
    assert auth_status()["status"] == "expired"
    with pytest.raises(NotSignedInToQuilt, match="rejected the token") as caught:
        athena_databases_list()
    assert "X-Quilt-Token" in caught.value.suggested_actions[0]
    assert "quilt-mcp login" not in str(caught.value.suggested_actions)
    assert TOKEN not in str(vars(caught.value))


@pytest.mark.usefixtures("as_ann")
def test_after_aws_rejects_credentials_the_next_read_fetches_new_ones(
    fresh_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FailingAWS("expired") as aws:
        monkeypatch.setenv("AWS_ENDPOINT_URL", aws.url)
        with pytest.raises(NotSignedInToQuilt, match="AWS credentials have expired") as caught:
            discover_permissions()
    assert "X-Quilt-Token" in caught.value.suggested_actions[0]
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    assert athena_databases_list()["count"] > 0
    assert list_calls(fresh_world).count("/api/auth/get_credentials") == 3  # the rejected call was repeated once


def test_without_a_setting_the_stack_is_that_of_quilt3(stack_url: str, fresh_world: World) -> None:
    assert stack_url == fresh_world.url
    caller = RequestCallers(Settings()).get(ANN, TOKEN)
    assert (caller.login.stack.registry_url, caller.login.source) == (fresh_world.registry_url, "request")
    assert caller.fetch_standing().is_admin is False


@pytest.mark.usefixtures("stack_url")
def test_without_a_catalog_the_failure_names_the_setting_and_no_path_of_the_machine() -> None:
    quilt3.util.CONFIG_PATH.unlink()
    caller = RequestCallers(Settings()).get(ANN, TOKEN)
    for call in (caller.fetch_standing, lambda: caller.aws):
        with pytest.raises(NotSignedInToQuilt, match="No Quilt catalog is configured on this server") as refused:
            call()
        assert "QUILT_MCP_CATALOG_URL" in refused.value.suggested_actions[0]
    quilt3.util.CONFIG_PATH.write_text("a: [b", encoding="utf-8")
    with pytest.raises(ResourceExecutionError, match="is unknown") as damaged:
        RequestCallers(Settings()).get(ANN, TOKEN)
    assert str(quilt3.util.CONFIG_PATH.parent) not in str(vars(damaged.value))


def test_an_unavailable_catalog_is_read_again_after_a_pause(stack_url: str, fresh_world: World) -> None:
    kept = create_callers(stack_url, retry_seconds=0.0)
    fresh_world.stack.forced["/config.json"] = Answer(HTTPStatus.BAD_GATEWAY, b"")
    with pytest.raises(Unavailable):
        kept.get(ANN, TOKEN).fetch_standing()
    fresh_world.stack.forced.clear()
    assert kept.get(ANN, TOKEN).fetch_standing().known


def test_the_cache_does_not_show_identities_or_tokens(stack_url: str) -> None:
    kept = create_callers(stack_url)
    caller = kept.get(ANN, TOKEN)
    shown = f"{vars(kept)!r} {caller!r} {caller.login!r} {vars(caller)!r}"
    assert TOKEN not in shown
    assert ANN.subject not in shown


@pytest.mark.parametrize(
    "url", ["ftp://x", "https://user:password@x", "https://x/path", "x y", "https://x?y=1", "https://"]
)
def test_a_catalog_url_has_only_a_scheme_and_a_host(url: str) -> None:
    with pytest.raises(ValueError, match="catalog_url"):
        Settings(catalog_url=url)
    assert Settings(catalog_url="https://quilt.example/").catalog_url == "https://quilt.example"


PLAIN, PLAIN_REGISTRY = "http://quilt.example.com", "http://quilt-registry.example.com"


@pytest.mark.parametrize("found", ["in the catalog", "in quilt3's file"])
def test_a_registry_without_encryption_gets_no_token(found: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "fetch_catalog_config", lambda *_: {"registryUrl": PLAIN_REGISTRY})
    monkeypatch.setattr(quilt_files, "read_stack", lambda: Stack(PLAIN, PLAIN_REGISTRY))
    url = PLAIN if found == "in the catalog" else None
    caller = RequestCallers(Settings(catalog_url=url)).get(ANN, TOKEN)
    with socket_free(monkeypatch), pytest.raises(ResourceExecutionError) as caught:
        caller.fetch_standing()
    if url:  # remote callers cannot see the file of the server
        assert caught.value.message == f"The registry {PLAIN_REGISTRY} is not encrypted, so no login is sent there."
        assert "https://" in caught.value.suggested_actions[0]


def test_a_registry_without_encryption_gets_no_api_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for catalog_url in (PLAIN, None):
        settings = Settings(local_catalog_url=catalog_url, local_registry_url=PLAIN_REGISTRY, api_key=TOKEN)
        caller = LocalCallers(settings).get()
        with socket_free(monkeypatch), pytest.raises(ResourceExecutionError, match="not encrypted"):
            caller.fetch_standing()


@contextmanager
def socket_free(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail the test if a connection is opened."""
    with monkeypatch.context() as patch:
        patch.setattr("socket.getaddrinfo", lambda *_, **__: pytest.fail("a connection was opened"))
        yield
