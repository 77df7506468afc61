"""Sign-ins through a real OpenID provider, npm's oidc-provider, in one process and with two workers."""

import asyncio
import json
import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx2
import pytest
from fastmcp import Client
from fastmcp.client.auth import OAuth
from fastmcp.client.transports import StreamableHttpTransport
from pydantic import AnyHttpUrl, SecretStr

from quilt_mcp.http.provider_checks import check_provider
from tests.http.test_openid import CALLBACK, CHALLENGE, SECRET, VERIFIER, client_id
from tests.support.npm_packages import find_node, install_packages
from tests.support.server_process import serve_http
from tests.support.settings import Settings
from tests.support.waiting import until_awaited

pytestmark = pytest.mark.soak

FILES = Path(__file__).with_name("provider")
PUBLIC = "http://127.0.0.1:1"
"""Where a proxy would serve the server."""
ROUNDS = 5


@dataclass
class Provider:
    """The provider, and how this server must be configured for it."""

    url: str
    http: httpx2.AsyncClient

    async def control(self, **changes: str) -> dict[str, Any]:
        found: dict[str, Any] = (await self.http.get(f"{self.url}/control", params=changes)).json()
        return found


def find_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
    return port


@asynccontextmanager
async def providing(folder: Path, public: str, **options: object) -> AsyncIterator[Provider]:
    """Start a provider that knows a server."""
    port = find_port()
    command = [str(find_node(folder)), str(FILES / "provider.mjs"), str(port), f"{public}/auth/callback"]
    process = await asyncio.create_subprocess_exec(
        *command, json.dumps(options), cwd=folder, stdout=asyncio.subprocess.PIPE, stdin=asyncio.subprocess.DEVNULL
    )
    try:
        assert process.stdout
        while b"listening" not in (line := await process.stdout.readline()):
            assert line, "the provider did not start"
        async with httpx2.AsyncClient(trust_env=False) as http:
            yield Provider(f"http://127.0.0.1:{port}", http)
    finally:
        process.kill()
        await process.wait()


def find_packages(request: pytest.FixtureRequest) -> Path:
    """Return the folder with the packages from npm."""
    return install_packages(Path(request.config.cache.mkdir("openid-provider")), FILES / "package.json")


@asynccontextmanager
async def signing_in(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    *arguments: str,
    settings: Any = None,
    port: int = 0,
    **options: object,
) -> AsyncIterator[tuple[httpx2.AsyncClient, Provider]]:
    """Start a provider and a server that sign people in at it, and yield a browser at the server.

    With a port, the public URL of the server is on this port. Clients need that; a browser does without.
    """
    public, listen = (f"http://127.0.0.1:{port}", ("--port", str(port))) if port else (PUBLIC, ())
    async with providing(find_packages(request), public, **options) as provider:
        environment = {
            "QUILT_MCP_OIDC_CONFIG_URL": f"{provider.url}/.well-known/openid-configuration",
            "QUILT_MCP_OIDC_CLIENT_ID": "quilt",
            "QUILT_MCP_OIDC_CLIENT_SECRET": SECRET,
            "QUILT_MCP_PUBLIC_URL": public,
            "NO_PROXY": "127.0.0.1",
            **(settings or {}),
        }
        async with (
            serve_http(tmp_path, *arguments, *listen, **environment) as server,
            httpx2.AsyncClient(base_url=server.url.removesuffix("/mcp"), trust_env=False, timeout=30) as browser,
        ):
            yield browser, provider


async def follow(browser: httpx2.AsyncClient, answer: httpx2.Response) -> httpx2.Response:
    """Follow redirects, between the server at its public address and the provider, until the client's address."""
    while answer.is_redirect and not answer.headers["location"].startswith(CALLBACK):
        address = str(answer.url.join(answer.headers["location"]))
        answer = await browser.get(address.removeprefix(PUBLIC))
    return answer


async def sign_in(browser: httpx2.AsyncClient) -> httpx2.Response:
    """Sign in as a client and its browser do. Return the answer to the exchange of the code, or the page before it."""
    known = await client_id(browser)
    asked = {"client_id": known, "redirect_uri": CALLBACK, "response_type": "code", "state": "1"}
    asked |= {"code_challenge": CHALLENGE, "code_challenge_method": "S256", "scope": "openid offline_access"}
    page = await follow(browser, await browser.get("/authorize", params=asked))
    form = dict(re.findall(r'name="(txn_id|csrf_token)"\s+value="([^"]+)"', page.text)) | {"action": "approve"}
    answer = await follow(browser, await browser.post("/consent", data=form, headers={"Origin": PUBLIC}))
    if not answer.is_redirect:
        return answer
    code = dict(parse_qsl(urlsplit(answer.headers["location"]).query))["code"]
    exchange = {"client_id": known, "grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK}
    return await browser.post("/token", data=exchange | {"code_verifier": VERIFIER})


async def refresh(browser: httpx2.AsyncClient, tokens: dict[str, Any]) -> httpx2.Response:
    form = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"], "client_id": tokens["client_id"]}
    return await browser.post("/token", data=form)


async def read(browser: httpx2.AsyncClient, tokens: dict[str, Any]) -> int:
    headers = {"Authorization": f"Bearer {tokens['access_token']}"}
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    sent = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}
    return (await browser.post("/mcp", json=asked, headers=sent | headers)).status_code


