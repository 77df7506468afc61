"""The callers behind requests over HTTP: each is made of what its request brings, and kept for a short while.

Imported by `runtime_context.py` only, because it imports quilt3 and boto3.
"""

import hmac
import secrets
import threading

from cachetools import TTLCache

from quilt_mcp import login as quilt_login
from quilt_mcp.caller import Caller, fetch_catalog_config, timeout_of
from quilt_mcp.errors import ResourceExecutionError
from quilt_mcp.identity import Identity
from quilt_mcp.login import Stack
from quilt_mcp.request_sign_in import ASK_OPERATOR, RequestSignIn
from quilt_mcp.settings import Settings

MOST = 256
SECONDS = 300.0
"""How long a caller's clients are kept, and with them AWS credentials that its token has been exchanged for."""


class RequestCallers:
    """The callers of one set of settings. What is kept belongs to one identity with one token at one stack."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._callers: TTLCache[bytes, Caller] = TTLCache(MOST, SECONDS)
        self._secret = secrets.token_bytes(32)  # the keys are then of no use to anyone who sees them
        self._lock = threading.Lock()
        self._stack: Stack | None = None
        self._stack_lock = threading.Lock()

    def get(self, who: Identity, token: str | None) -> Caller:
        """The caller with this identity and Quilt token.

        Raises:
            ResourceFailure: the server's own stack is not known.
        """
        stack = self._configured_stack()
        key = self._key(who.key, token or "", stack.registry_url or "")
        with self._lock:
            caller = self._callers.get(key)
            if caller is None or caller.is_stale():
                sign_in = RequestSignIn(stack, token, self._settings.quilt_token_header, timeout_of(self._settings))
                caller = self._callers[key] = Caller(sign_in, self._settings)
            return caller

    def _key(self, *parts: str) -> bytes:
        key = hmac.new(self._secret, digestmod="sha256")
        for part in parts:
            encoded = part.encode(errors="surrogatepass")
            key.update(len(encoded).to_bytes(8, "big") + encoded)
        return key.digest()

    def _configured_stack(self) -> Stack:
        catalog_url = self._settings.catalog_url
        if catalog_url is None:
            return _stack_of_this_machine()
        with self._stack_lock:
            if self._stack is None:
                config = fetch_catalog_config(catalog_url, timeout_of(self._settings))
                registry_url = (config.get("registryUrl") or "").rstrip("/") or None
                self._stack = Stack(catalog_url, registry_url, config.get("region"))
            return self._stack


def _stack_of_this_machine() -> Stack:
    try:
        return quilt_login.read_stack()
    except ResourceExecutionError as failure:
        raise ResourceExecutionError(  # without the file's path, which is not for others
            "The Quilt stack of this server is not known.", suggested_actions=[ASK_OPERATOR]
        ) from failure
