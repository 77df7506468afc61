"""The caller's login and AWS credentials: they are renewed once when needed, and failures are specific."""

import itertools
import json
import resource
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import quilt3.session
import quilt3.util
import requests

from quilt_mcp.core.errors import ResourceExecutionError, Unavailable
from quilt_mcp.demo.http_server import Answer
from quilt_mcp.demo.world import World
from quilt_mcp.services.athena_read_service import athena_databases_list
from quilt_mcp.services.auth_metadata import UserInfo, auth_status, catalog_info, filesystem_status
from quilt_mcp.services.governance_service import admin_users_list
from quilt_mcp.services.permissions_service import discover_permissions
from quilt_mcp.services.stack.callers import Callers, current_caller
from quilt_mcp.services.stack.failures import NotSignedInToQuilt
from quilt_mcp.services.stack.login import Tokens
from quilt_mcp.services.stack.quilt_files import store_tokens
from quilt_mcp.services.stack.session import StackAdapter, StackSession
from quilt_mcp.services.stack.sign_in import AWSKeys
from tests.services.stack_calls import list_calls
from tests.support import apps
from tests.support.settings import Settings


def read_user() -> UserInfo:
    user = auth_status()["user_info"]
    assert user is not None
    return user


def read_tokens() -> Any:
    [tokens] = json.loads(quilt3.session.AUTH_PATH.read_text(encoding="utf-8")).values()
    return tokens


def change_tokens(**changes: Any) -> None:
    [(registry, tokens)] = json.loads(quilt3.session.AUTH_PATH.read_text(encoding="utf-8")).items()
    quilt3.session.AUTH_PATH.write_text(json.dumps({registry: tokens | changes}), encoding="utf-8")