def read_logs(directory: Path) -> str:
    return "".join(path.read_text("utf-8") for path in directory.glob("*.log"))


async def get_tokens(browser: httpx2.AsyncClient) -> dict[str, Any]:
    answer = await sign_in(browser)
    assert answer.status_code == HTTPStatus.OK, answer.text
    known = dict(parse_qsl(answer.request.content.decode()))["client_id"]
    tokens: dict[str, Any] = answer.json()
    return tokens | {"client_id": known}


AUDIENCE = {"QUILT_MCP_OIDC_AUDIENCE": "quilt-mcp"}
CONFIGURATIONS: dict[str, tuple[dict[str, Any], dict[str, str], list[str]]] = {
    "JWT": ({}, {}, []),
    "JWT for an audience": ({}, AUDIENCE, []),
    "without rotation": ({"rotates": False}, {}, []),
    "two workers": ({}, AUDIENCE, ["--workers", "2"]),
    "ID token": ({"tokens": "opaque"}, {"QUILT_MCP_OIDC_TOKEN": "id"}, []),
    "introspection": ({"tokens": "opaque"}, {"QUILT_MCP_OIDC_TOKEN": "introspection"}, []),
    "introspection by two workers": (
        {"tokens": "opaque"},
        {"QUILT_MCP_OIDC_TOKEN": "introspection"},
        ["--workers", "2"],
    ),
    "short tokens": ({"seconds": 2}, {}, []),
}


