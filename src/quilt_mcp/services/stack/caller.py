"""The callers: a login to a Quilt stack and AWS in its name, for the local user and for requests over HTTP.

Imported on first use by `callers.py`, because it imports quilt3 and boto3.
"""

import hashlib
import math
import re
import threading
import time
import weakref
from collections.abc import Callable, Hashable
from datetime import datetime
from typing import NamedTuple, TypeVar

from cachetools import TTLCache

from quilt_mcp.app.identity import Identity
from quilt_mcp.core.errors import ResourceExecutionError, ResourceFailure
from quilt_mcp.services.settings import RETRY_SECONDS, StackSettings
from quilt_mcp.services.stack import quilt_files
from quilt_mcp.services.stack.aws import AWSClients, InUse, IssuedCredentials, open_own_session, take_aws_fingerprint
from quilt_mcp.services.stack.catalog import CatalogConfig, CatalogConfigs, FoundStack, StackSearch
from quilt_mcp.services.stack.catalog_failures import make_unexpected
from quilt_mcp.services.stack.failures import (
    NeedsAdmin,
    NoRole,
    NotSignedInToQuilt,
    QueryRefused,
    RefusedByStack,
    RequestRejected,
    RoleChanged,
)
from quilt_mcp.services.stack.graphql import Named, PartialAnswer, Rows, keep_readable, post_query
from quilt_mcp.services.stack.login import Login, Stack
from quilt_mcp.services.stack.shared_attempts import SharedAttempts
from quilt_mcp.services.stack.sign_in import ASK_OPERATOR, APIKeySignIn, AWSKeys, LocalSignIn, RequestSignIn, SignIn

T = TypeVar("T")
OF_ROW = re.compile(r"([0-9]{1,9})(?:\..*)?", re.DOTALL)
"""The rest of the path of an error in a row of a list."""
UNKNOWN_SECONDS = 60.0
"""How long AWS credentials are kept for a caller if the stack does not say the role."""
FIX_VARIABLES = (
    "Set QUILT_CATALOG_URL to your Quilt catalog, and remove QUILT_REGISTRY_URL: the catalog names its registry.",
    "If the catalog itself names another registry, ask a Quilt administrator to correct its config.json.",
)
FIX_SERVER = (
    "Ask the operator of this server to check QUILT_MCP_CATALOG_URL, and the registryUrl in the catalog's config.json.",
)


class Standing(NamedTuple):
    """The caller, as the stack describes it. Unknown values are None.

    Attributes:
        known: whether the stack describes its callers; false for a stack without `me`.
        role: the name of the current role; None also for a user without a role.
        roles: the names of all roles of the caller, sorted.
    """

    known: bool
    name: str | None = None
    email: str | None = None
    is_admin: bool | None = None
    role: str | None = None
    roles: tuple[str, ...] | None = None

    @property
    def identity(self) -> tuple[bool, str | None, str | None]:
        """What is the same for two standings for which the stack issues the same AWS identity."""
        return self.known, self.name, self.role


class _Me(Named):
    email: str
    is_admin: bool


class _MeWithRoles(_Me):
    role: Named | None
    roles: list[Named] | None


def fetch_standing(sign_in: SignIn) -> Standing:
    """Ask the stack who the caller is."""
    answer = _ask(sign_in, "me", _MeWithRoles, "me")
    if answer.is_not_understood:
        _require_working_queries(sign_in, answer.refusal)
        return Standing(known=False)
    if (me := answer.data) is not None:
        return _make_standing(me, me["role"], me["roles"])
    if answer.error_paths:
        return _fetch_standing_without_role(sign_in)
    raise _unknown_caller()


def _require_working_queries(sign_in: SignIn, refusal: QueryRefused) -> None:
    """Raise the refusal of `me` if the stack refuses other queries too. Then its errors do not concern the schema."""
    answer = _ask(sign_in, "known", str, "known")
    if answer.data is None or answer.error_paths:
        raise refusal


def _fetch_standing_without_role(sign_in: SignIn) -> Standing:
    answer = _ask(sign_in, "meWithoutRole", _Me, "me")
    if (me := answer.data) is not None:
        return _make_standing(me)
    if answer.error_paths:
        raise answer.refusal
    raise _unknown_caller()


def _make_standing(me: _Me, role: Named | None = None, roles: list[Named] | None = None) -> Standing:
    return Standing(
        known=True,
        name=me["name"],
        email=me["email"],
        is_admin=me["is_admin"],
        role=role["name"] if role else None,
        roles=None if roles is None else tuple(sorted(one["name"] for one in roles)),
    )


def _ask(sign_in: SignIn, operation: str, form: type[T], at: str, **variables: object) -> PartialAnswer[T]:
    url = str(sign_in.login.stack.registry_url)
    return sign_in.send(lambda session: post_query(url, session, operation, form, at=at, variables=variables))


def _unknown_caller() -> NotSignedInToQuilt:
    return NotSignedInToQuilt("The Quilt stack does not know the user of this login.")


