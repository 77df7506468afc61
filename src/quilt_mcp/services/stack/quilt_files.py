"""The files in which quilt3 keeps the stack and the login.

Imported on first use by `callers.py`, because it imports quilt3.
"""

import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

import quilt3
import quilt3.util
from pydantic import BaseModel, ValidationError

from quilt_mcp.core.errors import ResourceExecutionError
from quilt_mcp.services.stack.login import Login, Stack, Tokens

# quilt3 rewrites its files in place, so a reader can find one half written.
READ_ATTEMPTS, READ_PAUSE_SECONDS = 4, 0.02
SPARE_BYTES = 65_536
"""How much longer a file can become when tokens are renewed."""
CONFIGURE = "quilt-mcp login https://<your catalog>"
SECRET_PARTS = frozenset("@?#")
"""Characters before or after the parts of an address that can be secret. Answers and errors contain addresses."""

T = TypeVar("T")


class QuiltPaths(NamedTuple):
    """quilt3's directories on this machine."""

    data: Path
    cache: Path


Stamp = tuple[int, int] | None
"""When a file was changed, and its size; None without the file."""


class Fingerprint(NamedTuple):
    """What changes when the user configures quilt3 or signs in or out. It contains a key, so it is never shown."""

    configuration: Stamp
    logins: Stamp
    api_key: str | None


class Config(BaseModel):
    """The part of config.yml that this server reads."""

    navigator_url: str | None = None
    registryUrl: str | None = None  # noqa: N815 - quilt3's name
    region: str | None = None


def find_paths() -> QuiltPaths:
    return QuiltPaths(quilt3.util.BASE_PATH, quilt3.util.CACHE_PATH)


def take_fingerprint() -> Fingerprint:
    """Return a value that changes when the user configures quilt3 or signs in or out.

    The AWS credentials that quilt3 stores are not read: it keeps one set for all stacks, users and roles, without
    saying for which they are.
    """
    return Fingerprint(read_stamp(quilt3.util.CONFIG_PATH), read_stamp(quilt3.session.AUTH_PATH), find_api_key())


def find_api_key() -> str | None:
    """Return the key that this process has given to `quilt3.login_with_api_key`; None if there is none."""
    key: str | None = quilt3.session._api_key  # noqa: SLF001 - quilt3 has no public name for it
    return key


def read_login(stack: Stack) -> Login:
    """Read the login to a stack from the files. Sends no request and writes nothing."""
    tokens = _parse_file(quilt3.session.AUTH_PATH, "quilt-mcp login", lambda: _read_tokens(stack.registry_url))
    if tokens is None:
        return Login(stack)
    return Login(stack, tokens.access_token, tokens.refresh_token, tokens.expires_at)


def read_stack() -> Stack:
    """Read which stack quilt3 is configured for, with or without a login to it.

    Raises:
        ResourceExecutionError: the file is damaged or not readable, or its addresses can contain secrets.
    """
    config = _parse_file(
        quilt3.util.CONFIG_PATH, CONFIGURE, lambda: Config.model_validate(dict(quilt3.util.load_config()))
    )
    for key, url in (("navigator_url", config.navigator_url), ("registryUrl", config.registryUrl)):
        if SECRET_PARTS.intersection(url or ""):
            raise ResourceExecutionError(
                "An address in Quilt's file config.yml cannot be used.",
                details=f"{key} contains a user name, a password, a query or a fragment",
                suggested_actions=[f"Run `{CONFIGURE}` in a terminal, with an address like https://quilt.example.com."],
            )
    return Stack((config.navigator_url or "").rstrip("/") or None, config.registryUrl, config.region)


def store_tokens(registry_url: str, refresh_token: str, fetch: Callable[[], Tokens]) -> None:
    """Exchange a refresh token, and store the new tokens in quilt3's file, in addition to those of other stacks.

    Nothing is stored if the user signs in or out meanwhile.

    Args:
        registry_url: the stack.
        refresh_token: the one that `fetch` spends.
        fetch: fetches the new tokens.

    Raises:
        ResourceExecutionError: the file is damaged or not writable. `fetch` was not called, so the old tokens stay
            valid, unless the disk fails after it.
    """
    path: Path = quilt3.session.AUTH_PATH
    with _reserve_file(path) as reserved:  # first: fetching spends the old token, so the new one must be storable
        before = _parse_file(path, "quilt-mcp login", lambda: _read_json(path))
        if not _has_token(before, registry_url, refresh_token):
            return
        tokens = fetch().model_dump()
        latest = before
        with suppress(ResourceExecutionError):  # it is damaged now: the renewed tokens must not be lost
            latest = _parse_file(path, "quilt-mcp login", lambda: _read_json(path))
        if _has_token(latest, registry_url, refresh_token):
            _write_reserved(reserved, path, json.dumps(latest | {registry_url: tokens}))


def _has_token(logins: dict[str, object], registry_url: str, refresh_token: str) -> bool:
    login = logins.get(registry_url)
    return isinstance(login, dict) and login.get("refresh_token") == refresh_token


@contextmanager
def _reserve_file(path: Path) -> Iterator[Path]:
    """Create a temporary file with the space for the next content of another file."""
    with _explain_write(path):
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".auth-", suffix=".json")
    try:
        with _explain_write(path), os.fdopen(descriptor, "wb") as file:
            _, size = read_stamp(path) or (0, 0)
            file.write(b" " * (size + SPARE_BYTES))
            file.flush()
            os.fsync(file.fileno())  # otherwise some file systems report a full disk later
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


def _write_reserved(reserved: Path, path: Path, content: str) -> None:
    """Overwrite a reserved file, and move it to its place."""
    with _explain_write(path):
        with reserved.open("r+b") as file:  # keeps the reserved space until the content is in it
            file.write(content.encode())
            file.truncate()
            file.flush()
            os.fsync(file.fileno())
        reserved.replace(path)


@contextmanager
def _explain_write(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ResourceExecutionError(
            "The renewed Quilt login cannot be stored.",
            details=f"{type(error).__name__}: {error.strerror}",
            suggested_actions=[
                f"Make {path.parent} writable for this server, and free space if its disk is full.",
                "Then repeat the call.",
            ],
        ) from error


def _read_tokens(registry_url: str | None) -> Tokens | None:
    stored = _read_json(quilt3.session.AUTH_PATH).get(registry_url or "")
    return None if stored is None else Tokens.model_validate(stored)


def _read_json(path: Path) -> dict[str, object]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    if not isinstance(content, dict):
        raise ValueError(f"{path.name} does not contain an object")  # noqa: TRY004 - handled like other damage
    return content


def _parse_file(path: Path, command: str, parse: Callable[[], T]) -> T:
    """Return what `parse` reads from a file. Retries after a short pause, because the file can be half written.

    quilt3 raises TypeError for an empty config.yml.
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
        suggested_actions=[f"Run `{command}` in a terminal. It rewrites the file."],
    ) from problem


def read_stamp(path: Path) -> Stamp:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
