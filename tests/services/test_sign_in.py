"""How the local user signs in: an API key, the environment, quilt3's login; and addresses that get no token."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from itertools import product

import pytest
import quilt3
import quilt3.session
import quilt3.util
from pydantic import ValidationError

from quilt_mcp.app import identity
from quilt_mcp.app.identity import Identity
from quilt_mcp.core.errors import NotSignedIn, ResourceExecutionError, ResourceFailure, Unavailable
from quilt_mcp.demo.http_server import FOREIGN, NORTHWIND_REGISTRY, Answer
from quilt_mcp.demo.stack import Grant
from quilt_mcp.demo.world import World
from quilt_mcp.services.auth_metadata import auth_status, catalog_info
from quilt_mcp.services.governance_service import admin_users_list
from quilt_mcp.services.packages import packages_list
from quilt_mcp.services.stack import quilt_files
from quilt_mcp.services.stack.callers import Callers, current_caller
from quilt_mcp.services.stack.failures import NoRole, NotSignedInToQuilt, RequestRejected, TokenRejected
from quilt_mcp.services.stack.login import Stack
from quilt_mcp.services.stack.sign_in import LocalSignIn
from quilt_mcp.settings import describe_setting
from tests.services.stack_calls import count_calls, find_role, list_calls
from tests.support import apps
from tests.support.settings import Settings
from tests.support.silent_server import SilentServer
from tests.support.worlds import enter_stopped
from tests.worlds.sign_in_mishaps import FAR_FUTURE, add_login

KEY = "qk_L0CAL"
THREADS = 10
SECONDS = 60
ROLE = "FinanceAudit"


@pytest.fixture
def key_world(fresh_world: World) -> World:
    """The admin's world. KEY belongs to another user, with another role."""
    user = next(user for user in fresh_world.company.users if user.role == ROLE)
    fresh_world.stack.grants[KEY] = Grant(user, is_admin=False, expires_at=float("inf"))
    fresh_world.stack.calls.clear()
    return fresh_world


@pytest.fixture
def entered(request: pytest.FixtureRequest) -> Iterator[World]:
    """The world that the test names, for one test."""
    with enter_stopped(request.param) as world:
        yield world


