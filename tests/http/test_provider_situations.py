"""Situations at an OpenID provider and in browsers: what is answered, and which line of the log says why."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx2
import pytest
import time_machine
from joserfc.jwk import RSAKey

from quilt_mcp.demo.http_server import Answer
from quilt_mcp.http.auth import MisconfiguredSignIn, create_auth
from tests.http.test_openid import (
    AUDIENCE,
    ISSUER,
    PUBLIC,
    Provider,
    client_id,
    come_back,
    consent,
    cookies_of,
    get_code,
    home,
    provider,
    query_of,
    read,
    refresh,
    sign_in,
    start_sign_in,
)
from tests.http.web import shop

__all__ = ["home", "provider"]

HOUR = 3600


def many_keys(found: Provider, count: int) -> Any:
    """A set with this many keys, the right one last."""
    other = RSAKey.generate_key(2048).as_dict(private=False)
    return {"keys": [*({**other, "kid": f"other {number}"} for number in range(count - 1)), found.keys]}


METADATA: dict[str, Callable[[Provider], Answer]] = {
    "HTML": lambda _: Answer(HTTPStatus.OK, b"<html>Sign in to the guest network</html>"),
    "empty": lambda _: Answer(HTTPStatus.OK, b""),
    "a list": lambda _: Answer(HTTPStatus.OK, b"[]"),
    "10 MB": lambda _: Answer(HTTPStatus.OK, b" " * 10_000_000),
    "unavailable": lambda _: Answer(HTTPStatus.SERVICE_UNAVAILABLE, b""),
    "without endpoints": lambda _: Answer(HTTPStatus.OK, {"issuer": ISSUER}),
    "nested": lambda _: Answer(HTTPStatus.OK, b"[" * 100_000),
    "not Unicode": lambda _: Answer(HTTPStatus.OK, b"\xff\xfe{}"),
}


@pytest.mark.parametrize("name", METADATA)
def test_metadata_that_cannot_be_used_end_the_start_with_the_setting(name: str, provider: Provider) -> None:
    provider.pages["/.well-known/openid-configuration"] = METADATA[name](provider)
    with pytest.raises(MisconfiguredSignIn, match="QUILT_MCP_OIDC_CONFIG_URL: cannot read the OpenID configuration"):
        create_auth(provider.settings())


KEYS: dict[str, tuple[Callable[[Provider], Answer], int]] = {
    "2,000 keys": (lambda found: Answer(HTTPStatus.OK, many_keys(found, 2_000)), HTTPStatus.OK),
    "10,000 keys": (lambda found: Answer(HTTPStatus.OK, many_keys(found, 10_000)), HTTPStatus.SERVICE_UNAVAILABLE),
    "HTML": (lambda _: Answer(HTTPStatus.OK, b"<html>"), HTTPStatus.SERVICE_UNAVAILABLE),
    "keys of other uses": (
        lambda found: Answer(HTTPStatus.OK, {"keys": [{**found.keys, "use": "enc"}]}),
        HTTPStatus.SERVICE_UNAVAILABLE,
    ),
    "keys without an id": (
        lambda found: Answer(HTTPStatus.OK, {"keys": [{k: v for k, v in found.keys.items() if k != "kid"}]}),
        HTTPStatus.UNAUTHORIZED,
    ),
}


@pytest.mark.parametrize("name", KEYS)
async def test_sets_of_keys_in_which_a_token_is_looked_up(name: str, provider: Provider) -> None:
    """Another process, which has not read the keys, gets a token that a person has."""
    async with shop(provider.settings()) as (client, _):
        token = (await sign_in(client))["access_token"]
    page, status = KEYS[name]
    provider.pages["/keys"] = page(provider)
    async with shop(provider.settings()) as (client, _):
        assert await read(client, token) == status


CLAIMS: dict[str, tuple[dict[str, Any], str]] = {
    "a clock that is an hour ahead": ({"iat": time.time() + HOUR}, "not valid yet"),
    "a clock that is an hour behind": ({"exp": int(time.time()) - HOUR}, "has expired"),
    "a token that is valid from tomorrow": ({"nbf": time.time() + 24 * HOUR}, "not valid yet"),
    "another issuer": ({"iss": "https://new.example.com"}, "another issuer"),
    "an issuer with a slash": ({"iss": f"{ISSUER}/"}, "another issuer"),
    "another audience": ({"aud": "other"}, "another audience"),
    "an audience with a slash": ({"aud": f"{AUDIENCE}/"}, "perhaps one with another slash at its end"),
    "several other audiences": ({"aud": ["one", "two"]}, "another audience"),
    "no expiry": ({"exp": None}, "no expiry"),
}


@pytest.mark.parametrize("name", CLAIMS)
async def test_a_token_that_would_be_refused_ends_the_sign_in_with_its_reason(
    name: str, provider: Provider, caplog: pytest.LogCaptureFixture
) -> None:
    provider.claims, reason = CLAIMS[name]
    async with shop(provider.settings(oidc_audience=AUDIENCE)) as (client, _):
        answer = await come_back(client, await client_id(client))
    assert answer.status_code == HTTPStatus.INTERNAL_SERVER_ERROR
    assert reason in answer.text
    assert reason in caplog.text


async def leave_the_page_open_for_a_day(client: httpx2.AsyncClient) -> httpx2.Response:
    with time_machine.travel(datetime.now(UTC)) as clock:
        began = await start_sign_in(client, await client_id(client))
        page = await client.get(began.headers["location"].removeprefix(PUBLIC))
        clock.shift(24 * HOUR)
        form = {"txn_id": query_of(began)["txn_id"], "csrf_token": "x", "action": "approve"}
        return await client.post("/consent", data=form, headers={"Origin": PUBLIC} | cookies_of(page))


async def come_back_after_a_day(client: httpx2.AsyncClient) -> httpx2.Response:
    with time_machine.travel(datetime.now(UTC)) as clock:
        approved = await consent(client, await start_sign_in(client, await client_id(client)))
        clock.shift(24 * HOUR)
        back = {"code": "of the provider", "state": query_of(approved)["state"]}
        return await client.get("/auth/callback", params=back, headers=cookies_of(approved))


async def come_back_twice(client: httpx2.AsyncClient) -> httpx2.Response:
    approved = await consent(client, await start_sign_in(client, await client_id(client)))
    back = {"code": "of the provider", "state": query_of(approved)["state"]}
    first = await client.get("/auth/callback", params=back, headers=cookies_of(approved))
    assert first.is_redirect
    return await client.get("/auth/callback", params=back, headers=cookies_of(approved))


async def come_back_in_another_browser(client: httpx2.AsyncClient) -> httpx2.Response:
    approved = await consent(client, await start_sign_in(client, await client_id(client)))
    return await client.get("/auth/callback", params={"code": "c", "state": query_of(approved)["state"]})


async def come_back_without_a_state(client: httpx2.AsyncClient) -> httpx2.Response:
    return await client.get("/auth/callback", params={"code": "c"})


async def exchange_the_code_after_ten_minutes(client: httpx2.AsyncClient) -> httpx2.Response:
    with time_machine.travel(datetime.now(UTC)) as clock:
        form = await get_code(client)
        clock.shift(600)
        return await client.post("/token", data=form)


async def exchange_with_another_verifier(client: httpx2.AsyncClient) -> httpx2.Response:
    return await client.post("/token", data=await get_code(client) | {"code_verifier": "w" * 43})


async def exchange_for_another_client(client: httpx2.AsyncClient) -> httpx2.Response:
    return await client.post("/token", data=await get_code(client) | {"client_id": await client_id(client)})


async def exchange_to_another_address(client: httpx2.AsyncClient) -> httpx2.Response:
    return await client.post("/token", data=await get_code(client) | {"redirect_uri": "http://localhost:2/other"})


async def refresh_with_an_access_token(client: httpx2.AsyncClient) -> httpx2.Response:
    signed_in = await sign_in(client)
    return await refresh(client, signed_in | {"refresh_token": signed_in["access_token"]})


SITUATIONS: dict[str, tuple[Callable[[httpx2.AsyncClient], Awaitable[httpx2.Response]], int]] = {
    "a page of consent that was open for a day": (leave_the_page_open_for_a_day, HTTPStatus.BAD_REQUEST),
    "a sign-in at the provider that took a day": (come_back_after_a_day, HTTPStatus.BAD_REQUEST),
    "the back button after a sign-in": (come_back_twice, HTTPStatus.BAD_REQUEST),
    "a link of the provider in another browser": (come_back_in_another_browser, HTTPStatus.FORBIDDEN),
    "an answer of the provider without a state": (come_back_without_a_state, HTTPStatus.BAD_REQUEST),
    "a code after ten minutes": (exchange_the_code_after_ten_minutes, HTTPStatus.BAD_REQUEST),
    "a code with another verifier": (exchange_with_another_verifier, HTTPStatus.BAD_REQUEST),
    "a code for another client": (exchange_for_another_client, HTTPStatus.BAD_REQUEST),
    "a code to another address": (exchange_to_another_address, HTTPStatus.BAD_REQUEST),
    "an access token as a refresh token": (refresh_with_an_access_token, HTTPStatus.BAD_REQUEST),
}


@pytest.mark.parametrize("name", SITUATIONS)
async def test_a_sign_in_that_goes_another_way_is_refused_and_the_next_one_works(name: str, provider: Provider) -> None:
    act, status = SITUATIONS[name]
    async with shop(provider.settings()) as (client, _):
        assert (await act(client)).status_code == status
        assert await read(client, (await sign_in(client))["access_token"]) == HTTPStatus.OK


async def test_two_tabs_sign_in_side_by_side(provider: Provider) -> None:
    async with shop(provider.settings()) as (client, _):
        tabs = await asyncio.gather(*(sign_in(client) for _ in range(4)))
        assert len({tab["refresh_token"] for tab in tabs}) == 4
        assert {await read(client, tab["access_token"]) for tab in tabs} == {HTTPStatus.OK}


async def test_a_provider_that_changes_its_issuer_ends_sign_ins_with_a_reason(
    provider: Provider, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "quilt_mcp")
    async with shop(provider.settings()) as (client, _):
        signed_in = await sign_in(client)
        provider.claims = {"iss": "https://new.example.com"}
        signed_in |= (await refresh(client, signed_in)).json()
        assert await read(client, signed_in["access_token"]) == HTTPStatus.UNAUTHORIZED
    assert "a token was refused: it names another issuer (iss)" in caplog.text


def test_the_directory_of_sign_ins_is_of_the_user_alone(provider: Provider, home: Path) -> None:
    create_auth(provider.settings())
    [directory] = [path for path in home.glob("oauth-proxy/*") if path.is_dir()]
    assert directory.stat().st_mode & 0o077 == 0
