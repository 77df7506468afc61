"""The callers of one app: for each read, the identity with which it calls Quilt and AWS.

The first read that needs them imports the modules that import quilt3, boto3 and requests, so that a server starts
without them.
"""

import threading
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from quilt_mcp.app import current_app, identity
from quilt_mcp.services.settings import RETRY_SECONDS, StackSettings

if TYPE_CHECKING:
    from quilt_mcp.services.stack.caller import Caller, LocalCallers, RequestCallers
    from quilt_mcp.services.stack.quilt_files import QuiltPaths


class Callers:
    """The local caller, and the callers of HTTP requests."""

    def __init__(self, settings: StackSettings, *, retry_seconds: float = RETRY_SECONDS) -> None:
        self._settings, self._retry_seconds = settings, retry_seconds
        self._opened: dict[str, Any] = {}
        self._lock = threading.Lock()

    def current(self) -> "Caller":
        """Return the caller of the current read.

        Over stdio, and over HTTP without authentication, this is the user of the API key on this machine, else the
        user in quilt3's files. It is the same object as long as these do not change. For an authenticated HTTP request
        it is the request's identity with the Quilt token of the request; the API key, quilt3's login and the AWS
        credentials of this machine are not used.

        This reads files and can send a request to the catalog, so do not call it on the event loop. Call it once per
        read, so that the whole read uses one identity.

        Raises:
            NotSignedIn: as `identity.current`. A missing or expired token, and a stack that cannot be used, are only
                reported when they are used.
            ResourceExecutionError: quilt3's files are damaged.
        """
        who = identity.current()
        if who.is_local:
            local: LocalCallers = self._open("LocalCallers")
            return local.get()
        requests: RequestCallers = self._open("RequestCallers")
        return requests.get(who, identity.header_token(self._settings.quilt_token_header))

    def check_catalog(self) -> None:
        """Read the catalog's public config.json without credentials. Does nothing if no catalog is configured."""
        files, settings = import_module("quilt_mcp.services.stack.quilt_files"), self._settings
        if url := settings.catalog_url or settings.local_catalog_url or files.read_stack().catalog_url:
            import_module("quilt_mcp.services.stack.catalog").fetch_catalog_config(url, self._settings.timeout)

    async def close(self) -> None:
        with self._lock:
            self._opened.clear()

    def _open(self, kind: str) -> Any:
        with self._lock:
            if kind not in self._opened:
                cls = getattr(import_module("quilt_mcp.services.stack.caller"), kind)
                self._opened[kind] = cls(self._settings, retry_seconds=self._retry_seconds)
            return self._opened[kind]


def current_caller() -> "Caller":
    """Return the caller of the current read; see `Callers.current`."""
    return current_app().part(Callers).current()


def find_quilt_paths() -> "QuiltPaths":
    return cast("QuiltPaths", import_module("quilt_mcp.services.stack.quilt_files").find_paths())
