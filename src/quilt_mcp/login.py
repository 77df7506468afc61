"""A login to a Quilt stack; what quilt3 stores of one on disk, and renewing it.

Imported by `runtime_context.py` and what it imports only, because it imports quilt3.
"""

import json
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import quilt3
import quilt3.util
from pydantic import BaseModel, Field, ValidationError

from quilt_mcp.errors import ResourceExecutionError

SPARE_SECONDS = 60  # quilt3 too renews an access token that has less than this left
# quilt3 rewrites its files in place: a reader may meet one half written.
READ_ATTEMPTS, READ_PAUSE_SECONDS = 4, 0.02

T = TypeVar("T")


class QuiltPaths(NamedTuple):
    """quilt3's directories on this machine."""

    data: Path
    cache: Path


class Tokens(BaseModel):
    """A sign-in to one registry, as auth.json holds it and the registry gives it."""

    access_token: str = Field(repr=False)
    refresh_token: str = Field(repr=False)
    expires_at: float


class AWSKeys(BaseModel):
    """Temporary AWS credentials, as credentials.json holds them and the registry gives them."""

    access_key: str = Field(repr=False)
    secret_key: str = Field(repr=False)
    token: str = Field(repr=False)
    expiry_time: datetime


class Config(BaseModel):
    """The part of config.yml that matters here."""

    navigator_url: str | None = None
    registryUrl: str | None = None  # noqa: N815 - quilt3's name
    region: str | None = None


class Stack(NamedTuple):
    """Where a Quilt stack is; what is not known is None."""

    catalog_url: str | None = None
    registry_url: str | None = None
    region: str | None = None


@dataclass(frozen=True, repr=False)
class Login:
    """A stack and a sign-in to it. Holds the tokens: it is never shown, and has no repr.

    Attributes:
        stack: the stack.
        access_token: what the registry is asked with, which may be dead; None if there is no sign-in.
        refresh_token: what another access token is got with; None where that is not this server's business.
        expires_at: the end of the access token, in seconds since 1970; None where it is not known.
        aws_keys: the AWS credentials that are stored with the sign-in. Without a sign-in these are of another stack,
            and are left alone.
        source: where the sign-in comes from: quilt3's files on this machine, or the request over HTTP.
    """

    stack: Stack
    access_token: str | None = None
    refresh_token: str | None = None
    expires_at: float | None = None
    aws_keys: AWSKeys | None = None
    source: Literal["login", "request"] = "login"

    @property
    def signed_in(self) -> bool:
        """Whether there is a sign-in to the stack's registry."""
        return self.access_token is not None

    def is_expired(self) -> bool:
        """Whether the access token is at its end; the refresh token may still be good."""
        return self.expires_at is not None and self.expires_at < time.time() + SPARE_SECONDS


def paths() -> QuiltPaths:
    """Where quilt3 keeps its configuration and logins, and where its cache."""
    return QuiltPaths(quilt3.util.BASE_PATH, quilt3.util.CACHE_PATH)


def fingerprint() -> tuple[tuple[int, int] | None, ...]:
    """Changes whenever one of quilt3's files does."""
    return tuple(map(_stamp, (quilt3.util.CONFIG_PATH, quilt3.session.AUTH_PATH, quilt3.session.CREDENTIALS_PATH)))


def read() -> Login:
    """The login as it stands on disk; makes no call and writes nothing.

    Raises:
        ResourceExecutionError: one of the files is damaged or may not be read.
    """
    stack = read_stack()
    tokens = _parsed(quilt3.session.AUTH_PATH, "quilt3 login", lambda: _read_tokens(stack.registry_url))
    keys = _parsed(quilt3.session.CREDENTIALS_PATH, "quilt3 login", _read_keys)
    if tokens is None:
        return Login(stack)
    return Login(stack, tokens.access_token, tokens.refresh_token, tokens.expires_at, keys)


def read_stack() -> Stack:
    """The stack that quilt3 is configured for on this machine, whoever is signed in to it.

    Raises:
        ResourceExecutionError: the file is damaged or may not be read.
    """
    config = _parsed(quilt3.util.CONFIG_PATH, "quilt3 config https://<your catalog>", _read_config)
    return Stack((config.navigator_url or "").rstrip("/") or None, config.registryUrl, config.region)


def renew(registry_url: str, fetch: Callable[[], Tokens]) -> None:
    """Store the tokens that `fetch` gets where quilt3 keeps them, beside those of other registries.

    Raises:
        ResourceExecutionError: they cannot be stored; `fetch` was then not called, so that the old ones stay good.
    """
    path: Path = quilt3.session.AUTH_PATH
    try:
        # Made before the old token is spent: what cannot be stored must not be fetched.
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".auth-", suffix=".json")
    except OSError as error:
        raise ResourceExecutionError(
            "The renewed sign-in to Quilt cannot be stored.",
            details=type(error).__name__,
            suggested_actions=[f"Make {path.parent} writable for this server, then try again."],
        ) from error
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            tokens = fetch().model_dump()
            json.dump(_read_json(path) | {registry_url: tokens}, file)
        Path(name).replace(path)
    finally:
        Path(name).unlink(missing_ok=True)


def _read_config() -> Config:
    return Config.model_validate(dict(quilt3.util.load_config()))


def _read_tokens(registry_url: str | None) -> Tokens | None:
    stored = _read_json(quilt3.session.AUTH_PATH).get(registry_url)
    return None if stored is None else Tokens.model_validate(stored)


def _read_keys() -> AWSKeys | None:
    stored = _read_json(quilt3.session.CREDENTIALS_PATH)
    return AWSKeys.model_validate(stored) if stored else None


def _read_json(path: Path) -> dict[Any, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    if not isinstance(content, dict):
        raise ValueError(f"{path.name} holds no object")  # noqa: TRY004 - damaged, as everything else that `_parsed` catches
    return content


def _parsed(path: Path, command: str, parse: Callable[[], T]) -> T:
    """What `parse` makes of a file; it is asked again, shortly after, where the file may have been half written.

    TypeError is what quilt3 answers to an empty config.yml.
    """
    problem: Exception | None = None
    for attempt in range(READ_ATTEMPTS):
        time.sleep(READ_PAUSE_SECONDS if attempt else 0)
        try:
            return parse()
        except (ValidationError, ValueError, TypeError, OSError, quilt3.util.QuiltException) as error:
            problem = error
    raise ResourceExecutionError(
        f"Quilt's file {path.name} cannot be read.",
        details=f"{type(problem).__name__}: {path}",
        suggested_actions=[f"Run `{command}` in a terminal: it writes the file anew."],
    ) from problem


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