@pytest.mark.parametrize("name", CONFIGURATIONS)
async def test_a_person_stays_signed_in(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Four refreshes at once, and one more of a client that lost the answer, in each round."""
    options, settings, arguments = CONFIGURATIONS[name]
    async with signing_in(request, tmp_path, *arguments, settings=settings, **options) as (browser, _):
        tokens = await get_tokens(browser)
        assert await read(browser, tokens) == HTTPStatus.OK
        for _ in range(ROUNDS):
            answers = await asyncio.gather(*(refresh(browser, tokens) for _ in range(4)))
            assert [answer.status_code for answer in answers] == [HTTPStatus.OK] * 4
            again = await refresh(browser, tokens)
            assert again.json() == answers[0].json()
            tokens |= again.json()
            assert await read(browser, tokens) == HTTPStatus.OK


async def visit(address: str) -> httpx2.Response:
    """Open an address in a browser of its own, consent, and return to the client, which listens on this machine."""
    async with httpx2.AsyncClient(trust_env=False, follow_redirects=True, timeout=30) as browser:
        page = await browser.get(address)
        form = dict(re.findall(r'name="(txn_id|csrf_token)"\s+value="([^"]+)"', page.text)) | {"action": "approve"}
        origin = "{0.scheme}://{0.netloc}".format(urlsplit(str(page.url)))
        return await browser.post(str(page.url), data=form, headers={"Origin": origin})


class Person(OAuth):
    """FastMCP's client, whose person signs in at once."""

    visits = 0

    async def redirect_handler(self, authorization_url: str) -> None:
        self.visits += 1
        self.visit = asyncio.create_task(visit(authorization_url))


WORKERS = pytest.mark.parametrize("arguments", [(), ("--workers", "2")], ids=["one process", "two workers"])


@WORKERS
@pytest.mark.filterwarnings("ignore:Using in-memory token storage")
async def test_the_client_of_fastmcp_signs_in_once(
    arguments: tuple[str, ...], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Its access token ends after two seconds, so that reads need new ones."""
    port = find_port()
    url = f"http://127.0.0.1:{port}/mcp"
    async with signing_in(
        request,
        tmp_path,
        *arguments,
        port=port,
        seconds=2,  # of tokens, which the clients renew
    ):
        person = Person(url)
        for _ in range(ROUNDS):
            async with Client(StreamableHttpTransport(url, auth=person)) as client:
                answers = await asyncio.gather(*(client.read_resource("config://security") for _ in range(4)))
                assert len(answers) == 4
                await asyncio.sleep(1)  # a token that has ended is what is tested
        assert person.visits == 1


@WORKERS
async def test_mcp_remote_signs_in_once(
    arguments: tuple[str, ...], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    folder, port = find_packages(request), find_port()
    url = f"http://127.0.0.1:{port}/mcp"
    proxy = str(folder / "node_modules" / "mcp-remote" / "dist" / "proxy.js")
    command = [str(find_node(folder)), proxy, url, str(find_port()), "--allow-http", "--transport", "http-only"]
    environment = {"PATH": str(tmp_path), "HOME": str(tmp_path), "MCP_REMOTE_CONFIG_DIR": str(tmp_path / "remote")}
    async with signing_in(
        request,
        tmp_path,
        *arguments,
        port=port,
        seconds=2,  # of tokens, which the clients renew
    ):
        for number in range(2):  # the second start uses what the first one stored
            process = await asyncio.create_subprocess_exec(
                *command,
                env=environment,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            assert process.stdin
            assert process.stdout
            assert process.stderr
            addresses: list[str] = []
            visits = asyncio.create_task(visit_printed(process.stderr, addresses))
            try:
                parameters = {
                    "protocolVersion": "2025-11-25",
                    "capabilities": {},
                    "clientInfo": {"name": "t", "version": "1"},
                }
                answer = await ask(process, 1, "initialize", parameters)
                assert answer["result"]["serverInfo"]["name"] == "quilt-mcp"
                for round_number in range(ROUNDS):
                    asked = {"uri": "config://security"}
                    answer = await ask(process, 2 + round_number, "resources/read", asked)
                    assert answer["result"]["contents"][0]["uri"] == "config://security"
                    await asyncio.sleep(1)  # a token that has ended is what is tested
            finally:
                process.kill()
                await process.wait()
                visits.cancel()
            assert len(addresses) == (1 if number == 0 else 0)


async def visit_printed(stderr: asyncio.StreamReader, addresses: list[str]) -> None:
    """Visit each address of a sign-in that a client prints for its person."""
    while line := (await stderr.readline()).decode():
        for address in re.findall(r"http://127\.0\.0\.1:\d+/authorize\S+", line):
            addresses.append(address)
            await visit(address)


async def ask(process: asyncio.subprocess.Process, number: int, method: str, parameters: dict[str, Any]) -> Any:
    """Send a request over stdio, and return its answer."""
    assert process.stdin
    assert process.stdout
    message = {"jsonrpc": "2.0", "id": number, "method": method, "params": parameters}
    process.stdin.write(json.dumps(message).encode() + b"\n")
    async with asyncio.timeout(60):
        while line := await process.stdout.readline():
            answer = json.loads(line)
            if answer.get("id") == number:
                return answer
    raise AssertionError("the client has ended")


@pytest.mark.filterwarnings("ignore:Using in-memory token storage")
async def test_a_provider_that_does_not_know_the_resource_gets_none(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    port = find_port()
    url, settings = f"http://127.0.0.1:{port}/mcp", {"QUILT_MCP_OIDC_RESOURCE": "omit"}
    async with (
        signing_in(request, tmp_path, port=port, settings=settings, resources=False),
        Client(StreamableHttpTransport(url, auth=Person(url))) as client,
    ):
        assert await client.read_resource("config://security")


async def test_opaque_tokens_end_the_sign_in_with_the_setting_that_helps(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    async with signing_in(request, tmp_path, tokens="opaque") as (browser, _):
        answer = await sign_in(browser)
    assert answer.status_code == HTTPStatus.INTERNAL_SERVER_ERROR
    assert "Set QUILT_MCP_OIDC_TOKEN" in answer.text


@pytest.mark.parametrize("keeps", ["true", "false"])
async def test_new_keys_of_the_provider_end_no_session(
    keeps: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Tokens of a key that is gone are renewed by their client."""
    async with signing_in(request, tmp_path) as (browser, provider):
        tokens = await get_tokens(browser)
        assert await read(browser, tokens) == HTTPStatus.OK
        await provider.control(newKey="two", keeps=keeps)
        tokens |= (await refresh(browser, tokens)).json()

        async def is_accepted() -> bool:
            return await read(browser, tokens) == HTTPStatus.OK

        await until_awaited(is_accepted)


async def test_an_outage_of_the_provider_is_503_and_ends_no_session(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    async with signing_in(request, tmp_path) as (browser, provider):
        tokens = await get_tokens(browser)
        await provider.control(isDown="true")
        assert (await refresh(browser, tokens)).status_code == HTTPStatus.SERVICE_UNAVAILABLE
        await provider.control(isDown="false")
        tokens |= (await refresh(browser, tokens)).json()
        assert await read(browser, tokens) == HTTPStatus.OK


async def test_a_revoked_sign_in_is_revoked_at_the_provider(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    async with signing_in(request, tmp_path) as (browser, _):
        tokens = await get_tokens(browser)
        form = {"client_id": tokens["client_id"], "token": tokens["refresh_token"]}
        assert (await browser.post("/revoke", data=form)).status_code == HTTPStatus.OK
        assert await read(browser, tokens) == HTTPStatus.UNAUTHORIZED
        assert (await refresh(browser, tokens)).json()["error"] == "invalid_grant"
    assert "did not revoke" not in read_logs(tmp_path)


async def test_the_settings_for_it_pass_the_checks_of_the_doctor(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    async with signing_in(request, tmp_path) as (_, provider):
        settings = Settings(
            oidc_config_url=AnyHttpUrl(f"{provider.url}/.well-known/openid-configuration"),
            oidc_client_id="quilt",
            oidc_client_secret=SecretStr(SECRET),
            public_url=AnyHttpUrl("http://127.0.0.1:1"),
        )
        found = await check_provider(settings)
    assert {one["name"]: one["state"] for one in found if one["state"] == "failed"} == {}
