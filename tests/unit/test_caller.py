"""The caller's login and AWS session: renewed once where they must be, and refused by name where they cannot."""

import json
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
import quilt3.session
import quilt3.util
import requests

from quilt_mcp import runtime_context
from quilt_mcp.demo.http_server import Answer
from quilt_mcp.demo.world import World
from quilt_mcp.errors import NeedsAdmin, NotSignedIn, QueryRefused, ResourceExecutionError, ResourceFailure, Unavailable
from quilt_mcp.login import Tokens, renew
from quilt_mcp.services.athena_read_service import athena_databases_list
from quilt_mcp.services.auth_metadata import auth_status, catalog_info, filesystem_status
from quilt_mcp.services.governance_service import admin_tabulator_open_query_get, admin_users_list
from quilt_mcp.services.permissions_service import discover_permissions
from quilt_mcp.services.tabulator_service import tabulator_buckets_list
from quilt_mcp.settings import Settings
from quilt_mcp.stack_session import LimitedAdapter, _failure, open_session


def paths_called(world: World) -> list[str]:
    return [call.operation or call.path for call in world.stack.calls]


def stored_tokens() -> Any:
    [tokens] = json.loads(quilt3.session.AUTH_PATH.read_text(encoding="utf-8")).values()
    return tokens


def store_tokens(**changes: Any) -> None:
    [(registry, tokens)] = json.loads(quilt3.session.AUTH_PATH.read_text(encoding="utf-8")).items()
    quilt3.session.AUTH_PATH.write_text(json.dumps({registry: tokens | changes}), encoding="utf-8")


def test_a_token_at_its_end_is_renewed_before_it_is_used(fresh_world: World) -> None:
    store_tokens(expires_at=0)
    assert admin_users_list()["count"] > 0
    assert paths_called(fresh_world) == ["/api/token", "usersList"]


def test_a_token_that_the_registry_refuses_is_renewed_once_and_the_call_repeated_once(fresh_world: World) -> None:
    fresh_world.stack.grants.clear()
    before = stored_tokens()
    assert admin_users_list()["count"] > 0
    assert paths_called(fresh_world) == ["usersList", "/api/token", "usersList"]
    assert stored_tokens() != before


def test_eight_readers_at_once_renew_once(fresh_world: World) -> None:
    fresh_world.stack.grants.clear()
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: admin_users_list(), range(8)))
    assert all(answer["count"] > 0 for answer in answers)
    assert Counter(paths_called(fresh_world))["/api/token"] == 1


def test_quilt3s_own_session_is_never_opened(fresh_world: World) -> None:
    """It has no time limits, and is one for the whole process, whoever asks."""
    quilt3.session.clear_session()
    admin_users_list()
    athena_databases_list()
    assert quilt3.session._session is None  # quilt3 tells it nowhere else


