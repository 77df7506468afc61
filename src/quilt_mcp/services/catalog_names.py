"""Names that follow from the configuration of a Quilt catalog."""

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from quilt_mcp.core.errors import ResourceFailure

if TYPE_CHECKING:
    from quilt_mcp.services.stack.caller import Caller

ANALYTICS_SUFFIX = "-analyticsbucket"


def get_catalog_name(url: str | None) -> str | None:
    """Return the host name of a catalog, without `www.`."""
    host = urlsplit(url or "").hostname
    return host.removeprefix("www.") if host else None


def get_stack_prefix(analytics_bucket: str | None) -> str | None:
    """Return the prefix of the names of a stack's AWS resources, from its analytics bucket; None if unknown."""
    prefix, found, _ = (analytics_bucket or "").lower().partition(ANALYTICS_SUFFIX)
    return prefix if found and prefix else None


def fetch_stack_prefix(caller: "Caller") -> str | None:
    """Return the same for the caller's stack, from the catalog's public config.json; None if unknown."""
    if caller.login.stack.catalog_url is None:
        return None
    try:
        return get_stack_prefix(caller.fetch_catalog_config().get("analyticsBucket"))
    except ResourceFailure:
        return None


def make_tabulator_catalog(stack_prefix: str) -> str:
    """Return the Athena data catalog of a stack's tabulator tables."""
    return f"quilt-{stack_prefix}-tabulator"
