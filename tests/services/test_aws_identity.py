"""AWS is called as the user and role that the stack reports, and as nobody else."""

import itertools
import json
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from unittest.mock import patch

import pytest
import quilt3
import quilt3.session
import quilt3.util

from quilt_mcp.app import identity
from quilt_mcp.app.identity import Identity
from quilt_mcp.core.answers import GetResourceError
from quilt_mcp.core.errors import Unavailable
from quilt_mcp.demo.graphql import Endpoint
from quilt_mcp.demo.http_server import Answer
from quilt_mcp.demo.records import User
from quilt_mcp.demo.stack import Grant
from quilt_mcp.demo.world import World
from quilt_mcp.services.athena_read_service import athena_databases_list
from quilt_mcp.services.auth_metadata import auth_status
from quilt_mcp.services.permissions_service import discover_permissions
from quilt_mcp.services.stack.caller import Caller
from quilt_mcp.services.stack.callers import current_caller
from quilt_mcp.services.stack.failures import NotSignedInToQuilt, RoleChanged
from quilt_mcp.services.stack.sign_in import AWSKeys, LocalSignIn
from quilt_mcp.tools.resource_access import get_resource
from tests.services.stack_calls import count_calls, find_role
from tests.support import apps
from tests.support.settings import Settings
from tests.worlds.failing_aws import FailingAWS
from tests.worlds.mishaps import CLOSED_PORT

GET_CREDENTIALS = "/api/auth/get_credentials"
FIRST, SECOND = "DataPlatform", "FinanceAudit"
TOKEN = "qk_S3CRET"
THREADS = 10


def switch_role(world: World, role: str) -> None:
    """Switch the role of everybody who is signed in, as users can do in the catalog."""
    for grant in world.stack.grants.values():
        grant.user = replace(grant.user, role=role)


def switch_role_at_each_issue(world: World, *roles: str) -> None:
    """Switch to the next of these roles after each issue of AWS credentials."""
    issue, following = world.stack.issue_credentials, iter(roles)

    def issue_and_switch(user: User) -> dict[str, str]:
        keys = issue(user)
        with suppress(StopIteration):
            switch_role(world, next(following))
        return keys

    world.stack.issue_credentials = issue_and_switch


