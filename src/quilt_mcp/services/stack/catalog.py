"""The catalog's config.json, and the stack that it names.

Imported on first use by `callers.py`, because it imports requests.
"""

import time
from collections.abc import Sequence
from typing import Annotated, NamedTuple

from pydantic import AfterValidator, TypeAdapter
from typing_extensions import TypedDict

from quilt_mcp.core.errors import ResourceExecutionError, ResourceFailure, Unauthorized
from quilt_mcp.services.settings import RETRY_SECONDS, Timeout
from quilt_mcp.services.stack import quilt_files
from quilt_mcp.services.stack.addresses import is_registry_of, parse_address
from quilt_mcp.services.stack.login import Stack
from quilt_mcp.services.stack.session import StackSession, call_stack
from quilt_mcp.services.stack.shared_attempts import SharedAttempts, copy_failure

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
            check_fit(Stack(catalog_url, self._registry_url), self._actions)
        config = self._catalogs.fetch(catalog_url)
        registry_url = self._registry_url or (config.get("registryUrl") or "").rstrip("/") or None
        stack = Stack(catalog_url, registry_url, config.get("region"))
        check_fit(stack, self._actions)
        return FoundStack(stack)

    def _find_without_catalog(self) -> FoundStack:
        stack = quilt_files.read_stack()
        if self._registry_url and self._registry_url != stack.registry_url:
            stack = Stack(None, self._registry_url)  # quilt3 is configured for another catalog
        try:
            check_fit(stack, ["Run `quilt-mcp login https://<your catalog>`. It stores the catalog's own registry."])
        except ResourceExecutionError as problem:
            return FoundStack(stack, problem)
        return FoundStack(stack)


def check_fit(stack: Stack, actions: Sequence[str]) -> None:
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
