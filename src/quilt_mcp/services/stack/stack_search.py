"""Which stack a caller uses: that of the settings, or the one that quilt3 is configured for.

Imported on first use by `callers.py`, because it imports quilt3 and requests.
"""

import time
from collections.abc import Sequence
from typing import NamedTuple

from quilt_mcp.core.errors import ResourceExecutionError, ResourceFailure
from quilt_mcp.services.settings import RETRY_SECONDS, Timeout
from quilt_mcp.services.stack import quilt_files
from quilt_mcp.services.stack.addresses import is_registry_of, parse_address
from quilt_mcp.services.stack.catalog_config import fetch_catalog_config
from quilt_mcp.services.stack.login import Stack
from quilt_mcp.services.stack.shared_attempts import SharedAttempts


class Found(NamedTuple):
    """A stack, and why it cannot be used; None if it can."""

    stack: Stack
    problem: ResourceFailure | None = None


class StackSearch:
    """Finds the stack of one app.

    A catalog's config.json is read once; after a failure again, but not at once. Reads that need it at the same time
    share one request.

    Args:
        catalog_url: the catalog in the settings.
        registry_url: the registry in the settings. By default, that in the catalog's config.json.
        actions: what to do if the addresses in the settings do not fit together.
        timeout: the time limits of a request.
        retry_seconds: how long a failure is remembered.
    """

    def __init__(
        self,
        catalog_url: str | None,
        registry_url: str | None,
        actions: Sequence[str],
        timeout: Timeout,
        *,
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        self._catalog_url, self._registry_url = catalog_url, registry_url
        self._actions, self._timeout, self._retry_seconds = actions, timeout, retry_seconds
        self._found: Found | None = None
        self._retry_at = 0.0  # of time.monotonic
        self._attempts = SharedAttempts[Found]()

    def find(self) -> Found:
        """Return the stack.

        Raises:
            ResourceExecutionError: there is none in the settings, and quilt3's file is damaged.
        """
        if self._catalog_url is None:
            return self._find_without_catalog()
        catalog_url = self._catalog_url
        return self._get_found() or self._attempts.share(catalog_url, lambda: self._keep_found(catalog_url))

    def _get_found(self) -> Found | None:
        """Return what is known; None if the catalog must be asked."""
        found = self._found
        is_over = found is not None and found.problem is not None and time.monotonic() >= self._retry_at
        return None if is_over else found

    def _keep_found(self, catalog_url: str) -> Found:
        if found := self._get_found():  # another thread has asked since this one looked
            return found
        try:
            found = self._read_catalog(catalog_url)
        except ResourceFailure as problem:
            found = Found(Stack(catalog_url, self._registry_url), problem)
            self._retry_at = time.monotonic() + self._retry_seconds  # before the failure is seen
        self._found = found
        return found

    def _read_catalog(self, catalog_url: str) -> Found:
        if self._registry_url:  # first, so that the failure is certain even if the catalog does not respond
            _check_fit(Stack(catalog_url, self._registry_url), self._actions)
        config = fetch_catalog_config(catalog_url, self._timeout)
        registry_url = self._registry_url or (config.get("registryUrl") or "").rstrip("/") or None
        stack = Stack(catalog_url, registry_url, config.get("region"))
        _check_fit(stack, self._actions)
        return Found(stack)

    def _find_without_catalog(self) -> Found:
        stack = quilt_files.read_stack()
        if self._registry_url and self._registry_url != stack.registry_url:
            stack = Stack(None, self._registry_url)
        try:
            _check_fit(stack, ["Run `quilt3 config https://<your catalog>`. It stores the catalog's own registry."])
        except ResourceExecutionError as problem:
            return Found(stack, problem)
        return Found(stack)


def _check_fit(stack: Stack, actions: Sequence[str]) -> None:
    """Check that the registry of a stack is encrypted and can belong to its catalog. Unknown addresses are not checked.

    Raises:
        ResourceExecutionError: it cannot. No token may be sent there.
    """
    if stack.catalog_url and stack.registry_url and not is_registry_of(stack.registry_url, stack.catalog_url):
        registry, catalog = _show(stack.registry_url), _show(stack.catalog_url)
        raise ResourceExecutionError(
            f"The registry {registry} does not belong to the catalog {catalog}, so no login is sent there.",
            details="the scheme or the domain is another one",
            suggested_actions=actions,
        )
    _check_encrypted(stack)


def _check_encrypted(stack: Stack) -> None:
    """Check that the caller's token is encrypted on its way to the registry, or does not leave this machine.

    Raises:
        ResourceExecutionError: it would not be.
    """
    address = parse_address(stack.registry_url or "")
    if address and address.scheme == "http" and not address.is_loopback:
        raise ResourceExecutionError(
            f"The registry {_show(stack.registry_url or '')} is not encrypted, so no login is sent there.",
            details="http instead of https",
            suggested_actions=["Configure the catalog with its https:// address."],
        )


def _show(url: str) -> str:
    """Return the scheme, host and port of an address; nothing else, which can contain secrets."""
    address = parse_address(url)
    return f"{address.scheme}://{address.netloc}" if address else "with an invalid address"
