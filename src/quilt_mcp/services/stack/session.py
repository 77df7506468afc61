"""HTTP sessions with a Quilt stack: with time limits, and with the caller's token; and the catalog's config.json.

Imported on first use by `callers.py`, because it imports requests.
"""

import io
import json
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

import requests
import urllib3
from pydantic import AfterValidator, TypeAdapter, ValidationError
from requests.adapters import HTTPAdapter
from typing_extensions import TypedDict
from urllib3.connection import HTTPConnection

from quilt_mcp.app.json_depth import is_nested_too_deeply
from quilt_mcp.core.errors import ResourceExecutionError, ResourceFailure, Unauthorized, Unavailable
from quilt_mcp.core.tracing import calling
from quilt_mcp.services.settings import RETRY_SECONDS, Timeout
from quilt_mcp.services.stack import login as quilt_files
from quilt_mcp.services.stack.failures import NotSignedInToQuilt, is_json, map_failure
from quilt_mcp.services.stack.login import Stack, Tokens, is_registry_of, parse_address
from quilt_mcp.services.stack.shared_attempts import SharedAttempts, copy_failure

T = TypeVar("T")


NAME = "quilt-mcp-renewal.lock"


@contextmanager
def hold_lock(directory: Path, seconds: float) -> Iterator[None]:
    """Hold the lock of a directory, which is exclusive among processes and threads.

    The lock is that of an empty SQLite database: SQLite locks files on every system, and the system releases the lock
    when the process ends. Where files cannot be locked, this does nothing, as quilt3 does.

    Args:
        directory: the lock's file is in it.
        seconds: how long to wait for another holder.

    Raises:
        Unavailable: another holder keeps the lock.
    """
    with ExitStack() as stack:
        try:
            opened = sqlite3.connect(directory / NAME, timeout=seconds, isolation_level=None)
            stack.enter_context(closing(opened)).execute("BEGIN EXCLUSIVE")
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_BUSY:
                raise Unavailable("Another process is renewing the Quilt login.") from None
        yield


