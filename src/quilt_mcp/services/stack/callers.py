"""The callers of one app: for each read, the identity with which it calls Quilt and AWS.

The first read that needs them imports the modules that import quilt3, boto3 and requests, so that a server starts
without them.
"""

import threading
from importlib import import_module
from typing import TYPE_CHECKING, cast

from quilt_mcp.app import current_app, identity
from quilt_mcp.services.settings import RETRY_SECONDS, StackSettings

if TYPE_CHECKING:
    from quilt_mcp.services.stack.caller import Caller, LocalCallers, RequestCallers
    from quilt_mcp.services.stack.login import QuiltPaths


class Callers:
    """The local caller, and the callers of HTTP requests.

    Args:
        settings: of the stack.
        retry_seconds: how long a failure of the catalog is remembered.
    """

    def __init__(self, settings: StackSettings, *, retry_seconds: float = RETRY_SECONDS) -> None:
        self._settings, self._retry_seconds = settings, retry_seconds
        self._local: LocalCallers | None = None
        self._requests: RequestCallers | None = None
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
            return self._open_local().get()
        return self._open_requests().get(who, identity.header_token(self._settings.quilt_token_header))

    def check_catalog(self) -> None:
        """Read the catalog's public config.json without credentials. Does nothing if no catalog is configured.

        Raises:
            ResourceFailure: the catalog does not respond, or quilt3's files are damaged.
        """
        files, settings = import_module("quilt_mcp.services.stack.login"), self._settings
        if url := settings.catalog_url or settings.local_catalog_url or files.read_stack().catalog_url:
            import_module("quilt_mcp.services.stack.session").fetch_catalog_config(url, self._settings.timeout)

    async def close(self) -> None:
        """Drop all clients. The next read creates new ones."""
        with self._lock:
            self._local = self._requests = None

    def _open_local(self) -> "LocalCallers":
        with self._lock:
            if self._local is None:
                module = import_module("quilt_mcp.services.stack.caller")
                callers = module.LocalCallers(self._settings, retry_seconds=self._retry_seconds)
                self._local = cast("LocalCallers", callers)
            return self._local

    def _open_requests(self) -> "RequestCallers":
        with self._lock:
            if self._requests is None:
                module = import_module("quilt_mcp.services.stack.caller")
                callers = module.RequestCallers(self._settings, retry_seconds=self._retry_seconds)
                self._requests = cast("RequestCallers", callers)
            return self._requests


def current_caller() -> "Caller":
    """Return the caller of the current read; see `Callers.current`."""
    return current_app().part(Callers).current()


def find_quilt_paths() -> "QuiltPaths":
    """Return the directories in which quilt3 keeps its files."""
    return cast("QuiltPaths", import_module("quilt_mcp.services.stack.login").find_paths())
