"""The callers of HTTP requests. Each is created from its request and kept for a short time.

Imported on first use by `callers.py`, because it imports quilt3 and boto3.
"""

import hmac
import secrets
import threading

from cachetools import TTLCache

from quilt_mcp.app.identity import Identity
from quilt_mcp.core.errors import ResourceExecutionError
from quilt_mcp.services.settings import RETRY_SECONDS, StackSettings
from quilt_mcp.services.stack.caller import Caller
from quilt_mcp.services.stack.catalog_config import CatalogConfigs
from quilt_mcp.services.stack.stack_search import Found, StackSearch
from quilt_mcp.services.stack.token_sign_in import ASK_OPERATOR, RequestSignIn

FIX_SERVER = (
    "Ask the operator of this server to check QUILT_MCP_CATALOG_URL, and the registryUrl in the catalog's config.json.",
)


class RequestCallers:
    """The callers of one app. Each belongs to one identity with one token at one stack.

    Args:
        settings: of the stack.
        max_callers: how many callers are kept.
        seconds: how long a caller is kept, with its clients and the AWS credentials that its token was exchanged for.
        retry_seconds: how long a failure of the catalog is remembered.
    """

    def __init__(
        self,
        settings: StackSettings,
        *,
        max_callers: int = 256,
        seconds: float = 300.0,
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        self._settings = settings
        self._callers: TTLCache[bytes, Caller] = TTLCache(max_callers, seconds)
        self._secret = secrets.token_bytes(32)  # the keys of the cache do not reveal what they were made from
        self._lock = threading.Lock()
        self._catalogs = CatalogConfigs(settings.timeout, retry_seconds)
        self._search = StackSearch(
            settings.catalog_url, None, FIX_SERVER, settings.timeout, retry_seconds=retry_seconds
        )

    def get(self, who: Identity, token: str | None) -> Caller:
        """Return the caller with this identity and Quilt token.

        Raises:
            ResourceFailure: the stack of this server is unknown.
        """
        stack, problem = self._find_stack()
        key = self._make_key(who.key, token or "", stack.registry_url or "")
        with self._lock:
            caller = self._callers.get(key)
            if caller is None or caller.is_stale():
                sign_in = RequestSignIn(
                    stack, token, self._settings.quilt_token_header, self._settings.timeout, problem
                )
                caller = self._callers[key] = Caller(sign_in, self._settings, self._catalogs)
            return caller

    def _make_key(self, *parts: str) -> bytes:
        key = hmac.new(self._secret, digestmod="sha256")
        for part in parts:
            encoded = part.encode(errors="surrogatepass")
            key.update(len(encoded).to_bytes(8, "big") + encoded)
        return key.digest()

    def _find_stack(self) -> Found:
        try:
            stack, problem = self._search.find()
        except ResourceExecutionError as failure:
            raise ResourceExecutionError(  # without the path of the file, which remote callers must not see
                "The Quilt catalog of this server is unknown.", suggested_actions=[ASK_OPERATOR]
            ) from failure
        if problem and self._settings.catalog_url is None:  # remote callers cannot configure quilt3 on this machine
            problem.suggested_actions = [ASK_OPERATOR]
        return Found(stack, problem)