@pytest.fixture(params=["local", "request"])
def either_world(request: pytest.FixtureRequest, fresh_world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """A world with reads by the local user, and by the sender of an HTTP request."""
    if request.param == "request":
        user = next(user for user in fresh_world.company.users if user.role == FIRST)
        fresh_world.stack.grants[TOKEN] = Grant(user, is_admin=True, expires_at=float("inf"))
        apps.use_settings(Settings(catalog_url=fresh_world.url))
        monkeypatch.setattr(identity, "current", lambda: Identity("ann", "https://idp.example"))
        monkeypatch.setattr(identity, "header_token", lambda _: TOKEN)
    return fresh_world


by_local_user = pytest.mark.parametrize(
    "either_world", ["local", pytest.param("request", marks=pytest.mark.soak)], indirect=True
)
"""In `make test`, only the local user reads: the sign-in of a request does not matter for the test."""


def test_the_credentials_that_quilt3_stores_are_not_used(fresh_world: World) -> None:
    other = next(user for user in fresh_world.company.users if user.role == SECOND)
    issued = fresh_world.account.credentials(other)
    names = {"access_key": "AccessKeyId", "secret_key": "SecretAccessKey", "token": "SessionToken"}
    stored = {name: issued[key] for name, key in names.items()} | {"expiry_time": issued["Expiration"]}
    for content in (json.dumps(stored), "{damaged"):
        quilt3.session.CREDENTIALS_PATH.write_text(content, encoding="utf-8")
        assert find_role(current_caller().aws) == FIRST


def test_after_a_switch_of_the_role_the_next_read_has_the_new_one(either_world: World) -> None:
    assert find_role(current_caller().aws) == FIRST
    switch_role(either_world, SECOND)
    user, found = auth_status()["user_info"], discover_permissions()["user_identity"]
    assert user
    assert (user["role"], found["role_name"]) == (SECOND, f"Quilt-{SECOND}")
    switch_role(either_world, FIRST)
    assert find_role(current_caller().aws) == FIRST


def test_without_a_switch_the_credentials_are_fetched_once(either_world: World) -> None:
    clients = {id(current_caller().aws) for _ in range(3)}
    assert len(clients) == 1
    assert count_calls(either_world, GET_CREDENTIALS) == 1
    assert count_calls(either_world, "me") == 4  # once for each access, and once after the credentials were fetched


@by_local_user
def test_a_read_keeps_its_identity_if_the_role_is_switched_during_it(either_world: World) -> None:
    held = current_caller().aws
    switch_role(either_world, SECOND)
    assert find_role(current_caller().aws) == SECOND
    assert find_role(held) == FIRST


@by_local_user
def test_a_switch_while_credentials_are_fetched_does_not_label_them_wrongly(either_world: World) -> None:
    switch_role_at_each_issue(either_world, SECOND)
    assert find_role(current_caller().aws) == SECOND
    assert count_calls(either_world, GET_CREDENTIALS) == 2


def test_a_role_that_does_not_stay_is_reported(either_world: World) -> None:
    switch_role_at_each_issue(either_world, SECOND, FIRST, SECOND)
    with pytest.raises(RoleChanged, match="Your role in the catalog changed during this read") as caught:
        current_caller().aws  # noqa: B018 - it asks the stack
    assert caught.value.transient
    assert "Repeat the call" in caught.value.suggested_actions[0]


@by_local_user
def test_a_standing_that_is_no_longer_true_opens_nothing(either_world: World) -> None:
    caller = current_caller()
    standing = caller.fetch_standing()
    switch_role(either_world, SECOND)
    with pytest.raises(RoleChanged):
        caller.open_aws(standing)
    assert caller.find_aws_expiry(standing) is None
    assert find_role(caller.open_aws(caller.fetch_standing())) == SECOND


@pytest.mark.parametrize("role", [FIRST, SECOND])
def test_a_renewal_during_a_read_keeps_the_role_or_fails(role: str, either_world: World) -> None:
    issue = either_world.stack.issue_credentials
    soon = (datetime.now(UTC) + timedelta(seconds=30)).isoformat()
    either_world.stack.issue_credentials = lambda user: issue(user) | {"Expiration": soon}
    aws = current_caller().aws
    either_world.stack.issue_credentials = issue
    switch_role(either_world, role)
    if role == FIRST:
        assert find_role(aws) == FIRST
        assert aws.expires_at
        assert aws.expires_at > datetime.now(UTC) + timedelta(minutes=10)
    else:
        with pytest.raises(RoleChanged):
            find_role(aws)
    assert count_calls(either_world, GET_CREDENTIALS) == 2


@by_local_user
def test_credentials_that_have_expired_already_are_refused(either_world: World) -> None:
    issue = either_world.stack.issue_credentials
    either_world.stack.issue_credentials = lambda user: issue(user) | {"Expiration": "2026-01-15T11:59:59Z"}
    with pytest.raises(Unavailable, match="expired already"):
        current_caller().aws  # noqa: B018 - it asks the stack


@by_local_user
def test_readers_at_the_same_time_never_get_a_mixed_identity(either_world: World) -> None:
    caller, roles = current_caller(), itertools.cycle([FIRST, SECOND, "Researcher", "ClinicalOperations"])

    def compare(number: int) -> bool | None:
        if number % 10 == 0:
            switch_role(either_world, next(roles))
        try:
            standing = caller.fetch_standing()
            return find_role(caller.open_aws(standing)) == standing.role
        except RoleChanged:
            return None

    with ThreadPoolExecutor(4) as pool:
        compared = list(pool.map(compare, range(40)))
    assert False not in compared
    assert True in compared


@by_local_user
@pytest.mark.parametrize("status", [HTTPStatus.OK, HTTPStatus.BAD_REQUEST])
def test_for_a_stack_without_me_the_session_is_kept(status: HTTPStatus, either_world: World) -> None:
    either_world.stack.endpoint = Endpoint("2023", status)
    caller = current_caller()
    first = caller.aws
    assert find_role(first) == FIRST
    assert caller.aws is first
    assert count_calls(either_world, GET_CREDENTIALS) == 1


@by_local_user
@pytest.mark.parametrize("knows_user", [False, True])
def test_the_session_of_an_unknown_role_is_kept_for_a_short_time(
    either_world: World, monkeypatch: pytest.MonkeyPatch, *, knows_user: bool
) -> None:
    """The stack does not describe its users, or not their roles, so it cannot say that the role is another one."""
    of_today = replace(either_world.stack.endpoint, failing_fields=frozenset({"Me.role"}))
    either_world.stack.endpoint = of_today if knows_user else Endpoint("2023")
    caller, start = current_caller(), time.monotonic()
    clock = monkeypatch.setattr
    clock("quilt_mcp.services.stack.caller.time.monotonic", lambda: start)
    assert bool(caller.fetch_standing().name) is knows_user
    assert find_role(caller.aws) == FIRST
    switch_role(either_world, SECOND)
    clock("quilt_mcp.services.stack.caller.time.monotonic", lambda: start + 59)
    assert find_role(caller.aws) == FIRST
    clock("quilt_mcp.services.stack.caller.time.monotonic", lambda: start + 60)
    assert find_role(caller.aws) == SECOND


def test_readers_share_one_request_for_credentials_that_fails(
    fresh_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller, standing = current_caller(), current_caller().fetch_standing()
    barrier, everybody_waits, fetch = threading.Barrier(THREADS), threading.Event(), LocalSignIn.fetch_aws_keys

    def fetch_later(self: LocalSignIn) -> AWSKeys:
        assert everybody_waits.wait(60)
        return fetch(self)

    def open_aws(_: int) -> str:
        barrier.wait()
        with pytest.raises(Unavailable) as caught:
            caller.open_aws(standing)
        return caught.value.message

    fresh_world.stack.forced[GET_CREDENTIALS] = Answer(HTTPStatus.BAD_GATEWAY, b"")
    monkeypatch.setattr(LocalSignIn, "fetch_aws_keys", fetch_later)
    with ThreadPoolExecutor(THREADS) as pool, count_waiting(THREADS - 1, everybody_waits):
        assert len(set(pool.map(open_aws, range(THREADS)))) == 1
    assert count_calls(fresh_world, GET_CREDENTIALS) == 1


@contextmanager
def count_waiting(number: int, reached: threading.Event) -> Iterator[None]:
    """Set the event when this number of threads wait for the attempt of another one."""
    waiting, wait = itertools.count(1), Future.exception

    def note(future: "Future[object]", timeout: float | None = None) -> BaseException | None:
        if next(waiting) == number:
            reached.set()
        return wait(future, timeout)

    with patch.object(Future, "exception", note):
        yield


AWS_VARIABLES = {
    "AWS_ACCESS_KEY_ID": "AccessKeyId",
    "AWS_SECRET_ACCESS_KEY": "SecretAccessKey",
    "AWS_SESSION_TOKEN": "SessionToken",
}


def store_aws_keys(world: World, role: str, variable: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Store AWS keys for a role in the environment, or in the file of the AWS configuration that a variable names."""
    issued = world.account.credentials(next(one for one in world.company.users if one.role == role))
    if variable is None:
        for name, key in AWS_VARIABLES.items():
            monkeypatch.setenv(name, issued[key])
    else:
        lines = [f"{name.lower()}={issued[key]}\n" for name, key in AWS_VARIABLES.items()]
        Path(os.environ[variable]).write_text("".join(["[default]\n", *lines]), encoding="utf-8")


@pytest.mark.parametrize(
    "variable",
    [None, *(pytest.param(f"AWS_{one}_FILE", marks=pytest.mark.soak) for one in ("SHARED_CREDENTIALS", "CONFIG"))],
)
def test_without_a_login_the_current_credentials_of_this_machine_are_used(
    variable: str | None, fresh_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_aws_keys(fresh_world, SECOND, variable, monkeypatch)
    assert find_role(current_caller().aws) == FIRST  # with a login they are not
    quilt3.logout()
    fresh_world.stack.calls.clear()
    caller = current_caller()
    assert find_role(caller.aws) == SECOND
    assert caller.aws is current_caller().aws
    assert auth_status()["credentials"]["aws_expires_at"] is None
    store_aws_keys(fresh_world, FIRST, variable, monkeypatch)
    assert find_role(current_caller().aws) == FIRST
    assert fresh_world.stack.calls == []


@by_local_user
@pytest.mark.parametrize("variable", ["AWS_PROFILE", pytest.param("AWS_DEFAULT_PROFILE", marks=pytest.mark.soak)])
def test_the_credentials_of_the_stack_do_not_need_a_profile(
    variable: str, either_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "deleted")
    assert find_role(current_caller().aws) == FIRST
    assert discover_permissions()["user_identity"]["role_name"] == f"Quilt-{FIRST}"
    assert athena_databases_list()["count"]


@by_local_user
def test_the_settings_of_a_profile_are_kept(either_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    config = f"[profile work]\nendpoint_url = {CLOSED_PORT}\n"
    Path(os.environ["AWS_CONFIG_FILE"]).write_text(config, encoding="utf-8")
    monkeypatch.setenv("AWS_PROFILE", "work")
    with pytest.raises(Unavailable, match="AWS cannot be reached"):
        find_role(current_caller().aws)


async def test_a_missing_profile_is_explained(fresh_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    quilt3.logout()
    monkeypatch.setenv("AWS_PROFILE", "deleted")
    for uri in ("permissions://discover", "athena://databases"):
        answer = await get_resource(uri)
        assert isinstance(answer, GetResourceError)
        assert answer.message == "The AWS profile of this machine does not exist."
        assert "AWS_PROFILE" in answer.suggested_actions[0]


@by_local_user
def test_the_expiry_is_that_of_the_credentials_in_use(either_world: World) -> None:
    assert auth_status()["credentials"]["aws_expires_at"] is None
    current_caller().aws  # noqa: B018 - it asks the stack
    assert auth_status()["credentials"]["aws_expires_at"] == "2026-01-15T13:00:00Z"
    assert count_calls(either_world, GET_CREDENTIALS) == 1
    switch_role(either_world, SECOND)
    status = auth_status()
    assert status["user_info"]
    assert (status["user_info"]["role"], status["credentials"]["aws_expires_at"]) == (SECOND, None)


def test_after_aws_rejects_credentials_new_ones_are_fetched(
    fresh_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FailingAWS("expired") as aws:
        monkeypatch.setenv("AWS_ENDPOINT_URL", aws.url)
        for fetched in (2, 4):  # each read repeats the call once with new credentials
            with pytest.raises(NotSignedInToQuilt, match="AWS credentials have expired") as caught:
                current_caller().aws.call("sts", "get_caller_identity")
            assert "Repeat the call" in caught.value.suggested_actions[0]
            assert count_calls(fresh_world, GET_CREDENTIALS) == fetched


def test_a_caller_that_is_dropped_during_a_renewal_keeps_its_connections(either_world: World) -> None:
    caller: Caller | None = current_caller()
    assert caller
    aws = caller.aws
    del caller
    apps.use_settings(Settings(catalog_url=either_world.url))
    assert find_role(aws) == FIRST
