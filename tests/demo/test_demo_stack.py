"""The demo's stack as a server: its tokens, its hosts, and the responses that clients must survive."""

import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from http import HTTPStatus

import boto3
import certifi
import pytest
import quilt3
import quilt3.admin
import quilt3.util
import requests

from quilt_mcp.demo.company import ADMIN
from quilt_mcp.demo.http_server import FOREIGN
from quilt_mcp.demo.stack import FOREIGN_PAGE, Call, Grant
from quilt_mcp.demo.world import World
from tests.support.worlds import enter_stopped

ME = "{ me { name } }"


def post(world: World, query: str, user: str = ADMIN, **variables: object) -> requests.Response:
    """Send a query as a user."""
    record = world.company.find_user(user)
    world.stack.grants[user] = Grant(record, record.is_admin, float("inf"))
    body, headers = {"query": query, "variables": variables}, {"Authorization": f"Bearer {user}"}
    return requests.post(f"{world.registry_url}/graphql", json=body, headers=headers, timeout=60)


@pytest.fixture(scope="class")
def seen_world() -> Iterator[World]:
    """The admin world, for tests that only read."""
    with enter_stopped("admin") as world:
        yield world


class TestTokens:
    def test_a_refresh_token_is_accepted_once(self) -> None:
        with enter_stopped("admin") as world:
            stored = read_tokens(world)
            answers = [request_tokens(world, stored["refresh_token"]) for _ in range(2)]
        assert answers[0].json()["access_token"] != stored["access_token"]
        assert answers[1].status_code == HTTPStatus.UNAUTHORIZED

    def test_an_api_key_is_a_token_without_a_login(self) -> None:
        with enter_stopped("api_key") as world:
            assert os.environ["QUILT_CATALOG_URL"] == world.url
            assert not list(quilt3.util.BASE_PATH.glob("*.json"))
            assert not quilt3.util.CONFIG_PATH.exists()
            headers = {"Authorization": f"Bearer {os.environ['QUILT_API_KEY']}"}
            keys_url = f"{world.registry_url}/api/auth/get_credentials"
            assert requests.get(keys_url, headers=headers, timeout=60).json()["AccessKeyId"]

    def test_new_tokens_are_in_the_file_when_the_stack_has_rejected_the_spent_one(self) -> None:
        with enter_stopped("renewal_race") as world:
            before = read_tokens(world)
            assert request_tokens(world, before["refresh_token"]).status_code == HTTPStatus.UNAUTHORIZED
            after = read_tokens(world)
            assert after["refresh_token"] != before["refresh_token"]
            assert world.stack.grants.keys() == {after["access_token"]}

    def test_a_user_without_a_role_gets_no_credentials(self) -> None:
        with enter_stopped("no_role") as world:
            headers = {"Authorization": f"Bearer {read_tokens(world)['access_token']}"}
            answer = requests.get(f"{world.registry_url}/api/auth/get_credentials", headers=headers, timeout=60)
            assert answer.status_code == HTTPStatus.BAD_REQUEST
            assert not quilt3.session.CREDENTIALS_PATH.exists()


def read_tokens(world: World) -> dict[str, str]:
    """Return the tokens of the login that quilt3 has stored."""
    tokens: dict[str, str] = json.loads(quilt3.session.AUTH_PATH.read_text(encoding="utf-8"))[world.registry_url]
    return tokens


def request_tokens(world: World, refresh_token: str) -> requests.Response:
    return requests.post(f"{world.registry_url}/api/token", data={"refresh_token": refresh_token}, timeout=60)


def read_stored_identity() -> str:
    """Return the identity of the AWS keys that quilt3 has stored."""
    stored = json.loads(quilt3.session.CREDENTIALS_PATH.read_text(encoding="utf-8"))
    session = boto3.Session(stored["access_key"], stored["secret_key"], stored["token"], "us-east-1")
    return str(session.client("sts").get_caller_identity()["Arn"].partition("/")[2])


class TestIdentities:
    def test_the_stored_keys_can_belong_to_another_stack(self) -> None:
        with enter_stopped("two_stacks") as world:
            assert len(json.loads(quilt3.session.AUTH_PATH.read_text(encoding="utf-8"))) == 2
            assert quilt3.session.get_registry_url() == world.registry_url
            assert read_stored_identity() == "Quilt-Analyst/amara_osei"

    @pytest.mark.soak
    def test_the_stored_keys_can_belong_to_the_role_before_a_switch(self) -> None:
        with enter_stopped("role_switched") as world:
            assert read_stored_identity() == "Quilt-DataPlatform/amara_osei"
            assert post(world, "{ me { role { name } } }").json()["data"]["me"]["role"]["name"] == "FinanceAudit"
            assert quilt3.get_boto3_session()
            quilt3.session.login_with_token(world.stack.sign_in(world.company.find_user("amara_osei")))
            assert read_stored_identity() == "Quilt-FinanceAudit/amara_osei"