class Caller:
    """One login, and AWS in its name. It is thread-safe.

    The login is closed when neither this object nor one of its AWSClients is referenced any more.
    """

    def __init__(self, sign_in: SignIn, settings: StackSettings, catalogs: CatalogConfigs | None = None) -> None:
        self.sign_in = sign_in
        self._settings = settings
        self._catalogs = catalogs or CatalogConfigs(sign_in.timeout)
        stack, catalogs = sign_in.login.stack, self._catalogs
        self._in_use = InUse(lambda: _find_region(stack, catalogs))
        weakref.finalize(self._in_use, sign_in.close).atexit = False
        self._lock = threading.Lock()
        self._aws: AWSClients | None = None
        self._aws_owner: Hashable = None
        self._aws_opened = 0.0  # of time.monotonic
        self._attempts = SharedAttempts[AWSClients]()

    @property
    def login(self) -> Login:
        return self.sign_in.login

    @property
    def aws(self) -> AWSClients:
        """AWS as the user and role that the stack reports now. Read it once per read: each access asks the stack.

        The AWS credentials are kept until they expire, or until the user or the role is another one. If the stack
        does not say the role, they are kept for at most a minute, because the role can have changed. Without a login
        to a stack, the local user calls AWS with the AWS configuration of this machine, until that changes.

        Raises:
            RoleChanged: the role changed twice while the credentials were fetched.
            ResourceFailure: as `fetch_standing`, or the stack issued no credentials.
        """
        if self.sign_in.uses_machine_credentials:
            return self._keep_aws(
                take_aws_fingerprint(),
                math.inf,
                lambda: AWSClients(open_own_session(), self._settings, self.sign_in, self._in_use),
            )
        try:
            return self.open_aws(self.fetch_standing())
        except RoleChanged:
            return self.open_aws(self.fetch_standing())

    def find_aws_expiry(self, standing: Standing | None) -> datetime | None:
        """Return when the AWS credentials in use expire.

        Returns:
            None if it is unknown, if there are no credentials yet, or if they are not those of this standing.
        """
        with self._lock:
            aws = self._aws if standing and self._aws_owner == standing.identity else None
        return aws.expires_at if aws else None

    def open_aws(self, standing: Standing) -> AWSClients:
        seconds = UNKNOWN_SECONDS if standing.role is None else math.inf
        return self._keep_aws(standing.identity, seconds, lambda: self._open_stack_aws(standing))

    def fetch_standing(self) -> Standing:
        return fetch_standing(self.sign_in)

    def send_query(self, operation: str, form: type[T], at: str, **variables: object) -> T:
        """Send an operation, and return its complete data.

        Args:
            operation: its name in operations.graphql.
            form: the form of the data, with which they are validated.
            at: where in the data of the response they are, such as "admin.user.list"; "" for all.
            variables: those of the operation.

        Raises:
            QueryRefused: the stack returned errors, with or without data.
            ResourceFailure: as `SignIn.send`.
        """
        found = self.find(operation, form, at, **variables)
        if found is None:
            raise make_unexpected(f"null at {at}")
        return found

    def find(self, operation: str, form: type[T], at: str, **variables: object) -> T | None:
        """Do the same for data that can be null, such as those of a bucket that the stack does not show."""
        answer = self.send_partial_query(operation, form, at, **variables)
        if answer.error_paths:
            raise answer.refusal
        return answer.data

    def send_list_query(self, operation: str, form: type[T], at: str, **variables: object) -> Rows[T]:
        """Send an operation for a list, and return the rows that can be read. `form` is that of a row.

        Raises:
            QueryRefused: the stack returned errors that are not about single rows.
            ResourceFailure: as `send_query`.
        """
        answer = self.send_partial_query(operation, list[object], at, **variables)
        places = {path: OF_ROW.fullmatch(path.removeprefix(f"{at}.")) for path in answer.error_paths}
        if answer.data is None and not places:
            raise make_unexpected(f"null at {at}")
        if answer.data is None or not all(places.values()):
            raise answer.refusal
        failed = {int(place[1]) for place in places.values() if place}
        if answer.data and len(failed) == len(answer.data):
            raise answer.refusal
        return keep_readable(form, answer.data, failed=failed)

    def send_partial_query(self, operation: str, form: type[T], at: str, **variables: object) -> PartialAnswer[T]:
        """Send an operation, and return what the stack returned: data, errors, or both."""
        return _ask(self.sign_in, operation, form, at, **variables)

    def ask_as_admin(self, what: str, ask: Callable[[], T]) -> T:
        """Return the result of `ask`, which sends an operation that only administrators may send.

        Raises:
            NeedsAdmin: the stack rejected the query, and the caller is not an administrator.
            QueryRefused: the stack rejected the query of an administrator, or does not say who the caller is.
        """
        try:
            return ask()
        except QueryRefused as refusal:
            try:
                standing = self.fetch_standing()
            except ResourceFailure:
                raise refusal from None  # the failure of this question must not hide the refusal
            if standing.is_admin is not False:
                raise
            details = f"{standing.name} is not an administrator"
            raise NeedsAdmin(f"Only administrators may read {what}.", details=details) from None

    def fetch_catalog_config(self) -> CatalogConfig:
        return self._catalogs.fetch(str(self.login.stack.catalog_url))

    def _keep_aws(self, owner: Hashable, seconds: float, open_aws: Callable[[], AWSClients]) -> AWSClients:
        """Return the AWSClients in use if they belong to this owner and are not older, otherwise new ones."""
        usable = self._get_usable(owner, seconds)
        return usable or self._attempts.share(owner, lambda: self._open_once(owner, seconds, open_aws))

    def _open_once(self, owner: Hashable, seconds: float, open_aws: Callable[[], AWSClients]) -> AWSClients:
        if aws := self._get_usable(owner, seconds):  # another thread has opened them since this one looked
            return aws
        opened, aws = time.monotonic(), open_aws()
        with self._lock:
            self._aws, self._aws_owner, self._aws_opened = aws, owner, opened
        return aws

    def _get_usable(self, owner: Hashable, seconds: float) -> AWSClients | None:
        """Return the AWSClients in use if they can be used. Otherwise they are not used any more."""
        with self._lock:
            is_over = time.monotonic() >= self._aws_opened + seconds
            if self._aws is None or self._aws.is_rejected or is_over or self._aws_owner != owner:
                self._aws = None  # if new ones cannot be opened, the old ones must not remain
            return self._aws

    def _open_stack_aws(self, standing: Standing) -> AWSClients:
        sign_in = self.sign_in  # the credentials live as long as the clients, and must not keep this object

        def fetch() -> AWSKeys:
            return _fetch_aws_keys(sign_in, standing)

        credentials = IssuedCredentials(fetch(), fetch)
        return AWSClients(credentials.create_session(), self._settings, sign_in, self._in_use, credentials)


