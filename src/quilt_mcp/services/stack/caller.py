"""The caller: a login to a Quilt stack, and AWS in the caller's name.

Imported on first use by `callers.py`, because it imports quilt3 and boto3.
"""

import math
import threading
import time
import weakref
from collections.abc import Callable, Hashable, Sequence
from datetime import datetime
from typing import TypeVar

import boto3

from quilt_mcp.core.errors import ResourceFailure
from quilt_mcp.services.settings import StackSettings
from quilt_mcp.services.stack.aws_clients import AWSClients, InUse
from quilt_mcp.services.stack.catalog_config import CatalogConfig, CatalogConfigs
from quilt_mcp.services.stack.credentials import AWSKeys, IssuedCredentials
from quilt_mcp.services.stack.errors import (
    NeedsAdmin,
    NoRole,
    QueryRefused,
    RefusedByStack,
    RequestRejected,
    RoleChanged,
)
from quilt_mcp.services.stack.graphql import PartialAnswer, StackQueries, create_client, post_query
from quilt_mcp.services.stack.login import Login, Stack
from quilt_mcp.services.stack.machine_aws import take_aws_fingerprint
from quilt_mcp.services.stack.shared_attempts import SharedAttempts
from quilt_mcp.services.stack.sign_in import SignIn
from quilt_mcp.services.stack.standing import Standing, fetch_standing

UNKNOWN_SECONDS = 60.0
"""How long AWS credentials are kept for a caller if the stack does not say the role."""

T = TypeVar("T")


class Caller:
    """One login, and AWS in its name. It is thread-safe.

    The login is closed when neither this object nor one of its AWSClients is referenced any more.
    """

    def __init__(self, sign_in: SignIn, settings: StackSettings, catalogs: CatalogConfigs | None = None) -> None:
        self._sign_in = sign_in
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
        """The current stack and login. A request can renew them."""
        return self._sign_in.login

    @property
    def advice(self) -> Sequence[str]:
        """What this caller can do to sign in; empty for the local user."""
        return self._sign_in.advice

    @property
    def problem(self) -> ResourceFailure | None:
        """Why the stack cannot be used, such as addresses that do not fit together; None if nothing is known."""
        return self._sign_in.problem

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
        if self._sign_in.uses_machine_credentials:
            return self._keep_aws(take_aws_fingerprint(), math.inf, self._open_machine_aws)
        try:
            return self.open_aws(self.fetch_standing())
        except RoleChanged:
            return self.open_aws(self.fetch_standing())

    def find_aws_expiry(self, standing: Standing | None) -> datetime | None:
        """Return when the AWS credentials in use expire.

        Args:
            standing: what the stack has just said about the caller; None if it said nothing.

        Returns:
            None if it is unknown, if there are no credentials yet, or if they are not those of this standing.
        """
        with self._lock:
            aws = self._aws if standing and self._aws_owner == standing.identity else None
        return aws.expires_at if aws else None

    def open_aws(self, standing: Standing) -> AWSClients:
        """Return AWS as the user and role in a standing that this caller has just fetched.

        Raises:
            RoleChanged: the role is another one now.
            ResourceFailure: the stack issued no credentials.
        """
        seconds = UNKNOWN_SECONDS if standing.role is None else math.inf
        return self._keep_aws(standing.identity, seconds, lambda: self._open_stack_aws(standing))

    def fetch_standing(self) -> Standing:
        """Ask the stack who the caller is.

        Raises:
            NotSignedIn: there is no login, or the stack does not know the caller.
            QueryRefused: as `standing.fetch_standing`.
            ResourceFailure: as `SignIn.send`.
        """
        return fetch_standing(self._sign_in)

    def is_stale(self) -> bool:
        """Return whether the login has changed or ended."""
        return self._sign_in.is_stale()

    def query_stack(self, query: Callable[[StackQueries], T]) -> T:
        """Send one of quilt3's queries, such as `lambda stack: stack.roles_list()`, and return its result.

        Raises:
            QueryRefused: the stack returned errors.
            ResourceFailure: as `SignIn.send`.
        """
        return self._sign_in.send(lambda session: query(create_client(self._registry_url, session)))

    def query_as_admin(self, query: Callable[[StackQueries], T], what: str) -> T:
        """Send one of quilt3's queries that only administrators may send, and return its result.

        Raises:
            NeedsAdmin: the stack rejected the query, and the caller is not an administrator.
            QueryRefused: the stack rejected the query of an administrator, or does not say who the caller is.
        """
        try:
            return self.query_stack(query)
        except QueryRefused as refusal:
            try:
                standing = self.fetch_standing()
            except ResourceFailure:
                raise refusal from None  # the failure of this question must not hide the refusal
            if standing.is_admin is not False:
                raise
            details = f"{standing.name} is not an administrator"
            raise NeedsAdmin(f"Only administrators may read {what}.", details=details) from None

    def send_query(self, operation: str, query: str, form: type[T], **variables: object) -> T:
        """Send a query that quilt3 does not have, and return its complete `data`, validated as `form`.

        Raises:
            QueryRefused: the stack returned errors, with or without data.
            ResourceFailure: as `SignIn.send`.
        """
        answer = self.send_partial_query(operation, query, form, **variables)
        if answer.data is None or answer.error_paths:
            raise answer.refusal
        return answer.data

    def send_partial_query(self, operation: str, query: str, form: type[T], **variables: object) -> PartialAnswer[T]:
        """Send a query that quilt3 does not have, and return what the stack returned: data, errors, or both.

        Raises:
            ResourceFailure: as `SignIn.send`.
        """
        url = self._registry_url
        return self._sign_in.send(lambda session: post_query(url, session, operation, query, form, **variables))

    def fetch_catalog_config(self) -> CatalogConfig:
        """Fetch the catalog's public config.json, without the caller's token."""
        return self._catalogs.fetch(str(self.login.stack.catalog_url))

    @property
    def _registry_url(self) -> str:
        return str(self.login.stack.registry_url)

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

    def _open_machine_aws(self) -> AWSClients:
        return AWSClients(boto3.Session(), self._settings, self._sign_in, self._in_use)

    def _open_stack_aws(self, standing: Standing) -> AWSClients:
        sign_in = self._sign_in  # the credentials live as long as the clients, and must not keep this object

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
    """Return the region of a stack. Older versions of quilt3 do not store it.

    Raises:
        ResourceFailure: the catalog cannot be read.
    """
    if stack.region or stack.catalog_url is None:
        return stack.region
    return catalogs.fetch(stack.catalog_url).get("region")