def test_a_login_in_netrc_does_not_take_the_tokens_place(
    fresh_world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("default login operator password other\n", encoding="utf-8")
    monkeypatch.setenv("NETRC", str(netrc))
    assert auth_status()["status"] == "authenticated"


def test_aws_credentials_are_renewed_through_a_token_that_has_expired_meanwhile(fresh_world: World) -> None:
    content = json.loads(quilt3.session.CREDENTIALS_PATH.read_text(encoding="utf-8"))
    at_their_end = content | {"expiry_time": "2026-01-15T12:00:30Z"}  # the clock stands half a minute before
    quilt3.session.CREDENTIALS_PATH.write_text(json.dumps(at_their_end), encoding="utf-8")
    admin_users_list()
    fresh_world.stack.grants.clear()
    assert athena_databases_list()["count"] > 0
    assert paths_called(fresh_world)[1:] == ["/api/auth/get_credentials", "/api/token", "/api/auth/get_credentials"]


def test_a_sign_in_without_stored_aws_credentials_gets_some(fresh_world: World) -> None:
    quilt3.session.CREDENTIALS_PATH.unlink()
    assert athena_databases_list()["count"] > 0
    assert paths_called(fresh_world) == ["/api/auth/get_credentials"]


def test_aws_credentials_of_another_stack_are_left_alone(fresh_world: World) -> None:
    quilt3.util.write_yaml(
        dict(quilt3.util.load_config()) | {"registryUrl": "http://127.0.0.1:9"}, quilt3.util.CONFIG_PATH
    )
    status = auth_status()
    assert (status["status"], status["credentials"]["aws_source"]) == ("not_authenticated", "aws_default_chain")
    with pytest.raises(NotSignedIn, match="no usable AWS credentials"):
        athena_databases_list()


def test_a_token_that_another_process_has_renewed_is_used_and_not_spent_again(fresh_world: World) -> None:
    """The registry accepts each refresh token once; the other process has used the one that this one remembers."""
    caller = runtime_context.caller()
    caller.me()
    fresh_world.stack.grants.clear()
    member = next(user for user in fresh_world.company.users if user.is_admin)
    renewed = fresh_world.stack._issue(member)
    fresh_world.stack.refresh_tokens.clear()
    store_tokens(**renewed)
    me = caller.me()
    assert me
    assert me["name"] == member.name
    assert "/api/token" not in paths_called(fresh_world)


def test_a_sign_in_written_while_another_is_renewed_is_kept(fresh_world: World) -> None:
    def fetch() -> Tokens:
        content = json.loads(quilt3.session.AUTH_PATH.read_text(encoding="utf-8"))
        content["https://meanwhile.example"] = {"a": 1}
        quilt3.session.AUTH_PATH.write_text(json.dumps(content), encoding="utf-8")
        return Tokens(access_token="a", refresh_token="r", expires_at=1)

    renew(fresh_world.url, fetch)
    stored = json.loads(quilt3.session.AUTH_PATH.read_text(encoding="utf-8"))
    assert stored.keys() == {fresh_world.url, "https://meanwhile.example"}
    assert stored[fresh_world.url]["access_token"] == "a"


def test_an_expired_token_and_a_stack_that_is_down_are_unreachable_not_signed_out(fresh_world: World) -> None:
    store_tokens(expires_at=0)
    fresh_world.stack.close()
    assert auth_status()["status"] == "unreachable"
    assert discover_permissions()["sources"]["registry"] == "not read: The Quilt stack cannot be reached."


def test_the_stack_says_when_to_try_again(fresh_world: World) -> None:
    assert isinstance(open_session((1, 1)).get_adapter("http://x"), LimitedAdapter)
    for told, action in (
        ("17", "Try the same call again in 17 seconds."),
        ("soon", "again in a minute"),
        ("9" * 9, "again in a minute"),
    ):
        response = requests.Response()
        response.status_code, response.headers["Retry-After"] = HTTPStatus.SERVICE_UNAVAILABLE, told
        failure = _failure(response)
        assert isinstance(failure, Unavailable)
        assert action in failure.suggested_actions[0]


def test_a_sign_in_that_was_revoked_has_ended(fresh_world: World) -> None:
    fresh_world.stack.grants.clear()
    fresh_world.stack.refresh_tokens.clear()
    with pytest.raises(NotSignedIn, match="has ended"):
        admin_users_list()
    status = auth_status()
    assert (status["status"], status["authenticated"], status["user_info"]) == ("expired", False, None)


def test_another_sign_in_is_picked_up_without_a_restart(fresh_world: World) -> None:
    assert auth_status()["user_info"]["is_admin"]
    member = next(user for user in fresh_world.company.users if not user.is_admin and user.role)
    quilt3.session.login_with_token(fresh_world.stack.sign_in(member))
    assert auth_status()["user_info"]["username"] == member.name


def test_signing_out_is_noticed(fresh_world: World) -> None:
    assert auth_status()["status"] == "authenticated"
    quilt3.logout()
    fresh_world.stack.calls.clear()
    assert auth_status()["status"] == "not_authenticated"
    assert fresh_world.stack.calls == []


def test_without_a_configuration_nothing_is_called_or_written(fresh_world: World) -> None:
    quilt3.util.CONFIG_PATH.unlink()
    before = sorted(fresh_world.directory.rglob("*"))
    status, catalog = auth_status(), catalog_info()
    assert (status["status"], status["catalog_url"]) == ("not_configured", None)
    assert (catalog["config_json"], catalog["detection_method"]) == ("not_configured", "unknown")
    with pytest.raises(NotSignedIn, match="No Quilt catalog is configured"):
        admin_users_list()
    assert fresh_world.stack.calls == []
    assert sorted(fresh_world.directory.rglob("*")) == before


def test_a_renewed_sign_in_that_cannot_be_stored_is_not_fetched(
    fresh_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(**_: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "mkstemp", full)
    store_tokens(expires_at=0)
    with pytest.raises(ResourceExecutionError, match="cannot be stored"):
        admin_users_list()
    assert fresh_world.stack.calls == []


def test_renewing_leaves_no_temporary_file_and_keeps_other_registries(fresh_world: World) -> None:
    content = json.loads(quilt3.session.AUTH_PATH.read_text(encoding="utf-8"))
    quilt3.session.AUTH_PATH.write_text(json.dumps(content | {"https://other.example": {"a": 1}}), encoding="utf-8")
    fresh_world.stack.grants.clear()
    admin_users_list()
    assert json.loads(quilt3.session.AUTH_PATH.read_text(encoding="utf-8"))["https://other.example"] == {"a": 1}
    assert list(Path(quilt3.util.BASE_PATH).glob(".auth-*")) == []
    assert quilt3.session.AUTH_PATH.stat().st_mode & 0o077 == 0


HTML = b"<html>Bad Gateway</html>"
STACK_ANSWERS: dict[str, tuple[Answer, type[ResourceFailure]]] = {
    "500 with JSON": (Answer(HTTPStatus.INTERNAL_SERVER_ERROR, {"message": "boom"}), Unavailable),
    "502 with HTML": (Answer(HTTPStatus.BAD_GATEWAY, HTML), Unavailable),
    "429": (Answer(HTTPStatus.TOO_MANY_REQUESTS, {}), Unavailable),
    "403": (Answer(HTTPStatus.FORBIDDEN, {}), NotSignedIn),
    "404": (Answer(HTTPStatus.NOT_FOUND, {}), ResourceExecutionError),
    "200 with HTML": (Answer(HTTPStatus.OK, HTML), Unavailable),
    "200 with another JSON": (Answer(HTTPStatus.OK, {"hello": "world"}), Unavailable),
    "GraphQL errors": (Answer(HTTPStatus.OK, {"errors": [{"message": "x"}], "data": None}), QueryRefused),
    "another shape": (Answer(HTTPStatus.OK, {"data": {"admin": {"user": {"list": [{}]}}}}), ResourceExecutionError),
}


@pytest.mark.parametrize("name", STACK_ANSWERS)
def test_a_stack_that_fails_is_told_by_status_and_form(name: str, fresh_world: World) -> None:
    answer, failure = STACK_ANSWERS[name]
    fresh_world.stack.forced["/graphql"] = answer
    with pytest.raises(ResourceFailure) as caught:
        admin_users_list()
    assert type(caught.value) is failure


def test_a_member_needs_an_administrator(fresh_world: World) -> None:
    for grant in fresh_world.stack.grants.values():
        grant.is_admin = False
    with pytest.raises(NeedsAdmin, match="Only administrators"):
        admin_users_list()
    assert paths_called(fresh_world) == ["usersList", "me"]


def test_an_old_stack_is_told_apart_from_a_missing_right(fresh_world: World) -> None:
    fresh_world.stack.forced["/graphql"] = Answer(HTTPStatus.OK, {"errors": [{"message": "no such field"}]})
    with pytest.raises(QueryRefused) as caught:
        admin_tabulator_open_query_get()
    assert "1.57" in caught.value.suggested_actions[0]


def test_a_registry_too_old_for_the_query_is_replaced_by_tabulators_catalog(
    fresh_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh_world.stack.forced["/graphql"] = Answer(HTTPStatus.OK, {"errors": [{"message": "Unknown field"}]})
    caller = runtime_context.caller()
    asked = []

    def pages(service: str, operation: str, key: str, **parameters: Any) -> Any:
        asked.append((service, operation, parameters))
        return iter([{"Name": "b"}, {"Name": "a"}])

    monkeypatch.setattr(caller.aws, "pages", pages)
    assert tabulator_buckets_list() == {
        "buckets": [
            {"name": "a", "tables": None, "table_count": None},
            {"name": "b", "tables": None, "table_count": None},
        ],
        "count": 2,
        "source": "athena",
    }
    assert asked == [("athena", "list_databases", {"CatalogName": "quilt-acme-tabulator"})]

    fresh_world.stack.forced["/config.json"] = Answer(HTTPStatus.OK, {})
    with pytest.raises(QueryRefused):
        tabulator_buckets_list()


def test_a_catalog_that_cannot_be_read_is_told_and_the_local_configuration_given(fresh_world: World) -> None:
    for form in (["no", "object"], {"analyticsBucket": 5}):
        fresh_world.stack.forced["/config.json"] = Answer(HTTPStatus.OK, form)
        expected = "unavailable: The Quilt stack answered in a form that this version does not know."
        assert catalog_info()["config_json"] == expected
    fresh_world.stack.forced["/config.json"] = Answer(HTTPStatus.UNAUTHORIZED, {})
    assert catalog_info()["config_json"] == "unavailable: The catalog does not give its config.json."
    fresh_world.stack.forced["/config.json"] = Answer(HTTPStatus.BAD_GATEWAY, HTML)
    info = catalog_info()
    assert info["config_json"].startswith("unavailable: ")
    assert info["registry_url"] == fresh_world.url
    assert info["tabulator_data_catalog"] is None


def test_a_stack_that_is_down_is_unreachable_not_signed_out(fresh_world: World) -> None:
    fresh_world.stack.close()
    assert auth_status()["status"] == "unreachable"
    with pytest.raises(Unavailable):
        admin_users_list()


def test_an_account_that_the_registry_does_not_know_is_expired(fresh_world: World) -> None:
    fresh_world.stack.forced["/graphql"] = Answer(HTTPStatus.OK, {"data": {"me": None}})
    assert auth_status()["status"] == "expired"


@pytest.mark.parametrize("content", ["", "{", "[1]", '{"REGISTRY": "x"}', '{"REGISTRY": {"access_token": "a"}}'])
def test_a_damaged_token_file_is_named_with_the_command_that_mends_it(content: str, fresh_world: World) -> None:
    quilt3.session.AUTH_PATH.write_text(content.replace("REGISTRY", fresh_world.url), encoding="utf-8")
    with pytest.raises(ResourceExecutionError, match=r"auth\.json cannot be read") as caught:
        auth_status()
    assert "quilt3 login" in caught.value.suggested_actions[0]
    assert filesystem_status()["status"] == "full_access"


@pytest.mark.parametrize("content", ["", "a: [b", "- a", "region: 5", "registryUrl: [1]"])
def test_a_damaged_configuration_is_named_with_the_command_that_mends_it(content: str, fresh_world: World) -> None:
    quilt3.util.CONFIG_PATH.write_text(content, encoding="utf-8")
    with pytest.raises(ResourceExecutionError, match=r"config\.yml cannot be read"):
        auth_status()


def test_a_file_that_is_being_rewritten_is_read_again(fresh_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = quilt3.session.AUTH_PATH.read_text(encoding="utf-8")
    quilt3.session.AUTH_PATH.write_text(whole[:10], encoding="utf-8")
    monkeypatch.setattr(time, "sleep", lambda _: quilt3.session.AUTH_PATH.write_text(whole, encoding="utf-8"))
    assert auth_status()["status"] == "authenticated"


def test_the_region_is_the_stacks_then_the_environments_then_the_default(
    fresh_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert runtime_context.caller().aws.region == "us-east-1"
    config = quilt3.util.load_config()
    quilt3.util.write_yaml(dict(config) | {"region": None}, quilt3.util.CONFIG_PATH)
    quilt3.logout()
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    runtime_context.use_settings(Settings())
    assert runtime_context.caller().aws.region == "eu-central-1"
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    monkeypatch.setenv("AWS_REGION", "eu-west-3")
    runtime_context.use_settings(Settings())
    assert runtime_context.caller().aws.region == "eu-west-3"
    monkeypatch.delenv("AWS_REGION")
    runtime_context.use_settings(Settings())
    assert runtime_context.caller().aws.region == "us-east-1"


def test_a_caller_is_kept_for_as_long_as_its_files_stay_the_same(fresh_world: World) -> None:
    first = runtime_context.caller()
    assert runtime_context.caller() is first
    store_tokens(expires_at=4_000_000_000)
    assert runtime_context.caller() is not first


def test_a_login_never_shows_its_tokens(fresh_world: World) -> None:
    held = runtime_context.caller().login
    assert held.access_token
    assert held.aws_keys
    shown = f"{held!r} {held} {held.aws_keys!r} {held.aws_keys}"
    secrets = held.access_token, held.refresh_token, held.aws_keys.secret_key, held.aws_keys.token
    assert not [secret for secret in secrets if str(secret) in shown]