class TestOtherHosts:
    def test_a_token_that_is_sent_to_another_host_is_recorded(self) -> None:
        with enter_stopped("stack_redirects") as world:
            for followed in (True, False):
                answer = requests.post(f"{world.registry_url}/graphql", allow_redirects=followed, timeout=60)
                assert answer.status_code == (HTTPStatus.OK if followed else HTTPStatus.FOUND)
            headers = {"Authorization": "Bearer mine"}
            assert requests.get(FOREIGN, headers=headers, timeout=60).content == FOREIGN_PAGE
            hosts = [(call.host, call.has_token) for call in world.stack.calls]
        own, foreign = "quilt-registry.acme.example.com", "quilt-registry.elsewhere.example.net"
        assert hosts == [(own, False), (foreign, False), (own, False), (foreign, True)]

    def test_a_catalog_can_name_a_registry_on_another_domain(self) -> None:
        with enter_stopped("foreign_registry") as world:
            assert requests.get(f"{world.url}/config.json", timeout=60).json()["registryUrl"] == FOREIGN
            assert quilt3.session.get_registry_url() == FOREIGN
            assert FOREIGN in json.loads(quilt3.session.AUTH_PATH.read_text(encoding="utf-8"))


class TestHosts:
    @pytest.mark.parametrize(
        ("path", "host"),
        [("/config.json", "quilt.acme"), ("/graphql", "quilt-registry.acme"), ("/api/token", "quilt-registry.acme")],
    )
    def test_each_host_serves_its_own_paths_only(self, seen_world: World, path: str, host: str) -> None:
        found = {}
        for url in seen_world.stack.addresses:
            method = "GET" if path == "/config.json" else "POST"
            found[url.split("/")[2]] = requests.request(method, f"{url}{path}", timeout=60).status_code
        assert {name for name, status in found.items() if status != HTTPStatus.NOT_FOUND} == {f"{host}.example.com"}

    def test_the_addresses_are_those_of_the_catalogs_configuration(self, seen_world: World) -> None:
        config = requests.get("https://quilt.acme.example.com/config.json", timeout=60).json()
        assert (config["registryUrl"], config["s3Proxy"]) == seen_world.stack.addresses[1:]
        assert quilt3.session.get_registry_url() == "https://quilt-registry.acme.example.com"

    def test_no_other_host_is_reached(self, seen_world: World) -> None:
        for url in ("https://example.com", "https://quilt.acme.example.com.evil.example"):
            with pytest.raises(requests.exceptions.ProxyError, match="403"):
                requests.get(url, timeout=60)
        assert requests.get("http://example.com/x", timeout=60).content == FOREIGN_PAGE
        assert seen_world.stack.calls[-1] == Call("GET", "/x", None, "example.com", has_token=False)

    def test_clients_must_trust_the_certificate_of_the_world(self, seen_world: World) -> None:
        with pytest.raises(requests.exceptions.SSLError):
            requests.get(seen_world.url, timeout=60, verify=certifi.where())


class TestResponses:
    def test_some_fields_fail_and_the_rest_is_data(self) -> None:
        with enter_stopped("stack_partial") as world:
            answer = post(world, "{ admin { ssoConfig { text } tabulatorOpenQuery } }").json()
        assert answer["data"] == {"admin": {"ssoConfig": None, "tabulatorOpenQuery": True}}
        assert [error["path"] for error in answer["errors"]] == [["admin", "ssoConfig"]]

    def test_a_body_without_an_end_lasts_until_the_client_leaves(self) -> None:
        with enter_stopped("stack_endless") as world:
            answer = requests.post(f"{world.registry_url}/graphql", stream=True, timeout=60)
            assert sum(len(chunk) for chunk, _ in zip(answer.iter_content(65_536), range(20), strict=False)) > 1_000_000
            answer.close()

    def test_a_token_is_forbidden_everywhere(self) -> None:
        with enter_stopped("stack_forbidden") as world:
            assert post(world, ME).status_code == HTTPStatus.FORBIDDEN
            assert requests.get(f"{world.registry_url}/api/auth/get_credentials", timeout=60).status_code == 403

    @pytest.mark.parametrize("name", ["admin", "stack_endless"])
    def test_leaving_a_world_ends_all_threads_and_closes_all_sockets(self, name: str) -> None:
        threads = set(threading.enumerate())
        with ExitStack() as clients, enter_stopped(name) as world:
            session = clients.enter_context(requests.Session())
            session.post(f"{world.registry_url}/graphql", stream=True, timeout=60)  # stays open
            address = ("127.0.0.1", world.stack.port)
            clients.enter_context(socket.create_connection(address))  # has not asked for a tunnel
            tunnel = clients.enter_context(socket.create_connection(address))
            tunnel.sendall(b"CONNECT quilt.acme.example.com:443 HTTP/1.1\r\n\r\n")
            assert tunnel.recv(12) == b"HTTP/1.1 200"  # has not begun TLS
        assert set(threading.enumerate()) <= threads
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address)