def enter(name: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("entered", [name], indirect=True)


def test_an_api_key_is_used_instead_of_the_login(key_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUILT_API_KEY", KEY)
    apps.use_settings(Settings())
    status = auth_status()
    assert status["user_info"]
    assert status["user_info"]["role"] == ROLE
    assert status["credentials"]["source"] == "api_key"
    assert status["catalog_url"] == key_world.url
    assert find_role() == ROLE
    assert "/api/token" not in list_calls(key_world)


@enter("api_key")
def test_an_api_key_and_a_catalog_need_nothing_of_quilt3(entered: World) -> None:
    assert auth_status()["credentials"]["source"] == "api_key"
    assert find_role() == "DataPlatform"
    assert current_caller().login.stack.registry_url == entered.registry_url
    assert current_caller().login.stack.region == "us-east-1"
    find_role()
    assert count_calls(entered, "/config.json") == 1
    assert not quilt3.util.CONFIG_PATH.exists()
    assert not quilt3.session.AUTH_PATH.exists()


def test_an_api_key_of_this_process_is_seen_and_its_removal_too(key_world: World) -> None:
    """quilt3 has no public name for it: this test fails if an upgrade moves it."""
    assert find_role() == "DataPlatform"
    quilt3.login_with_api_key(KEY)
    assert find_role() == ROLE
    assert auth_status()["credentials"]["source"] == "api_key"
    quilt3.clear_api_key()
    assert find_role() == "DataPlatform"


def test_a_key_of_this_process_comes_before_that_of_the_environment(key_world: World) -> None:
    apps.use_settings(Settings(api_key="qk_unknown"))
    quilt3.login_with_api_key(KEY)
    assert find_role() == ROLE


@pytest.mark.parametrize("key", ["qk_revoked", "qk_\nX-Evil: 1", "schl\u00fcssel"])
def test_a_rejected_api_key_is_not_renewed_and_the_advice_is_about_the_key(key: str, key_world: World) -> None:
    apps.use_settings(Settings(api_key=key))
    assert auth_status()["status"] == "expired"
    with pytest.raises(NotSignedInToQuilt, match="API key") as caught:
        admin_users_list()
    advice = " ".join(caught.value.suggested_actions)
    assert "QUILT_API_KEY" in advice
    assert "quilt-mcp login" not in advice
    assert "/api/token" not in list_calls(key_world)
    assert key not in str(vars(caught.value))
    with pytest.raises(NotSignedInToQuilt):  # neither the login nor the credentials of this machine replace it
        find_role()


@pytest.mark.parametrize("key", ["", "  "])
def test_an_empty_api_key_is_none(key: str, key_world: World) -> None:
    apps.use_settings(Settings(api_key=key, local_catalog_url=""))
    assert auth_status()["credentials"]["source"] == "login"
    assert find_role() == "DataPlatform"


def test_the_settings_do_not_show_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUILT_API_KEY", KEY)
    settings = Settings()
    assert settings.api_key
    assert settings.api_key.get_secret_value() == KEY
    assert KEY not in f"{settings!r} {settings} {settings.model_dump()} {settings.model_dump_json()}"


def test_callers_who_sign_in_over_http_never_get_the_local_key(
    key_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUILT_API_KEY", KEY)
    monkeypatch.setattr(identity, "current", lambda: Identity("ann", "https://idp.example"))
    monkeypatch.setattr(identity, "header_token", lambda _: None)
    for settings in (Settings(), Settings(catalog_url=key_world.url)):
        apps.use_settings(settings)
        assert auth_status()["status"] == "not_authenticated"
        with pytest.raises(NotSignedIn, match="no Quilt token"):
            find_role()
    assert set(list_calls(key_world)) == {"/config.json"}


def test_the_registry_comes_from_the_catalog_or_from_the_environment(
    fresh_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    quilt3.util.CONFIG_PATH.unlink()
    monkeypatch.setenv("QUILT_CATALOG_URL", f"{fresh_world.url}/")
    apps.use_settings(Settings())
    assert auth_status()["status"] == "authenticated"  # quilt3 has stored a login to this registry
    monkeypatch.setenv("QUILT_REGISTRY_URL", "https://other-registry.acme.example.com")
    apps.use_settings(Settings())
    assert current_caller().login.stack.registry_url == "https://other-registry.acme.example.com"
    assert auth_status()["status"] == "not_authenticated"
    monkeypatch.delenv("QUILT_CATALOG_URL")
    monkeypatch.setenv("QUILT_REGISTRY_URL", fresh_world.registry_url)
    apps.use_settings(Settings())
    assert auth_status()["status"] == "authenticated"
    assert {row["catalog_url"] for row in packages_list("acme-raw-sequencing")["packages"]} == {None}


def test_a_catalog_that_does_not_respond_is_unreachable_and_is_asked_again(key_world: World) -> None:
    settings = Settings(api_key=KEY, local_catalog_url=key_world.url)
    apps.use_settings(settings)
    key_world.stack.forced["/config.json"] = Answer(HTTPStatus.BAD_GATEWAY, b"")
    status = auth_status()
    assert (status["status"], status["catalog_url"], status["registry_url"]) == ("unreachable", key_world.url, None)
    with pytest.raises(Unavailable):
        find_role()
    assert list_calls(key_world) == ["/config.json"]  # the failure is remembered
    key_world.stack.forced.clear()
    apps.use_settings(settings, {Callers: Callers(settings, retry_seconds=0.0)})
    key_world.stack.forced["/config.json"] = Answer(HTTPStatus.BAD_GATEWAY, b"")
    assert auth_status()["status"] == "unreachable"
    key_world.stack.forced.clear()
    assert find_role() == ROLE


@pytest.mark.parametrize("signs_in_over_http", [False, True])
def test_readers_share_one_request_to_a_catalog_that_does_not_respond(
    signs_in_over_http: bool,  # noqa: FBT001 - a column of the table
    fresh_world: World,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if signs_in_over_http:
        monkeypatch.setattr(identity, "current", lambda: Identity("ann", "https://idp.example"))
        monkeypatch.setattr(identity, "header_token", lambda _: KEY)
    with SilentServer() as catalog:
        apps.use_settings(
            Settings(
                read_timeout_seconds=0.2,  # it never answers
                catalog_url=catalog.url if signs_in_over_http else None,
                local_catalog_url=None if signs_in_over_http else catalog.url,
            )
        )
        barrier = threading.Barrier(THREADS)

        def read(_: int) -> str:
            barrier.wait()
            return auth_status()["status"]

        with ThreadPoolExecutor(THREADS) as pool:
            assert set(pool.map(read, range(THREADS))) == {"unreachable"}
        assert catalog.asked == ["GET /config.json"]
    assert fresh_world.stack.calls == []


SECRET_ADDRESSES = (
    "https://bob:s3cretpw@quilt.acme.example.com",
    "https://s3cretpw@quilt.acme.example.com",
    "https://quilt.acme.example.com?token=s3cretpw",
    "https://quilt.acme.example.com/#s3cretpw",
)


def test_a_secret_in_an_address_of_quilt3_is_not_shown(fresh_world: World) -> None:
    config = dict(quilt3.util.load_config())
    for key, address in product(("navigator_url", "registryUrl"), SECRET_ADDRESSES):
        quilt3.util.write_yaml(config | {key: address}, quilt3.util.CONFIG_PATH)
        for read in (admin_users_list, catalog_info):
            with pytest.raises(ResourceExecutionError, match="cannot be used") as caught:
                read()
            assert "s3cretpw" not in str(vars(caught.value)), (key, address)
            assert key in str(caught.value.details)
        status = auth_status()
        found = (key, address, status["status"], "s3cretpw" in str(status), key in str(status["details"]))
        assert found == (key, address, "unknown", False, True)
    assert fresh_world.stack.calls == []


def test_another_form_of_address_in_the_settings_is_explained_and_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    addresses = (*SECRET_ADDRESSES, "https://quilt.example.com/b/bucket", "quilt example", "https://[::1", "x:99999")
    for variable, address in product(("QUILT_CATALOG_URL", "QUILT_REGISTRY_URL"), addresses):
        with monkeypatch.context() as patched:
            patched.setenv(variable, address)
            with pytest.raises(ValidationError) as caught:
                Settings()
            assert describe_setting(caught.value, lambda: Settings) == (
                f"Invalid environment variable {variable}: it must be like https://quilt.example.com, without a path."
            ), address


@pytest.mark.parametrize("address", [" https://quilt.example.com/ ", "HTTPS://Quilt.Example.com", "quilt.example.com"])
def test_an_address_in_the_settings_is_put_in_its_usual_form(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("CATALOG_URL", address), ("REGISTRY_URL", "  "), ("MCP_REQUIREMENTS_USER", "")):
        monkeypatch.setenv(f"QUILT_{name}", value)
    found, usual = Settings(), ("https://quilt.example.com", None, None)
    assert (found.local_catalog_url, found.local_registry_url, found.requirements_user) == usual


def check_refusal(world: World) -> None:
    with pytest.raises(ResourceExecutionError, match="does not belong to the catalog") as caught:
        find_role()
    assert FOREIGN in caught.value.message
    assert world.url in caught.value.message
    assert caught.value.suggested_actions
    with pytest.raises(ResourceExecutionError, match="does not belong to the catalog"):
        admin_users_list()
    assert set(list_calls(world)) <= {"/config.json"}


@pytest.mark.parametrize("change", [("https://", "http://"), (".com", ".com:8443")])
def test_a_login_to_a_registry_with_another_scheme_or_port_is_not_sent(
    change: tuple[str, str], fresh_world: World
) -> None:
    address = fresh_world.registry_url.replace(*change)
    assert address != fresh_world.registry_url
    config = dict(quilt3.util.load_config())
    quilt3.util.write_yaml(config | {"registryUrl": address}, quilt3.util.CONFIG_PATH)
    add_login(address, fresh_world.stack.issue_tokens(fresh_world.company.users[0]))
    with pytest.raises(ResourceExecutionError, match="does not belong to the catalog"):
        admin_users_list()
    assert [call for call in fresh_world.stack.calls if call.has_token] == []


@enter("foreign_registry")
def test_a_foreign_registry_of_the_configuration_or_the_catalog_gets_no_token(entered: World) -> None:
    check_refusal(entered)
    apps.use_settings(Settings(api_key=KEY, local_catalog_url=entered.url))
    check_refusal(entered)


def test_a_foreign_registry_in_the_environment_gets_no_token(key_world: World) -> None:
    apps.use_settings(Settings(api_key=KEY, local_catalog_url=key_world.url, local_registry_url=FOREIGN))
    check_refusal(key_world)
    assert list_calls(key_world) == []


@enter("foreign_registry")
@pytest.mark.parametrize("is_set", [True, False])
def test_a_foreign_registry_gets_no_token_of_a_request(
    is_set: bool,  # noqa: FBT001 - a column of the table
    entered: World,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(identity, "current", lambda: Identity("ann", "https://idp.example"))
    monkeypatch.setattr(identity, "header_token", lambda _: KEY)
    apps.use_settings(Settings(catalog_url=entered.url) if is_set else Settings())
    check_refusal(entered)
    with pytest.raises(ResourceExecutionError) as caught:
        find_role()
    assert "operator" in caught.value.suggested_actions[0]


REJECTIONS = [
    Answer(HTTPStatus.UNAUTHORIZED, {"message": "No"}),
    Answer(HTTPStatus.OK, {"error": "No"}),
    Answer(HTTPStatus.BAD_REQUEST, b"<!doctype html>"),
    Answer(HTTPStatus.FORBIDDEN, {}),
]


@enter("renewal_race")
@pytest.mark.parametrize("rejection", REJECTIONS)
def test_tokens_that_another_process_stores_later_are_used(rejection: Answer, entered: World) -> None:
    entered.stack.spent_token = rejection
    assert admin_users_list()["count"] > 0
    assert count_calls(entered, "/api/token") == 1


@enter("revoked")
@pytest.mark.parametrize(
    "rejection", [REJECTIONS[0], *(pytest.param(one, marks=pytest.mark.soak) for one in REJECTIONS[1:])]
)
def test_a_rejected_refresh_token_needs_a_new_login(rejection: Answer, entered: World) -> None:
    entered.stack.spent_token = rejection
    status = auth_status()
    assert (status["status"], status["user_info"]) == ("expired", None)
    assert "quilt-mcp login" in status["suggested_actions"][0]
    with pytest.raises(NotSignedInToQuilt, match="no longer valid"):
        admin_users_list()


@enter("revoked")
def test_a_registry_that_fails_during_a_renewal_is_unreachable(entered: World) -> None:
    entered.stack.spent_token = Answer(HTTPStatus.BAD_GATEWAY, b"")
    assert auth_status()["status"] == "unreachable"


@enter("revoked")
def test_a_firewall_that_refuses_a_renewal_says_nothing_about_the_login(entered: World) -> None:
    entered.stack.spent_token = Answer(HTTPStatus.FORBIDDEN, b"<html>Blocked", (("Content-Type", "text/html"),))
    status = auth_status()
    assert (status["status"], "firewall" in status["suggested_actions"][0]) == ("unknown", True)


@enter("renewal_race")
def test_only_readers_of_the_renewed_token_wait_for_it(entered: World) -> None:
    add_login(NORTHWIND_REGISTRY, {"access_token": "valid", "refresh_token": "-", "expires_at": FAR_FUTURE})
    other = LocalSignIn(Stack(None, NORTHWIND_REGISTRY, None), quilt_files.take_fingerprint(), (9.0, 9.0))
    store, is_renewing, may_end = entered.stack.on_spent_token, threading.Event(), threading.Event()

    def store_later() -> None:
        is_renewing.set()
        may_end.wait(SECONDS)
        store()

    entered.stack.on_spent_token = store_later
    with ThreadPoolExecutor() as threads:
        readers = [threads.submit(admin_users_list) for _ in range(3)]
        try:
            assert is_renewing.wait(SECONDS)
            session = threads.submit(other.open).result(SECONDS)
            assert other.open() is session
            assert not any(reader.done() for reader in readers)
        finally:
            may_end.set()
        assert [reader.result(SECONDS)["count"] > 0 for reader in readers] == [True] * 3
    assert count_calls(entered, "/api/token") == 1


PAGE = b"<!doctype html><title>Not here</title>"
WITHOUT_CREDENTIALS = [
    *(
        (Answer(status, body), NoRole, "issues no AWS credentials to you")
        for status in (400, 403, 404, 409, 422)
        for body in ({"message": "no role"}, PAGE, b"")
    ),
    *(
        (Answer(status, body), Unavailable, "The Quilt stack could not process")
        for status in (429, 500, 503)
        for body in ({"message": "no role"}, PAGE, b"")
    ),
    (Answer(200, PAGE), Unavailable, "did not return a valid response"),
    (Answer(200, {}), ResourceExecutionError, "unexpected format"),
    (Answer(200, {"message": "no role"}), ResourceExecutionError, "unexpected format"),
    (Answer(200, None), ResourceExecutionError, "unexpected format"),
    (Answer(302, b"", (("Location", "/sign-in"),)), ResourceExecutionError, "redirected"),
    (Answer(401, {}), TokenRejected, "login"),
]


@enter("no_role")
def test_however_the_stack_refuses_credentials_without_a_role_the_reason_is_clear(entered: World) -> None:
    for answer, failure, message in WITHOUT_CREDENTIALS:
        apps.use_environment()
        entered.stack.no_role = answer
        with pytest.raises(ResourceFailure, match=message) as caught:
            find_role()
        assert (answer, type(caught.value)) == (answer, failure)
        if failure is NoRole:
            assert caught.value.details == f"refused by the stack: HTTP status {answer.status}"
            assert caught.value.suggested_actions[0] == "Ask a Quilt administrator to give your user a role."
        assert (answer, auth_status()["status"]) == (answer, "authenticated")


def test_a_user_with_a_role_is_not_told_that_there_is_none(fresh_world: World) -> None:
    fresh_world.stack.forced["/api/auth/get_credentials"] = Answer(HTTPStatus.BAD_REQUEST, {"message": "no role"})
    with pytest.raises(RequestRejected, match="rejected the request"):
        find_role()