def issue_for_seconds(world: World, seconds: int) -> None:
    """Let the stack issue AWS credentials that expire after this time of the test clock."""
    issue = world.stack.issue_credentials
    expiry = (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()
    world.stack.issue_credentials = lambda user: issue(user) | {"Expiration": expiry}


def test_after_a_401_the_token_is_renewed_once_and_the_request_repeated_once(fresh_world: World) -> None:
    fresh_world.stack.grants.clear()
    before = read_tokens()
    assert admin_users_list()["count"] > 0
    assert list_calls(fresh_world) == ["usersList", "/api/token", "usersList"]
    assert read_tokens() != before


def test_quilt3s_own_session_is_not_used(fresh_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no time limits, and the whole process shares it."""

    def fail() -> requests.Session:
        raise AssertionError

    monkeypatch.setattr(quilt3.session, "get_session", fail)
    admin_users_list()
    athena_databases_list()


def test_a_login_in_netrc_does_not_replace_the_token(
    fresh_world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("default login operator password other\n", encoding="utf-8")
    monkeypatch.setenv("NETRC", str(netrc))
    assert auth_status()["status"] == "authenticated"


def test_renewing_aws_credentials_renews_an_expired_token_first(fresh_world: World) -> None:
    issue_for_seconds(fresh_world, 30)
    aws = current_caller().aws
    fresh_world.stack.grants.clear()
    fresh_world.stack.calls.clear()
    aws.call("sts", "get_caller_identity")
    get = "/api/auth/get_credentials"
    assert list_calls(fresh_world)[:4] == [get, "/api/token", get, "me"]


def test_aws_credentials_of_another_stack_are_not_used(fresh_world: World) -> None:
    quilt3.util.write_yaml(
        dict(quilt3.util.load_config()) | {"registryUrl": "https://other-registry.acme.example.com"},
        quilt3.util.CONFIG_PATH,
    )
    status = auth_status()
    assert (status["status"], status["credentials"]["aws_source"]) == ("not_authenticated", "aws_default_chain")
    with pytest.raises(NotSignedInToQuilt, match="No usable AWS credentials"):
        athena_databases_list()


def test_a_token_that_another_process_renewed_is_used(fresh_world: World) -> None:
    """The stack accepts each refresh token once, and the other process has used the one that this process knows."""
    caller = current_caller()
    caller.fetch_standing()
    fresh_world.stack.grants.clear()
    member = next(user for user in fresh_world.company.users if user.is_admin)
    renewed = fresh_world.stack.issue_tokens(member)
    fresh_world.stack.refresh_tokens.clear()
    change_tokens(**renewed)
    assert caller.fetch_standing().name == member.name
    assert "/api/token" not in list_calls(fresh_world)


OTHER_LOGIN = {"https://other.example": {"a": 1}}


@pytest.mark.parametrize("meanwhile", ["a login is stored", "the file is half written"])
def test_what_happens_to_the_file_during_a_renewal_loses_no_login(
    meanwhile: str, fresh_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: None)
    path, is_cut = quilt3.session.AUTH_PATH, meanwhile == "the file is half written"
    logins = json.loads(path.read_text(encoding="utf-8"))
    both = json.dumps(logins | OTHER_LOGIN)
    if is_cut:
        path.write_text(both, encoding="utf-8")

    def fetch() -> Tokens:
        path.write_text(both[:20] if is_cut else both, encoding="utf-8")
        return Tokens(access_token="a", refresh_token="r", expires_at=1)

    store_tokens(fresh_world.registry_url, logins[fresh_world.registry_url]["refresh_token"], fetch)
    stored = json.loads(path.read_text(encoding="utf-8"))
    assert stored.keys() == {fresh_world.registry_url, *OTHER_LOGIN}
    assert stored[fresh_world.registry_url]["access_token"] == "a"


def test_tokens_are_not_fetched_if_the_file_is_damaged_or_has_other_ones(
    fresh_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: None)
    store_tokens(fresh_world.registry_url, "of the login before", lambda: pytest.fail("nothing to renew"))
    token = read_tokens()["refresh_token"]
    quilt3.session.AUTH_PATH.write_text("{", encoding="utf-8")
    with pytest.raises(ResourceExecutionError, match=r"auth\.json cannot be read"):
        store_tokens(fresh_world.registry_url, token, lambda: pytest.fail("the old token is spent"))


def act_during_renewal(world: World, monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Run a function once, after the stack has renewed the tokens and before it responds."""
    renew = world.stack.renew_tokens

    def renew_and_act(refresh_token: str) -> dict[str, object] | None:
        renewed = renew(refresh_token)
        monkeypatch.setattr(world.stack, "renew_tokens", renew)
        act()
        return renewed

    change_tokens(expires_at=0)
    monkeypatch.setattr(world.stack, "renew_tokens", renew_and_act)


def test_a_login_of_somebody_else_during_a_renewal_is_kept(fresh_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    member = next(user for user in fresh_world.company.users if not user.is_admin and user.role)
    token = fresh_world.stack.sign_in(member)
    act_during_renewal(fresh_world, monkeypatch, lambda: quilt3.session.login_with_token(token))
    assert read_user()["username"] == member.name
    assert read_user()["username"] == member.name
    assert list_calls(fresh_world).count("/api/token") == 2  # that of the server, and that of quilt-mcp login


def test_a_logout_during_a_renewal_is_kept(fresh_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    act_during_renewal(fresh_world, monkeypatch, quilt3.logout)
    with pytest.raises(NotSignedInToQuilt, match="There is no login"):
        admin_users_list()
    assert auth_status()["status"] == "not_authenticated"


def test_an_expired_token_and_an_unreachable_stack_are_reported_as_unreachable(fresh_world: World) -> None:
    change_tokens(expires_at=0)
    fresh_world.stack.close()
    assert auth_status()["status"] == "unreachable"
    with pytest.raises(Unavailable, match="The Quilt stack cannot be reached"):
        discover_permissions()


def test_both_schemes_have_the_time_limits() -> None:
    with StackSession((1, 1)) as session:
        assert {type(session.get_adapter(f"{scheme}://x")) for scheme in ("http", "https")} == {StackAdapter}


def test_a_new_login_and_a_logout_are_noticed_without_a_restart(fresh_world: World) -> None:
    assert read_user()["is_admin"]
    member = next(user for user in fresh_world.company.users if not user.is_admin and user.role)
    quilt3.session.login_with_token(fresh_world.stack.sign_in(member))
    assert read_user()["username"] == member.name
    quilt3.logout()
    fresh_world.stack.calls.clear()
    assert auth_status()["status"] == "not_authenticated"
    assert fresh_world.stack.calls == []


def test_without_a_configuration_no_request_is_sent_and_no_file_written(fresh_world: World) -> None:
    quilt3.util.CONFIG_PATH.unlink()
    before = sorted(fresh_world.directory.rglob("*"))
    status, catalog = auth_status(), catalog_info()
    assert (status["status"], status["catalog_url"]) == ("not_configured", None)
    assert (catalog["config_json"], catalog["detection_method"]) == ("not_configured", "unknown")
    with pytest.raises(NotSignedInToQuilt, match="No Quilt catalog is configured"):
        admin_users_list()
    assert fresh_world.stack.calls == []
    assert sorted(fresh_world.directory.rglob("*")) == before


def test_on_a_full_disk_the_tokens_are_not_spent(fresh_world: World) -> None:
    change_tokens(expires_at=0)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))  # files can be created, but nothing can be written
    try:
        with pytest.raises(ResourceExecutionError, match="cannot be stored") as caught:
            admin_users_list()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert str(caught.value.details).startswith("OSError: ")
    assert fresh_world.stack.calls == []
    assert list(Path(quilt3.util.BASE_PATH).glob(".auth-*")) == []
    assert auth_status()["status"] == "authenticated"


def test_a_disk_that_fails_after_the_renewal_is_explained(fresh_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> Path:
        raise OSError(5, "Input/output error")

    change_tokens(expires_at=0)
    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(ResourceExecutionError, match="cannot be stored") as caught:
        admin_users_list()
    assert caught.value.details == "OSError: Input/output error"
    assert list(Path(quilt3.util.BASE_PATH).glob(".auth-*")) == []


def test_a_renewal_leaves_no_temporary_file_and_keeps_the_logins_of_other_stacks(fresh_world: World) -> None:
    content = json.loads(quilt3.session.AUTH_PATH.read_text(encoding="utf-8"))
    quilt3.session.AUTH_PATH.write_text(json.dumps(content | {"https://other.example": {"a": 1}}), encoding="utf-8")
    fresh_world.stack.grants.clear()
    admin_users_list()
    assert json.loads(quilt3.session.AUTH_PATH.read_text(encoding="utf-8"))["https://other.example"] == {"a": 1}
    assert list(Path(quilt3.util.BASE_PATH).glob(".auth-*")) == []
    assert quilt3.session.AUTH_PATH.stat().st_mode & 0o077 == 0


HTML = b"<html>Bad Gateway</html>"


@pytest.mark.parametrize(
    ("next_key", "last"), [("NextToken", {}), ("ContinuationToken", {}), ("NextToken", {"NextToken": ""})]
)
def test_pages_are_read_until_one_names_no_next(next_key: str, last: dict[str, Any], fresh_world: World) -> None:
    pages = {None: {"Items": [1, 2], next_key: "n"}, "n": {"Items": [3], **last}}
    aws = current_caller().aws
    with patch.object(aws, "call", lambda *_, **given: pages[given.get(next_key)]):
        assert list(aws.list_items("athena", "list_work_groups", "Items", next_key=next_key)) == [1, 2, 3]


def test_a_list_whose_pages_repeat_is_a_failure(fresh_world: World) -> None:
    aws = current_caller().aws
    tokens = itertools.cycle(["a", "b"])
    with patch.object(aws, "call", lambda *_, **__: {"Items": [1], "NextToken": next(tokens)}):
        pages = aws.list_items("athena", "list_work_groups", "Items")
        with pytest.raises(ResourceExecutionError, match="the same page twice"):
            list(pages)


def test_catalog_info_says_why_config_json_cannot_be_read(fresh_world: World) -> None:
    settings = Settings()
    apps.use_settings(settings, {Callers: Callers(settings, retry_seconds=0.0)})  # each read asks the catalog again
    for form in (["no", "object"], {"analyticsBucket": 5}):
        fresh_world.stack.forced["/config.json"] = Answer(HTTPStatus.OK, form)
        expected = "unavailable: The Quilt stack sent a response in an unexpected format."
        assert catalog_info()["config_json"] == expected
    # The catalog's container writes an empty text for each variable that its stack does not set.
    names = ("s3Proxy", "serviceBucket", "analyticsBucket", "stackVersion")
    fresh_world.stack.forced["/config.json"] = Answer(HTTPStatus.OK, dict.fromkeys(names, ""))
    assert "" not in catalog_info().values()
    fresh_world.stack.forced["/config.json"] = Answer(HTTPStatus.UNAUTHORIZED, {})
    assert catalog_info()["config_json"] == "unavailable: The catalog does not allow public access to its config.json."
    fresh_world.stack.forced["/config.json"] = Answer(HTTPStatus.BAD_GATEWAY, HTML)
    info = catalog_info()
    assert info["config_json"].startswith("unavailable: ")
    assert info["registry_url"] == fresh_world.registry_url
    assert info["tabulator_data_catalog"] is None


def test_the_failure_for_a_damaged_file_names_the_file_and_the_command_that_repairs_it(
    fresh_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: None)
    for content in ("", "{", "[1]", '{"REGISTRY": "x"}', '{"REGISTRY": {"access_token": "a"}}'):
        quilt3.session.AUTH_PATH.write_text(content.replace("REGISTRY", fresh_world.registry_url), encoding="utf-8")
        with pytest.raises(ResourceExecutionError, match=r"auth\.json cannot be read") as caught:
            admin_users_list()
        assert (content, "quilt-mcp login" in caught.value.suggested_actions[0]) == (content, True)
    assert filesystem_status()["status"] == "full_access"
    for content in ("", "a: [b", "- a", "region: 5", "registryUrl: [1]"):
        quilt3.util.CONFIG_PATH.write_text(content, encoding="utf-8")
        with pytest.raises(ResourceExecutionError, match=r"config\.yml cannot be read"):
            catalog_info()


def test_a_half_written_file_is_read_again(fresh_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = quilt3.session.AUTH_PATH.read_text(encoding="utf-8")
    quilt3.session.AUTH_PATH.write_text(whole[:10], encoding="utf-8")
    monkeypatch.setattr(time, "sleep", lambda _: quilt3.session.AUTH_PATH.write_text(whole, encoding="utf-8"))
    assert auth_status()["status"] == "authenticated"


IN_IRELAND, SILENT_ABOUT_IT = Answer(HTTPStatus.OK, {"region": "eu-west-1"}), Answer(HTTPStatus.OK, {})
NO_REGION = (ResourceExecutionError, "No AWS region is configured")


@pytest.mark.parametrize(
    ("config", "variable", "expected"),
    [
        (None, "AWS_DEFAULT_REGION", "us-east-1"),  # quilt3's files come first
        (IN_IRELAND, None, "eu-west-1"),
        (IN_IRELAND, "AWS_DEFAULT_REGION", "eu-west-1"),
        (SILENT_ABOUT_IT, "AWS_DEFAULT_REGION", "eu-central-1"),
        (SILENT_ABOUT_IT, "AWS_REGION", "eu-central-1"),
        (SILENT_ABOUT_IT, None, NO_REGION),
        # the stack can be in another region than that of the environment
        (Answer(HTTPStatus.BAD_GATEWAY, HTML), "AWS_DEFAULT_REGION", (Unavailable, "could not process the request")),
    ],
)
def test_the_region_is_that_of_quilt3s_files_the_catalog_or_the_environment(
    config: Answer | None, variable: str | None, expected: Any, fresh_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    if variable:
        monkeypatch.setenv(variable, "eu-central-1")
    if config:
        quilt3.util.write_yaml(dict(quilt3.util.load_config()) | {"region": None}, quilt3.util.CONFIG_PATH)
        fresh_world.stack.forced["/config.json"] = config
    if isinstance(expected, str):
        assert [current_caller().aws.region, athena_databases_list()["region"]] == [expected] * 2
        assert list_calls(fresh_world).count("/config.json") == (1 if config else 0)
    else:
        with pytest.raises(expected[0], match=expected[1]):
            athena_databases_list()
        assert discover_permissions()["count"]  # S3 and STS redirect, or are the same everywhere


def test_the_region_of_a_registry_without_a_catalog_is_unknown(
    fresh_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    quilt3.util.CONFIG_PATH.unlink()
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    apps.use_settings(Settings(local_registry_url=fresh_world.registry_url))
    with pytest.raises(NO_REGION[0], match=NO_REGION[1]):
        athena_databases_list()
    assert "/config.json" not in list_calls(fresh_world)


def test_a_caller_is_kept_until_its_files_change(fresh_world: World) -> None:
    first = current_caller()
    assert current_caller() is first
    change_tokens(expires_at=4_000_000_000)
    assert current_caller() is not first


def test_a_login_does_not_show_its_tokens(fresh_world: World) -> None:
    held = current_caller().login
    assert held.access_token
    keys = AWSKeys.from_response(fresh_world.account.credentials(fresh_world.company.users[0]))
    shown = f"{held!r} {held} {keys!r} {keys}"
    secrets = held.access_token, held.refresh_token, keys.access_key, keys.secret_key, keys.token
    assert not [secret for secret in secrets if str(secret) in shown]
