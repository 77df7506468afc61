"""Who a request comes from."""

import json
import re
from dataclasses import dataclass, field
from typing import Any

from fastmcp.server.auth import AccessToken
from fastmcp.server.dependencies import get_access_token, get_http_headers, get_http_request, get_server

from quilt_mcp.errors import NotSignedIn

TOKEN = re.compile(r"(?:bearer +)?([\x21-\x7e]{1,8192})", re.IGNORECASE)
UNKNOWN_CLIENT = "unknown"
"""FastMCP's client_id for a JWT that names none."""


@dataclass(frozen=True, slots=True)
class Identity:
    """One caller, as the transport has proved it.

    Attributes:
        subject: the name that the issuer gives; "local" for the person at this machine.
        issuer: who says so; None for the person at this machine, and for a static token.
        scopes: what the token allows.
        claims: all that the issuer says of the caller; never a token.
    """

    subject: str
    issuer: str | None = None
    scopes: frozenset[str] = frozenset()
    claims: dict[str, Any] = field(default_factory=dict, hash=False, repr=False)

    @property
    def is_local(self) -> bool:
        """Whether it is the person at this machine: over stdio, or over HTTP without authentication."""
        return self is LOCAL

    @property
    def key(self) -> str:
        """What sets this caller apart from every other: "local", or a JSON array of issuer and subject."""
        return "local" if self.is_local else json.dumps([self.issuer or "", self.subject])


LOCAL = Identity("local")


def current() -> Identity:
    """The identity of the request under way; the person at this machine where the transport has no other.

    Raises:
        NotSignedIn: the server demands authentication, and the request has none, or one that names nobody.
    """
    token = get_access_token()
    if token is not None:
        return _identity(token)
    if _must_be_authenticated():
        raise NotSignedIn(
            "The request does not say who sends it.",
            suggested_actions=["Send an access token for this server in the HTTP header Authorization."],
        )
    return LOCAL


def quilt_token(header: str) -> str | None:
    """The Quilt token that the HTTP request under way brings in a header; None if there is none, or nothing like one.

    FastMCP keeps some headers back unless they are asked for by name.
    """
    name = header.lower()
    match = TOKEN.fullmatch(get_http_headers(include={name}).get(name, "").strip())
    return match[1] if match else None


def _identity(token: AccessToken) -> Identity:
    claims = token.claims or {}
    issuer = claims.get("iss")
    subject = token.subject or claims.get("sub")
    if not subject and (issuer is not None or token.client_id in {"", UNKNOWN_CLIENT}):
        # An issuer's tokens without a subject may be of many people, and share the client that they signed in with.
        raise NotSignedIn(
            "The access token for this server does not say whose it is.",
            details="no claim `sub`",
            suggested_actions=["Ask who runs this server to have its access tokens issued with the claim `sub`."],
        )
    return Identity(
        subject=str(subject or token.client_id),
        issuer=None if issuer is None else str(issuer),
        scopes=frozenset(token.scopes),
        claims=claims,
    )


def _must_be_authenticated() -> bool:
    """Whether this is an HTTP request to a server that authenticates; also where the server cannot be told."""
    try:
        get_http_request()
    except RuntimeError:
        return False
    try:
        return get_server().auth is not None
    except RuntimeError:
        return True