def _fetch_aws_keys(sign_in: SignIn, standing: Standing) -> AWSKeys:
    """Fetch the AWS credentials for a standing.

    The stack does not say for which role it issued them. So its report must be the same before and after. Only a user
    who switches the role and switches it back between the two questions would get those of the other role.

    Raises:
        NoRole: the stack issues none, and names no role. Quilt's open registry answered 400 then; what newer ones
            answer is not public.
        RoleChanged: the user or the role is another one now.
        ResourceFailure: as `SignIn.send`.
    """
    try:
        keys = sign_in.fetch_aws_keys()
    except (RefusedByStack, RequestRejected) as failure:
        if standing.known and standing.role is None:
            raise NoRole(failure.details) from failure
        raise
    if fetch_standing(sign_in).identity != standing.identity:
        raise RoleChanged
    return keys


def _find_region(stack: Stack, catalogs: CatalogConfigs) -> str | None:
    """Return the region of a stack. Older versions of quilt3 do not store it."""
    if stack.region or stack.catalog_url is None:
        return stack.region
    return catalogs.fetch(stack.catalog_url).get("region")


class LocalCallers:
    """The local caller of one app. It is replaced when quilt3's files or its API key change."""

    def __init__(self, settings: StackSettings, *, retry_seconds: float = RETRY_SECONDS) -> None:
        self._settings = settings
        self._catalogs = CatalogConfigs(settings.timeout, retry_seconds)
        self._search = StackSearch(
            settings.local_catalog_url, settings.local_registry_url, FIX_VARIABLES, self._catalogs
        )
        self._caller: Caller | None = None
        self._attempts = SharedAttempts[Caller]()

    def get(self) -> Caller:
        if (caller := self._get_usable()) is not None:
            return caller
        fingerprint = quilt_files.take_fingerprint()  # before reading, so that a change while reading is noticed
        return self._attempts.share(fingerprint, lambda: self._keep_caller(fingerprint))

    def _get_usable(self) -> Caller | None:
        caller = self._caller
        return None if caller is None or caller.sign_in.is_stale() else caller

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
        self._lock = threading.Lock()
        self._catalogs = CatalogConfigs(settings.timeout, retry_seconds)
        self._search = StackSearch(settings.catalog_url, registry_url=None, actions=FIX_SERVER, catalogs=self._catalogs)

    def get(self, who: Identity, token: str | None) -> Caller:
        stack, problem = self._find_stack()
        # a hash, so that nothing that shows the cache shows tokens
        key = hashlib.sha256(repr((who.key, token, stack.registry_url)).encode()).digest()
        with self._lock:
            caller = self._callers.get(key)
            if caller is None or caller.sign_in.is_stale():
                sign_in = RequestSignIn(
                    stack, token, self._settings.quilt_token_header, self._settings.timeout, problem
                )
                caller = self._callers[key] = Caller(sign_in, self._settings, self._catalogs)
            return caller

    def _find_stack(self) -> FoundStack:
        try:
            stack, problem = self._search.find()
        except ResourceExecutionError as failure:
            raise ResourceExecutionError(  # without the path of the file, which remote callers must not see
                "The Quilt catalog of this server is unknown.", suggested_actions=[ASK_OPERATOR]
            ) from failure
        if problem and self._settings.catalog_url is None:  # remote callers cannot configure quilt3 on this machine
            problem.suggested_actions = [ASK_OPERATOR]
        return FoundStack(stack, problem)
