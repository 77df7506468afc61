"""Callers over HTTP: which stack they are at, what is kept of them, for how long, and what never is."""

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import Any

import pytest
import quilt3.util

from quilt_mcp import identity, request_callers, runtime_context
from quilt_mcp.caller import Caller
from quilt_mcp.demo.failing_aws import FailingAWS
from quilt_mcp.demo.http_server import Answer
from quilt_mcp.demo.stack import Grant
from quilt_mcp.demo.world import World
from quilt_mcp.errors import NotSignedIn, ResourceExecutionError, Unavailable
from quilt_mcp.identity import Identity
from quilt_mcp.request_callers import RequestCallers
from quilt_mcp.services.athena_read_service import athena_databases_list
from quilt_mcp.services.auth_metadata import auth_status, catalog_info
from quilt_mcp.services.governance_service import admin_users_list
from quilt_mcp.services.permissions_service import discover_permissions
from quilt_mcp.settings import Settings

ANN, BOB = Identity("ann", "https://idp.example"), Identity("bob", "https://idp.example")
TOKEN = "qk_S3CRET"


@pytest.fixture
def stack_url(fresh_world: World) -> str:
    """The world's stack, at which TOKEN is the member's; on this machine its administrator is signed in."""
    member = next(user for user in fresh_world.company.users if not user.is_admin and user.role)
    fresh_world.stack.grants[TOKEN] = Grant(member, is_admin=False, expires_at=float("inf"))
    fresh_world.stack.calls.clear()
    return fresh_world.url


def callers(stack_url: str, **settings: Any) -> RequestCallers:
    return RequestCallers(Settings(catalog_url=stack_url, **settings))


