"""The identity behind a request."""

import json
import re
from dataclasses import dataclass, field

from fastmcp.server.auth import AccessToken
from fastmcp.server.dependencies import get_access_token, get_http_headers, get_http_request, get_server

from quilt_mcp.core.answers import JSONObject
from quilt_mcp.core.errors import NotSignedIn

TOKEN = re.compile(r"(?:bearer +)?([\x21-\x7e]{1,8192})", re.IGNORECASE)
NAME = re.compile(r"[^\x00-\x1f\x7f-\x9f\ud800-\udfff]{1,1000}")
"""A name of a caller. Half characters (surrogates) cannot be written to databases and logs."""
UNKNOWN_CLIENT = "unknown"  # FastMCP's client_id for a JWT that names none


@dataclass(frozen=True, slots=True)
class Identity:
    """One caller, as the transport has authenticated it.

    Attributes:
        subject: the name that the issuer gives; "local" for the local user.
        issuer: who issued the token; None for the local user and for a static token.
        scopes: the scopes of the token.
        claims: all claims of the token; never the token itself.
    """

    subject: str
    issuer: str | None = None
    scopes: frozenset[str] = frozenset()
    claims: JSONObject = field(default_factory=dict, hash=False, repr=False)

    @property
    def is_local(self) -> bool:
        """Whether this is the local user: over stdio, or over HTTP without authentication."""
        return self is LOCAL

    @property
    def key(self) -> str:
        """A text that is different for every caller: "local", or a JSON array of issuer and subject."""
        return "local" if self.is_local else json.dumps([self.issuer or "", self.subject])


LOCAL = Identity("local")


def current() -> Identity:
    """Return the identity of the current request; the local user if the transport has no other.

    Raises:
        NotSignedIn: the server requires authentication, and the request has none or does not name a caller.
    """
    token = get_access_token()
    if token is not None:
        return _identity(token)
    if _requires_authentication():
        raise NotSignedIn(
            "The request is not authenticated.",
            suggested_actions=["Send an access token for this server in the HTTP header Authorization."],
        )
    return LOCAL


def header_token(header: str) -> str | None:
    """Return the token in a header of the current HTTP request; None if there is none, or the value is not a token.

    FastMCP hides some headers unless they are requested by name.
    """
    name = header.lower()
    match = TOKEN.fullmatch(get_http_headers(include={name}).get(name, "").strip())
    return match[1] if match else None


def _identity(token: AccessToken) -> Identity:
    claims = token.claims
    issuer = claims.get("iss")
    subject = claims.get("sub") if token.subject is None else token.subject
    if "sub" not in claims and token.subject is None and issuer is None:
        # Not for tokens of an issuer: they can belong to many people who share one client.
        subject = claims.get("client_id", token.client_id)
    if not (_is_name(subject) and subject != UNKNOWN_CLIENT and (issuer is None or _is_name(issuer))):
        raise NotSignedIn(
            "The access token for this server does not name its owner.",
            details="no claim `sub` with 1 to 1000 printable characters",
            suggested_actions=["Ask the operator of this server to issue access tokens with the claim `sub`."],
        )
    return Identity(subject=str(subject), issuer=issuer, scopes=frozenset(token.scopes), claims=claims)


def _is_name(claim: object) -> bool:
    """Return whether a claim is a name. FastMCP makes texts of null and of lists, which many tokens could share."""
    return isinstance(claim, str) and NAME.fullmatch(claim) is not None


def _requires_authentication() -> bool:
    """Return whether this is an HTTP request to a server that authenticates. True if the server is unknown."""
    try:
        get_http_request()
    except RuntimeError:
        return False
    try:
        return get_server().auth is not None
    except RuntimeError:
        return True
