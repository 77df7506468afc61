"""The Quilt login: what quilt3 stores of it on disk, renewing it, and how the registry's refusals are recognised."""

import json
import os
import tempfile
import time
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple

import quilt3
import quilt3.util
import requests
from requests.adapters import HTTPAdapter

from quilt_mcp.errors import NotSignedIn, ResourceExecutionError, Unavailable

SPARE_SECONDS = 60  # quilt3 too renews an access token that has less than this left
Timeout = tuple[float, float]


class QuiltPaths(NamedTuple):
    """quilt3's directories on this machine."""

    data: Path
    cache: Path


def paths() -> QuiltPaths:
    """Where quilt3 keeps its configuration and logins, and where its cache."""
    return QuiltPaths(quilt3.util.BASE_PATH, quilt3.util.CACHE_PATH)


@dataclass(frozen=True, repr=False)
class Login:
    """What quilt3's files say. Holds the tokens: it is never shown, and has no repr."""

    catalog_url: str | None
    registry_url: str | None
    region: str | None
    access_token: str | None
    refresh_token: str | None
    expires_at: int | None
    aws_expiry: str | None
    """When the stored AWS credentials expire, ISO 8601; they are renewed by themselves."""
    has_aws_credentials: bool

    @property
    def signed_in(self) -> bool:
        """Whether a token for the configured registry is stored; it may be dead."""
        return self.access_token is not None

    def is_expired(self) -> bool:
        """Whether the access token is at its end; the refresh token may still be good."""
        return self.expires_at is not None and self.expires_at < time.time() + SPARE_SECONDS


class TokenRefused(NotSignedIn):
    """The registry does not accept the access token."""


class LimitedAdapter(HTTPAdapter):
    """Puts a time limit on each request, and recognises a failure by its status, which quilt3's exceptions hide."""

    def __init__(self, timeout: Timeout) -> None:
        super().__init__()
        self._timeout = timeout

    def send(self, request: requests.PreparedRequest, *args: Any, **kwargs: Any) -> requests.Response:
        """Send the request.

        Raises:
            TokenRefused: on 401.
            Unavailable: on 429 and from 500 on.
            ResourceExecutionError: on any other status from 400 on.
        """
        kwargs["timeout"] = kwargs.get("timeout") or self._timeout
        response = super().send(request, *args, **kwargs)
        check_status(response)
        return response


def check_status(response: requests.Response) -> None:
    """Raise our error for a response whose status is one; see `LimitedAdapter.send`."""
    status = response.status_code
    if status < HTTPStatus.BAD_REQUEST:
        return
    response.close()  # its body is not read: without this its connection would be lost
    details = f"HTTP status {status}"
    if status == HTTPStatus.UNAUTHORIZED:
        raise TokenRefused("The sign-in to Quilt has expired.", details=details)
    if status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        raise Unavailable("The Quilt registry failed to answer.", details=details)
    raise ResourceExecutionError("The Quilt registry refused the request.", details=details)


def fingerprint() -> tuple[tuple[int, int] | None, ...]:
    """Changes whenever one of quilt3's files does."""
    return tuple(map(_stamp, (quilt3.util.CONFIG_PATH, quilt3.session.AUTH_PATH, quilt3.session.CREDENTIALS_PATH)))


def read() -> Login:
    """The login as it stands on disk; makes no call and writes nothing.

    Raises:
        ResourceExecutionError: one of the files is damaged.
    """
    try:
        config = quilt3.util.load_config()
    except (quilt3.util.QuiltException, TypeError) as error:  # TypeError: quilt3's answer to an empty file
        raise _damaged(quilt3.util.CONFIG_PATH, "quilt3 config https://<your catalog>") from error
    registry_url = config.get("registryUrl")
    tokens = _read_json(quilt3.session.AUTH_PATH).get(registry_url) or {}
    credentials = _read_json(quilt3.session.CREDENTIALS_PATH)
    return Login(
        catalog_url=(config.get("navigator_url") or "").rstrip("/") or None,
        registry_url=registry_url,
        region=config.get("region"),
        access_token=tokens.get("access_token"),
        refresh_token=tokens.get("refresh_token"),
        expires_at=tokens.get("expires_at"),
        aws_expiry=credentials.get("expiry_time"),
        has_aws_credentials=bool(credentials),
    )


def renew(login: Login, timeout: Timeout) -> None:
    """Fetch a new access token with the refresh token, and store both where quilt3 does.

    quilt3 renews by the stored expiry only, without a time limit, and does not tell a refusal from a breakdown.

    Raises:
        NotSignedIn: the registry does not accept the refresh token.
        Unavailable, requests.RequestException: it could not be asked.
        ResourceExecutionError: the new tokens could not be stored; the old ones are then still good.
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
            json.dump(_read_json(path) | {login.registry_url: _fetch_tokens(login, timeout)}, file)
        Path(name).replace(path)
    finally:
        Path(name).unlink(missing_ok=True)


def _fetch_tokens(login: Login, timeout: Timeout) -> dict[str, Any]:
    response = requests.post(
        f"{login.registry_url}/api/token", data={"refresh_token": login.refresh_token}, timeout=timeout
    )
    check_status(response)
    answer = response.json()
    if not isinstance(answer, dict) or not {"access_token", "refresh_token", "expires_at"} <= answer.keys():
        raise NotSignedIn("The sign-in to Quilt has ended.", details="the refresh token was refused")
    return {key: answer[key] for key in ("access_token", "refresh_token", "expires_at")}


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise _damaged(path, "quilt3 login") from error
    if not isinstance(content, dict):
        raise _damaged(path, "quilt3 login")
    return content


def _damaged(path: Path, command: str) -> ResourceExecutionError:
    return ResourceExecutionError(
        f"Quilt's file {path.name} cannot be read.",
        details=f"damaged: {path}",
        suggested_actions=[f"Run `{command}` in a terminal: it writes the file anew."],
    )


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_mtime_ns, status.st_size
