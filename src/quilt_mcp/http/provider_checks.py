"""`quilt-mcp doctor --sign-in`: which setting of the sign-in does not fit the provider, and one sign-in to prove it.

The sign-in goes through the running server, so it also shows what the server refuses: the page in the browser says why.
"""

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import NamedTuple

import httpx2
from fastmcp import Client
from fastmcp.client.transports import ClientTransport as Transport
from fastmcp.exceptions import ClientError
from mcp.shared.exceptions import MCPError

from quilt_mcp.app.checks import Check, make_check
from quilt_mcp.http.auth import RESOURCES
from quilt_mcp.http.openid import PROVIDER_SECONDS
from quilt_mcp.http.tokens import ANSWER_BYTES, LEEWAY_SECONDS
from quilt_mcp.settings import HTTPSettings

SIGN_IN_SECONDS = 300.0
WELL_KNOWN = "/.well-known/openid-configuration"
KEY_TYPES = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}
"""The type of a key, by the first letters of the algorithms that use it (RFC 7518, 3.1)."""
NO_SIGN_IN = "no OpenID provider is configured: QUILT_MCP_OIDC_CONFIG_URL is not set"


class _Document(NamedTuple):
    """A JSON document of the provider, and the time by its clock; None if it did not say."""

    body: Mapping[str, object]
    clock: float | None


async def check_provider(settings: HTTPSettings) -> list[Check]:
    """Check the settings against the metadata and the keys of the provider."""
    if settings.oidc_config_url is None:
        return [make_check("sign-in", "skipped", NO_SIGN_IN)]
    url = str(settings.oidc_config_url)
    metadata = await _fetch(url)
    if isinstance(metadata, str):
        fix = "Check QUILT_MCP_OIDC_CONFIG_URL, and whether this machine may connect to it."
        return [make_check("metadata", "failed", metadata, fix)]
    found = metadata.body
    checks = [_check_issuer(url, found), _check_clock(metadata.clock), _check_endpoints(found)]
    checks += [_check_scopes(settings, found), await _check_keys(settings, found), _check_tokens(settings, found)]
    return [*checks, make_check("redirect address", "info", f"the provider must know {_find_redirect(settings)}")]


async def sign_in_once(settings: HTTPSettings, *, client: Client[Transport] | None = None) -> Check:
    """Sign in through the running server, in the browser, and make one request.

    Args:
        settings: of the server.
        client: what signs in; by default, one with the browser of this machine.
    """
    address = f"{str(settings.public_url).rstrip('/')}/{RESOURCES['http']}"
    try:
        async with asyncio.timeout(SIGN_IN_SECONDS), client or Client(address, auth="oauth") as connected:
            await connected.list_tools()
    except TimeoutError:
        return make_check("sign-in", "failed", "it did not end in five minutes", "Run the command again.")
    except (httpx2.HTTPError, ClientError, MCPError, RuntimeError) as error:
        fix = "Read the page in the browser and the log of the server: they say which token does not fit."
        return make_check("sign-in", "failed", f"{type(error).__name__} at {address}", fix)
    return make_check("sign-in", "ok", f"a request to {address} was accepted")


async def _fetch(url: str) -> _Document | str:
    """Fetch a document, or return why there is none."""
    content = bytearray()
    try:
        async with (
            asyncio.timeout(PROVIDER_SECONDS),
            httpx2.AsyncClient(timeout=PROVIDER_SECONDS) as client,
            client.stream("GET", url) as response,
        ):
            response.raise_for_status()
            async for piece in response.aiter_bytes():
                content += piece
                if len(content) > ANSWER_BYTES:
                    return f"more than {ANSWER_BYTES:,} bytes"
            found: object = json.loads(content)
            stated = response.headers.get("date")
    except httpx2.HTTPStatusError as error:
        return f"HTTP {error.response.status_code}"
    except (httpx2.HTTPError, TimeoutError) as error:
        return f"it cannot be read ({type(error).__name__})"
    except (ValueError, RecursionError):
        return "it is not JSON"
    if not isinstance(found, dict):
        return "it is no JSON object"
    return _Document(found, _read_date(stated))