CHUNK_BYTES = 65_536
MAX_BODY_BYTES = 16 * 1024 * 1024
INVALID_QUERY = (HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY)
"""The statuses with which GraphQL servers respond to a query that does not fit their schema."""
REJECTED_TOKEN = (HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
"""The statuses for a refresh token that is not valid. quilt3 also expects 200 with an error."""


class StackAdapter(HTTPAdapter):
    """Sends each request at once, also through a proxy."""

    def proxy_manager_for(self, proxy: str, **proxy_kwargs: Any) -> urllib3.ProxyManager:
        """Return the connections through a proxy, without Nagle's algorithm.

        urllib3 disables it only without a proxy. Then the body of each POST waits until the stack has acknowledged the
        headers, which many systems delay by 40 ms.
        """
        proxy_kwargs.setdefault("socket_options", HTTPConnection.default_socket_options)
        manager: urllib3.ProxyManager = super().proxy_manager_for(proxy, **proxy_kwargs)
        return manager


class StackSession(requests.Session):
    """A session with a stack. Without a token it can read public data only.

    It limits the size of a body and the time in which it arrives, and follows no redirect.

    The timeout of a socket starts again with each byte, so it does not limit a body that arrives slowly.
    """

    def __init__(self, timeout: Timeout, token: str | None = None, *, max_body_bytes: int = MAX_BODY_BYTES) -> None:
        super().__init__()
        self.stream = True
        self.headers["Accept"] = "application/json"
        if token:
            self.headers["Authorization"] = f"Bearer {token}"
        self.auth = lambda request: request  # without one, requests sends another login, from ~/.netrc
        for scheme in ("https://", "http://"):
            self.mount(scheme, StackAdapter())
        self._timeout, self._max_body_bytes = timeout, max_body_bytes

    def send(self, request: requests.PreparedRequest, **kwargs: Any) -> requests.Response:
        """Send the request and read the whole response.

        Raises:
            HTTPError: the status is 300 or more.
            ReadTimeout: the body did not arrive within the time limit.
            Unavailable: the body is too large, or JSON that Python cannot parse.
        """
        kwargs["timeout"] = kwargs.get("timeout") or self._timeout
        kwargs["allow_redirects"] = False  # the token would go to an address that is not configured
        with calling("stack", str(request.method)):
            response = super().send(request, **kwargs)
            with ExitStack() as on_failure:
                on_failure.callback(response.close)  # so that the next request does not read the rest of the body
                is_success = response.status_code < HTTPStatus.MULTIPLE_CHOICES
                if not (is_success or _can_contain_graphql(request, response)):
                    raise requests.HTTPError(response=response)
                self._read_body(response)
                _check_json(response)
                if not (is_success or _has_graphql_errors(response)):
                    raise requests.HTTPError(response=response)
                on_failure.pop_all()
        return response

    def get_redirect_target(self, resp: requests.Response) -> str | None:
        """Find no redirect. The base class would parse its address, and fail on one that is not valid."""
        del resp
        return None

    def _read_body(self, response: requests.Response) -> None:
        until, body = time.monotonic() + self._timeout[1], bytearray()
        while chunk := response.raw.read1(CHUNK_BYTES, decode_content=True):
            body += chunk
            if len(body) > self._max_body_bytes:
                raise Unavailable(
                    "The Quilt stack sent a response that is too large.",
                    details=f"more than {self._max_body_bytes} bytes",
                    suggested_actions=[
                        "If it is a folder with very many files, read it with quilt3: `quilt3.Package.browse(...)`.",
                        "Otherwise, ask a Quilt administrator whether something else responds at this address.",
                    ],
                    transient=False,
                )
            if time.monotonic() > until:
                raise requests.ReadTimeout("the body did not arrive in time")
        response.raw = io.BytesIO(body)


def _check_json(response: requests.Response) -> None:
    """Check that the body can be parsed, unless it is not JSON at all: clients of requests expect that error.

    Raises:
        Unavailable: it is nested too deeply, or contains a number with too many digits or half of a surrogate pair.
    """
    if is_nested_too_deeply(response.content):
        raise Unavailable("The Quilt stack did not return a valid response.", details="nested too deeply")
    try:
        payload = response.json()
        if b"\\u" in response.content:
            json.dumps(payload, ensure_ascii=False).encode()
    except requests.JSONDecodeError:
        return
    except (ValueError, RecursionError) as error:  # the response can name an encoding that nothing detects
        details = type(error).__name__
        raise Unavailable("The Quilt stack did not return a valid response.", details=details) from None


def _can_contain_graphql(request: requests.PreparedRequest, response: requests.Response) -> bool:
    """Return whether the body can be GraphQL. Other statuses have their meaning without the body."""
    return urlsplit(request.url or "").path.endswith("/graphql") and response.status_code in INVALID_QUERY


def _has_graphql_errors(response: requests.Response) -> bool:
    try:
        payload = response.json()
    except requests.JSONDecodeError:
        return False
    return isinstance(payload, dict) and isinstance(payload.get("errors"), list)


def fetch_tokens(registry_url: str, refresh_token: str, timeout: Timeout) -> Tokens:
    """Fetch new tokens. The refresh token cannot be used again.

    Raises:
        NotSignedIn: the stack rejected the refresh token.
        HTTPError, RequestException, ValidationError: the request failed.
    """
    with StackSession(timeout) as session:
        try:
            answer = session.post(f"{registry_url}/api/token", data={"refresh_token": refresh_token}).json()
        except requests.HTTPError as error:
            status = error.response.status_code
            if status not in REJECTED_TOKEN or (status == HTTPStatus.FORBIDDEN and not is_json(error.response)):
                raise
            answer = None
    if not isinstance(answer, dict) or "error" in answer:
        raise NotSignedInToQuilt("The Quilt login is no longer valid.", details="the refresh token was rejected")
    return Tokens.model_validate(answer)


def call_stack(call: Callable[[], T]) -> T:
    """Run a function that sends requests to the stack, and return its result.

    Raises:
        ResourceFailure: the rows of `failures.py` describe the exception that the function raised.
    """
    try:
        return call()
    except (requests.RequestException, urllib3.exceptions.HTTPError, ValidationError) as error:
        # Without its cause: the text of a ValidationError contains the response, which can contain credentials.
        raise map_failure(error) from None


ConfigText = Annotated[str | None, AfterValidator(lambda text: text or None)]
"""A value of config.json. An empty one is not set: the catalog's container writes a text for each variable."""


class CatalogConfig(TypedDict, total=False):
    """The part of a catalog's config.json that this server reads."""

    registryUrl: ConfigText
    region: ConfigText
    s3Proxy: ConfigText
    serviceBucket: ConfigText
    analyticsBucket: ConfigText
    stackVersion: ConfigText


CATALOG_CONFIG = TypeAdapter(CatalogConfig)


class CatalogConfigs:
    """Fetches the config.json of catalogs.

    Threads that need the same one at the same time share a request. A failure is remembered for a short time; otherwise
    each read would wait for it. Nothing else is remembered.
    """

    def __init__(self, timeout: Timeout, retry_seconds: float = RETRY_SECONDS) -> None:
        self._timeout, self._retry_seconds = timeout, retry_seconds
        self._attempts = SharedAttempts[CatalogConfig]()
        self._failures: dict[str, tuple[float, ResourceFailure]] = {}  # with the time of time.monotonic

    def fetch(self, catalog_url: str) -> CatalogConfig:
        return self._attempts.share(catalog_url, lambda: self._attempt(catalog_url))

    def _attempt(self, catalog_url: str) -> CatalogConfig:
        until, known = self._failures.get(catalog_url, (0.0, None))
        if known and time.monotonic() < until:
            raise copy_failure(known)
        try:
            return fetch_catalog_config(catalog_url, self._timeout)
        except ResourceFailure as failure:
            self._failures[catalog_url] = (time.monotonic() + self._retry_seconds, failure)
            raise


def fetch_catalog_config(catalog_url: str, timeout: Timeout) -> CatalogConfig:

    def get() -> CatalogConfig:
        with StackSession(timeout) as session:
            answer = session.get(f"{catalog_url}/config.json").json()
        return CATALOG_CONFIG.validate_python(answer)

    try:
        return call_stack(get)
    except Unauthorized as refusal:
        raise ResourceExecutionError(
            "The catalog does not allow public access to its config.json.", details=refusal.details
        ) from refusal


class FoundStack(NamedTuple):
    """A stack, and why it cannot be used; None if it can."""

    stack: Stack
    problem: ResourceFailure | None = None


class StackSearch:
    """Finds the stack of one app. A catalog that names a registry of its own is read once.

    Args:
        catalog_url: the catalog in the settings.
        registry_url: the registry in the settings. By default, that in the catalog's config.json.
        actions: what to do if the addresses in the settings do not fit together.
        catalogs: fetches the config.json.
    """

    def __init__(
        self, catalog_url: str | None, registry_url: str | None, actions: Sequence[str], catalogs: CatalogConfigs
    ) -> None:
        self._catalog_url, self._registry_url = catalog_url, registry_url
        self._actions, self._catalogs = actions, catalogs
        self._found: FoundStack | None = None

    def find(self) -> FoundStack:
        """Return the stack.

        Raises:
            ResourceExecutionError: there is none in the settings, and quilt3's file is damaged.
        """
        if self._catalog_url is None:
            return self._find_without_catalog()
        if self._found is None:
            try:
                self._found = self._read_catalog(self._catalog_url)
            except ResourceFailure as problem:
                return FoundStack(Stack(self._catalog_url, self._registry_url), problem)
        return self._found

    def _read_catalog(self, catalog_url: str) -> FoundStack:
        if self._registry_url:  # first, so that the failure is certain even if the catalog does not respond
            _check_fit(Stack(catalog_url, self._registry_url), self._actions)
        config = self._catalogs.fetch(catalog_url)
        registry_url = self._registry_url or (config.get("registryUrl") or "").rstrip("/") or None
        stack = Stack(catalog_url, registry_url, config.get("region"))
        _check_fit(stack, self._actions)
        return FoundStack(stack)

    def _find_without_catalog(self) -> FoundStack:
        stack = quilt_files.read_stack()
        if self._registry_url and self._registry_url != stack.registry_url:
            stack = Stack(None, self._registry_url)  # quilt3 is configured for another catalog
        try:
            _check_fit(stack, ["Run `quilt3 config https://<your catalog>`. It stores the catalog's own registry."])
        except ResourceExecutionError as problem:
            return FoundStack(stack, problem)
        return FoundStack(stack)


def _check_fit(stack: Stack, actions: Sequence[str]) -> None:
    """Check that the registry of a stack can belong to its catalog, and that tokens are encrypted on their way to it.

    Unknown addresses are not checked, and nothing needs encryption that does not leave this machine.

    Raises:
        ResourceExecutionError: no token may be sent there.
    """
    if stack.catalog_url and stack.registry_url and not is_registry_of(stack.registry_url, stack.catalog_url):
        registry, catalog = _show(stack.registry_url), _show(stack.catalog_url)
        raise ResourceExecutionError(
            f"The registry {registry} does not belong to the catalog {catalog}, so no login is sent there.",
            details="the scheme or the domain is another one",
            suggested_actions=actions,
        )
    address = parse_address(stack.registry_url or "")
    if address and address.scheme == "http" and not address.is_loopback:
        raise ResourceExecutionError(
            f"The registry {_show(stack.registry_url or '')} is not encrypted, so no login is sent there.",
            details="http instead of https",
            suggested_actions=["Configure the catalog with its https:// address."],
        )


def _show(url: str) -> str:
    address = parse_address(url)
    return f"{address.scheme}://{address.netloc}" if address else "with an invalid address"
