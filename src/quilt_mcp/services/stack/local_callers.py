"""The caller of the local user: an API key, or quilt3's login.

Imported on first use by `callers.py`, because it imports quilt3 and boto3.
"""

from quilt_mcp.services.settings import RETRY_SECONDS, StackSettings
from quilt_mcp.services.stack import quilt_files
from quilt_mcp.services.stack.caller import Caller
from quilt_mcp.services.stack.catalog_config import CatalogConfigs
from quilt_mcp.services.stack.local_sign_in import LocalSignIn
from quilt_mcp.services.stack.shared_attempts import SharedAttempts
from quilt_mcp.services.stack.sign_in import SignIn
from quilt_mcp.services.stack.stack_search import StackSearch
from quilt_mcp.services.stack.token_sign_in import APIKeySignIn

FIX_VARIABLES = (
    "Set QUILT_CATALOG_URL to your Quilt catalog, and remove QUILT_REGISTRY_URL: the catalog names its registry.",
    "If the catalog itself names another registry, ask a Quilt administrator to correct its config.json.",
)


class LocalCallers:
    """The local caller of one app. It is replaced when quilt3's files or its API key change.

    Args:
        settings: of the stack.
        retry_seconds: how long a failure of the catalog is remembered.
    """

    def __init__(self, settings: StackSettings, *, retry_seconds: float = RETRY_SECONDS) -> None:
        self._settings = settings
        self._catalogs = CatalogConfigs(settings.timeout, retry_seconds)
        self._search = StackSearch(
            settings.local_catalog_url,
            settings.local_registry_url,
            FIX_VARIABLES,
            settings.timeout,
            retry_seconds=retry_seconds,
        )
        self._caller: Caller | None = None
        self._attempts = SharedAttempts[Caller]()

    def get(self) -> Caller:
        """Return the caller.

        Raises:
            ResourceExecutionError: quilt3's files are damaged.
        """
        if (caller := self._get_usable()) is not None:
            return caller
        fingerprint = quilt_files.take_fingerprint()  # before reading, so that a change while reading is noticed
        return self._attempts.share(fingerprint, lambda: self._keep_caller(fingerprint))

    def _get_usable(self) -> Caller | None:
        caller = self._caller
        return None if caller is None or caller.is_stale() else caller

    def _keep_caller(self, fingerprint: quilt_files.Fingerprint) -> Caller:
        caller = self._get_usable()  # another thread can have created it since this one looked
        if caller is None:
            caller = self._caller = Caller(self._create_sign_in(fingerprint), self._settings, self._catalogs)
        return caller

    def _create_sign_in(self, fingerprint: quilt_files.Fingerprint) -> SignIn:
        stack, problem = self._search.find()
        given = self._settings.api_key
        if key := quilt_files.find_api_key() or (given.get_secret_value().strip() if given else None):
            return APIKeySignIn(
                stack, key, self._settings.timeout, lambda: fingerprint != quilt_files.take_fingerprint(), problem
            )
        return LocalSignIn(stack, fingerprint, self._settings.timeout, problem)