def _read_date(text: str | None) -> float | None:
    try:
        return parsedate_to_datetime(text or "").timestamp()
    except ValueError:
        return None


def _check_issuer(url: str, found: Mapping[str, object]) -> Check:
    issuer, expected = str(found.get("issuer")), url.removesuffix(WELL_KNOWN)
    if issuer.rstrip("/") == expected.rstrip("/"):
        return make_check("metadata", "ok", f"issuer {issuer}")
    fix = f"Set QUILT_MCP_OIDC_CONFIG_URL to {issuer.rstrip('/')}{WELL_KNOWN}, unless the URL is an internal one."
    return make_check("metadata", "failed", f"the URL is of {expected}, and names the issuer {issuer}", fix)


def _check_clock(clock: float | None) -> Check:
    if clock is None:
        return make_check("clock", "skipped", "the provider does not state its time")
    off = round(time.time() - clock)
    if abs(off) <= LEEWAY_SECONDS:
        return make_check("clock", "ok", f"{off:+d} s from the provider's")
    return make_check("clock", "failed", f"{off:+d} s from the provider's", "Set the clock of this machine.")


def _check_endpoints(found: Mapping[str, object]) -> Check:
    missing = [name for name in ("authorization_endpoint", "token_endpoint", "jwks_uri") if not found.get(name)]
    if missing:
        return make_check("endpoints", "failed", f"the metadata lack {', '.join(missing)}", "Use another provider.")
    return make_check("endpoints", "ok", str(found["token_endpoint"]))


def _check_scopes(settings: HTTPSettings, found: Mapping[str, object]) -> Check:
    known, wanted = found.get("scopes_supported"), ["openid", *settings.required_scopes]
    if not isinstance(known, list):
        return make_check("scopes", "skipped", "the provider does not list its scopes")
    missing = [one for one in wanted if one not in known]
    if missing:
        fix = "Define them at the provider, or correct QUILT_MCP_REQUIRED_SCOPES."
        return make_check("scopes", "failed", f"the provider does not list {', '.join(missing)}", fix)
    return make_check("scopes", "ok", ", ".join(wanted))


async def _check_keys(settings: HTTPSettings, found: Mapping[str, object]) -> Check:
    answer = await _fetch(str(found.get("jwks_uri")))
    if isinstance(answer, str):
        return make_check("keys", "failed", answer, "Let this machine connect to the jwks_uri of the metadata.")
    keys = answer.body.get("keys")
    kinds = sorted({str(one.get("kty")) for one in keys if isinstance(one, dict)}) if isinstance(keys, list) else []
    wanted = KEY_TYPES[settings.jwt_algorithm[:2]]
    if wanted in kinds:
        return make_check("keys", "ok", f"{', '.join(kinds)}, for {settings.jwt_algorithm}")
    offered = _list(found, "id_token_signing_alg_values_supported")
    fix = f"Set QUILT_MCP_JWT_ALGORITHM to one of the provider's: {offered}."
    return make_check("keys", "failed", f"none is for {settings.jwt_algorithm}; there are {', '.join(kinds)}", fix)


def _check_tokens(settings: HTTPSettings, found: Mapping[str, object]) -> Check:
    chosen = settings.oidc_token or "access"
    if chosen == "introspection" and not found.get("introspection_endpoint"):
        fix = "Set QUILT_MCP_OIDC_TOKEN to id."
        return make_check("tokens", "failed", "the metadata lack introspection_endpoint", fix)
    audience = settings.oidc_audience
    detail = f"{chosen} tokens, for {audience or 'any audience'}"
    if chosen == "access" and audience is None:
        detail += "; many providers issue JWTs for an audience alone (QUILT_MCP_OIDC_AUDIENCE)"
    return make_check("tokens", "info", detail)


def _list(found: Mapping[str, object], name: str) -> str:
    values = found.get(name)
    return ", ".join(map(str, values)) if isinstance(values, Sequence) and not isinstance(values, str) else "unknown"


def _find_redirect(settings: HTTPSettings) -> str:
    return f"{str(settings.public_url).rstrip('/')}/auth/callback"