@pytest.fixture
def as_ann(stack_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every read of this test is Ann's, with TOKEN."""
    runtime_context.use_settings(Settings(catalog_url=stack_url))
    monkeypatch.setattr(identity, "current", lambda: ANN)
    monkeypatch.setattr(identity, "quilt_token", lambda _: TOKEN)


def paths(world: World) -> list[str]:
    return [call.operation or call.path for call in world.stack.calls]


@pytest.mark.usefixtures("as_ann")
def test_a_caller_acts_with_its_own_token_and_its_own_aws_credentials(fresh_world: World) -> None:
    status = auth_status()
    assert status["user_info"]["is_admin"] is False
    assert status["credentials"] == {
        "source": "request",
        "token_expires_at": None,
        "aws_source": "quilt",
        "aws_expires_at": None,
    }
    assert discover_permissions()["user_identity"]["user_name"] == status["user_info"]["username"]
    assert catalog_info()["is_authenticated"] is True
    assert "/api/token" not in paths(fresh_world)


@pytest.mark.usefixtures("as_ann")
def test_an_administrators_question_is_refused_to_the_member_whoever_is_signed_in_on_this_machine() -> None:
    with pytest.raises(Exception, match="Only administrators"):
        admin_users_list()


def test_a_caller_is_kept_and_belongs_to_one_identity_with_one_token(stack_url: str) -> None:
    kept = callers(stack_url)
    first = kept.get(ANN, TOKEN)
    assert kept.get(ANN, TOKEN) is first
    others = [kept.get(BOB, TOKEN), kept.get(ANN, "qk_other"), kept.get(ANN, None)]
    assert len({id(one) for one in [first, *others]}) == 4


def test_callers_that_begin_at_once_are_one(stack_url: str, fresh_world: World) -> None:
    kept = callers(stack_url)
    with ThreadPoolExecutor(16) as pool:
        found = set(pool.map(lambda _: kept.get(ANN, TOKEN), range(64)))
    assert len(found) == 1
    assert paths(fresh_world) == ["/config.json"]


def test_only_so_many_are_kept_and_the_one_used_longest_ago_is_closed(
    stack_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_callers, "MOST", 2)
    kept = callers(stack_url)
    first = kept.get(ANN, "a")
    kept.get(ANN, "b")
    kept.get(ANN, "a")
    closed = watched(kept.get(ANN, "b")), watched(first)
    del first
    kept.get(ANN, "a")
    kept.get(ANN, "c")
    assert [one.is_closed for one in closed] == [True, False]


class Watched:
    """Tells whether a caller's connections have been closed."""

    def __init__(self, caller: Caller) -> None:
        sign_in, self.is_closed = caller._sign_in, False
        close = sign_in.close

        def note() -> None:
            self.is_closed = True
            close()

        sign_in.close = note  # type: ignore[method-assign]


def watched(caller: Caller) -> Watched:
    return Watched(caller)


def test_a_caller_closes_as_soon_as_nobody_uses_it_without_waiting_for_the_garbage_collector(stack_url: str) -> None:
    gc.disable()
    try:
        caller = callers(stack_url).get(ANN, TOKEN)
        caller.aws.call("sts", "get_caller_identity")
        gone, closed, aws = weakref.ref(caller), watched(caller), caller.aws
        del caller
        assert gone() is None
        assert not closed.is_closed  # a service may hold this part alone
        del aws
        assert closed.is_closed
    finally:
        gc.enable()


def test_a_caller_is_kept_for_a_short_while_only(stack_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_callers, "SECONDS", 0.0)
    kept = callers(stack_url)
    assert kept.get(ANN, TOKEN) is not kept.get(ANN, TOKEN)


@pytest.mark.usefixtures("as_ann")
def test_when_the_token_ends_what_was_got_with_it_is_used_no_more(fresh_world: World) -> None:
    assert athena_databases_list()["count"] > 0
    del fresh_world.stack.grants[TOKEN]
    assert auth_status()["status"] == "expired"
    with pytest.raises(NotSignedIn, match="does not accept the token") as caught:
        athena_databases_list()
    assert "X-Quilt-Token" in caught.value.suggested_actions[0]
    assert "quilt3 login" not in str(caught.value.suggested_actions)
    assert TOKEN not in str(vars(caught.value))


@pytest.mark.usefixtures("as_ann")
def test_when_aws_refuses_the_credentials_others_are_fetched_for_the_next_read(
    fresh_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FailingAWS("ExpiredToken", HTTPStatus.FORBIDDEN) as aws:
        monkeypatch.setenv("AWS_ENDPOINT_URL", aws.url)
        with pytest.raises(NotSignedIn, match="AWS credentials have expired") as caught:
            discover_permissions()
    assert "X-Quilt-Token" in caught.value.suggested_actions[0]
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    assert athena_databases_list()["count"] > 0
    assert paths(fresh_world).count("/api/auth/get_credentials") == 2


def test_without_a_setting_the_stack_is_the_one_that_quilt3_is_set_up_for(stack_url: str) -> None:
    caller = RequestCallers(Settings()).get(ANN, TOKEN)
    assert (caller.login.stack.registry_url, caller.login.source) == (stack_url, "request")
    me = caller.me()
    assert me is not None
    assert not me["isAdmin"]


@pytest.mark.usefixtures("stack_url")
def test_where_no_stack_is_known_the_servers_operator_is_named_and_no_path_of_its_machine() -> None:
    quilt3.util.CONFIG_PATH.unlink()
    caller = RequestCallers(Settings()).get(ANN, TOKEN)
    for call in (caller.me, lambda: caller.aws.call("sts", "get_caller_identity")):
        with pytest.raises(NotSignedIn, match="has no Quilt stack") as refused:
            call()
        assert "QUILT_MCP_CATALOG_URL" in refused.value.suggested_actions[0]
    quilt3.util.CONFIG_PATH.write_text("a: [b", encoding="utf-8")
    with pytest.raises(ResourceExecutionError, match="is not known") as damaged:
        RequestCallers(Settings()).get(ANN, TOKEN)
    assert str(quilt3.util.CONFIG_PATH.parent) not in str(vars(damaged.value))


def test_a_catalog_that_is_down_is_asked_again_for_the_next_read(stack_url: str, fresh_world: World) -> None:
    kept = callers(stack_url)
    fresh_world.stack.forced["/config.json"] = Answer(HTTPStatus.BAD_GATEWAY, b"")
    with pytest.raises(Unavailable):
        kept.get(ANN, TOKEN)
    fresh_world.stack.forced.clear()
    assert kept.get(ANN, TOKEN).me() is not None


def test_what_identifies_a_caller_cannot_be_read_from_what_is_kept(stack_url: str) -> None:
    kept = callers(stack_url)
    caller = kept.get(ANN, TOKEN)
    shown = f"{kept._callers!r} {caller!r} {caller.login!r} {vars(caller)!r}"
    assert TOKEN not in shown
    assert "ann" not in repr(list(kept._callers))


@pytest.mark.parametrize(
    "url", ["ftp://x", "https://user:password@x", "https://x/path", "x", "https://x?y=1", "https://"]
)
def test_a_catalog_is_an_address_and_nothing_more(url: str) -> None:
    with pytest.raises(ValueError, match="catalog_url"):
        Settings(catalog_url=url)
    assert Settings(catalog_url="https://quilt.example/").catalog_url == "https://quilt.example"
