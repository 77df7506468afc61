"""The public configuration of a catalog.

Imported on first use by `callers.py`, because it imports requests.
"""

import time
from functools import cache

from pydantic import TypeAdapter
from typing_extensions import TypedDict  # pydantic needs it before Python 3.12

from quilt_mcp.core.errors import ResourceExecutionError, ResourceFailure, Unauthorized
from quilt_mcp.services.settings import RETRY_SECONDS, Timeout
from quilt_mcp.services.stack.session import call_stack, open_session
from quilt_mcp.services.stack.shared_attempts import SharedAttempts, copy_failure


class CatalogConfig(TypedDict, total=False):
    """The part of a catalog's config.json that this server reads."""

    registryUrl: str | None
    region: str | None
    s3Proxy: str | None
    serviceBucket: str | None
    analyticsBucket: str | None
    stackVersion: str | None


class CatalogConfigs:
    """Fetches the config.json of catalogs.

    Threads that need the same one at the same time share a request. A failure is remembered for a short time; otherwise
    each read would wait for it. Nothing else is remembered.

    Args:
        timeout: the time limits of a request.
        retry_seconds: how long a failure is remembered.
    """

    def __init__(self, timeout: Timeout, retry_seconds: float = RETRY_SECONDS) -> None:
        self._timeout, self._retry_seconds = timeout, retry_seconds
        self._attempts = SharedAttempts[CatalogConfig]()
        self._failures: dict[str, tuple[float, ResourceFailure]] = {}  # with the time of time.monotonic

    def fetch(self, catalog_url: str) -> CatalogConfig:
        """Fetch a catalog's config.json.

        Raises:
            ResourceFailure: as `fetch_catalog_config`, now or a short time ago.
        """
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
    """Fetch a catalog's public config.json, without a token.

    Raises:
        ResourceFailure: as `call_stack`, but never an Unauthorized.
    """

    def get() -> CatalogConfig:
        with open_session(timeout) as session:
            answer = session.get(f"{catalog_url}/config.json").json()
        return _create_adapter().validate_python(answer)

    try:
        return call_stack(get)
    except Unauthorized as refusal:
        raise ResourceExecutionError(
            "The catalog does not allow public access to its config.json.", details=refusal.details
        ) from refusal


@cache
def _create_adapter() -> TypeAdapter[CatalogConfig]:
    return TypeAdapter(CatalogConfig)
