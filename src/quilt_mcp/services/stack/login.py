"""A login, and the stack that it is for."""

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, NamedTuple

from pydantic import BaseModel, Field

SPARE_SECONDS = 60  # quilt3 also renews an access token that is valid for less than this

LoginSource = Literal["login", "request", "api_key"]


class Tokens(BaseModel):
    """The tokens of a login to one stack, in the format of auth.json and of the stack's responses."""

    access_token: str = Field(repr=False)
    refresh_token: str = Field(repr=False)
    expires_at: float


class Stack(NamedTuple):
    """The addresses of a Quilt stack. Unknown ones are None."""

    catalog_url: str | None = None
    registry_url: str | None = None
    region: str | None = None


@dataclass(frozen=True, repr=False)
class Login:
    """A stack and a login to it. It contains tokens, so it is never shown and has no repr.

    Attributes:
        stack: the stack.
        access_token: the token for requests to the stack, which can be expired; None without a login.
        refresh_token: the token for a new access token; None if this server does not renew the access token.
        expires_at: when the access token expires, in seconds since 1970; None if unknown.
        source: where the login comes from: quilt3's files on this machine, the HTTP request, or an API key on this
            machine.
    """

    stack: Stack
    access_token: str | None = None
    refresh_token: str | None = None
    expires_at: float | None = None
    source: LoginSource = "login"

    @property
    def signed_in(self) -> bool:
        return self.access_token is not None

    @property
    def expiry(self) -> datetime | None:
        """When the access token expires; None if unknown, also if the number is not in the calendar."""
        try:
            return None if self.expires_at is None else datetime.fromtimestamp(self.expires_at, UTC)
        except (ValueError, OverflowError, OSError):
            return None

    def is_expired(self) -> bool:
        """Return whether the access token has expired. The refresh token can still be valid."""
        return self.expires_at is not None and self.expires_at < time.time() + SPARE_SECONDS
