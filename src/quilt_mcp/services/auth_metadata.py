"""auth://: the login, the catalog and the local directories. Promised to Python callers."""

import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from typing_extensions import TypedDict

from quilt_mcp.app import current_app, identity
from quilt_mcp.core.answers import iso
from quilt_mcp.core.errors import NotSignedIn, ResourceExecutionError, ResourceFailure, Unavailable
from quilt_mcp.services.settings import QuiltSettings
from quilt_mcp.services.stack.callers import current_caller, find_quilt_paths
from quilt_mcp.services.stack.failures import RefusedByStack

if TYPE_CHECKING:
    from quilt_mcp.services.stack.caller import Caller, Standing
    from quilt_mcp.services.stack.catalog import CatalogConfig
    from quilt_mcp.services.stack.login import Login

ANALYTICS_SUFFIX = "-analyticsbucket"
GIB = 2**30
PROBE = bytes(4096)
"""The content of the test file. A full file system can still create an empty file."""
CONFIGURE = "Run `quilt-mcp login https://<your catalog>` in a terminal and sign in in the browser."
SIGN_IN = "Run `quilt-mcp login` in a terminal and sign in in the browser."
Status = Literal["not_configured", "not_authenticated", "authenticated", "expired", "refused", "unreachable", "unknown"]
DetectionMethod = Literal["authentication", "navigator_config", "registry_config", "unknown"]
MESSAGES: dict[Status, str] = {
    "not_configured": "No Quilt catalog is configured.",
    "not_authenticated": "A catalog is configured, but there is no login.",
    "authenticated": "Signed in.",
    "expired": "The catalog no longer accepts the login.",
    "refused": "The catalog accepts the login, but does not allow its user to use it.",
    "unreachable": "The catalog cannot be reached, so the login cannot be checked.",
    "unknown": "It is unknown whether the catalog accepts the login.",
}
ACTIONS: dict[Status, Sequence[str]] = {
    "not_configured": (CONFIGURE,),
    "not_authenticated": (SIGN_IN,),
    "authenticated": ("Read permissions://discover to see which buckets you may use.",),
    "expired": (SIGN_IN,),
    "refused": (
        "Ask a Quilt administrator whether your user is active and has a role. A new sign-in does not help.",
        "If there is a firewall or proxy between this server and the catalog, check that it allows the request.",
    ),
    "unreachable": ("Check the network and auth://catalog/info, then repeat the call.",),
}
NO_ME = "The stack does not say who its users are. Stacks older than June 2024 cannot."
WITHOUT_LOGIN: tuple[Status, ...] = ("not_configured", "not_authenticated", "expired")


def get_catalog_name(url: str | None) -> str | None:
    """Return the host of an address; None if it is not valid."""
    try:
        host = urlsplit(url or "").hostname
    except ValueError:
        return None
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
    return f"quilt-{stack_prefix}-tabulator"


class DirectoryStatus(TypedDict):
    """One directory.

    Attributes:
        path: the absolute path; null for remote callers.
        exists: whether it exists.
        writable: whether a file could be created and written in it, or in its nearest existing parent.
        free_gib: free space on its file system, in whole GiB; null if unknown, and for remote callers.
        error: why it is not writable; null if it is.
    """

    path: str | None
    exists: bool
    writable: bool
    free_gib: int | None
    error: str | None


class FilesystemAnswer(TypedDict):
    """The answer of auth://filesystem/status.

    Attributes:
        status: whether all, some or none of the directories are writable.
        directories: by name: quilt_data, quilt_cache, workflows, temporary, current.
    """

    status: Literal["full_access", "limited_access", "read_only"]
    directories: dict[str, DirectoryStatus]


def filesystem_status() -> FilesystemAnswer:
    """Whether Quilt's directories can be written.

    For each directory: `path`, `exists`, `writable` (tested with an unnamed temporary file that leaves nothing behind,
    in the nearest existing parent if the directory does not exist yet), `free_gib` (whole GiB) and `error`. `status` is
    full_access, limited_access or read_only.

    Callers who sign in to this server get the workflows directory only, without its path and its free space. The other
    directories are those of the local user.
    """
    is_local = identity.current().is_local
    directories = {name: _probe(path) for name, path in _list_directories().items() if is_local or name == "workflows"}
    if not is_local:
        directories["workflows"] |= {"path": None, "free_gib": None}
    writable = [one["writable"] for one in directories.values()]
    return {
        "status": "full_access" if all(writable) else "limited_access" if any(writable) else "read_only",
        "directories": directories,
    }


def _list_directories() -> dict[str, Path]:
    paths = find_quilt_paths()
    return {
        "quilt_data": paths.data,
        "quilt_cache": paths.cache,
        "workflows": current_app().settings_as(QuiltSettings).data_dir,
        "temporary": _find_temporary(),
        "current": Path(),
    }


def _find_temporary() -> Path:
    try:
        return Path(tempfile.gettempdir())
    except FileNotFoundError:  # no candidate can be written: the disk can be full
        return Path(os.environ.get("TMPDIR", "/tmp"))  # noqa: S108 - only its state is shown


def _probe(path: Path) -> DirectoryStatus:
    row: DirectoryStatus = {"path": "", "exists": False, "writable": False, "free_gib": None, "error": None}
    try:
        # Fails if the current directory was deleted. A name that is not UTF-8 is shown with escapes.
        row["path"] = os.fsencode(path.absolute()).decode("utf-8", "backslashreplace")
        row["exists"] = path.is_dir()
        parent = next(one for one in (path.absolute(), *path.absolute().parents) if one.exists())
        row["free_gib"] = shutil.disk_usage(parent).free // GIB
        with tempfile.TemporaryFile(dir=parent, buffering=0) as file:
            row["writable"] = file.write(PROBE) == len(PROBE)
            os.fsync(file.fileno())  # some file systems report only here that they are full
    except OSError as error:
        row["error"] = f"{type(error).__name__}: {error.strerror}"
    return row


class UserInfo(TypedDict):
    """The user, as the stack describes them. Unknown values are null.

    Attributes:
        username: the name in Quilt.
        email: the email address.
        is_admin: whether the user is an administrator of the stack.
        role: the name of the current role; null also if there is none.
        roles: the names of all roles of the user, sorted; null also if there is no current role.
    """

    username: str | None
    email: str | None
    is_admin: bool | None
    role: str | None
    roles: list[str] | None


class Credentials(TypedDict):
    """Where the credentials come from, and when they expire.

    Attributes:
        source: quilt3's login on this machine, the HTTP request, or an API key on this machine; null without a login.
        token_expires_at: ISO 8601 in UTC; null if unknown.
        aws_source: the stack, or the AWS configuration of this machine; null if AWS is called with neither.
        aws_expires_at: ISO 8601 in UTC; null if unknown, or if the user or the role has changed since they were issued.
    """

    source: Literal["login", "request", "api_key"] | None
    token_expires_at: str | None
    aws_source: Literal["quilt", "aws_default_chain"] | None
    aws_expires_at: str | None


class AuthStatusAnswer(TypedDict):
    """The answer of auth://status.

    If quilt3's files cannot be read, `status` is "unknown", and all that they would say is null.

    Attributes:
        status: the state of the login.
        authenticated: whether `status` is "authenticated".
        message: the state, for a person.
        details: technical detail on why the login is not checked, or why the user is unknown; null otherwise.
        catalog_url: the address of the catalog; null if none is configured.
        catalog_name: its host name; null if none is configured, or if the address is not valid.
        registry_url: the address of the stack's API; null if none is configured.
        user_info: the user; null unless authenticated, and on a stack that does not describe its users.
        credentials: the sources and expiry of the credentials.
        suggested_actions: what to do next.
    """

    status: Status
    authenticated: bool
    message: str
    details: str | None
    catalog_url: str | None
    catalog_name: str | None
    registry_url: str | None
    user_info: UserInfo | None
    credentials: Credentials
    suggested_actions: list[str]


class CatalogInfoAnswer(TypedDict):
    """The answer of auth://catalog/info. Unknown values are null.

    Attributes:
        catalog_name: the host name of the catalog.
        detection_method: what identified the catalog.
        is_authenticated: whether there is a login, which is not checked.
        catalog_url: the address of the catalog.
        registry_url: the address of the stack's API.
        region: the AWS region of the stack.
        s3_proxy_url: the address of the stack's S3 proxy.
        service_bucket: the name of the service bucket.
        analytics_bucket: the name of the analytics bucket.
        stack_version: the version of the stack.
        stack_prefix: the prefix of the names of the stack's AWS resources.
        tabulator_data_catalog: the Athena data catalog of tabulator tables.
        config_json: "read", "not_configured", or "unavailable: " and the reason.
    """

    catalog_name: str | None
    detection_method: DetectionMethod
    is_authenticated: bool
    catalog_url: str | None
    registry_url: str | None
    region: str | None
    s3_proxy_url: str | None
    service_bucket: str | None
    analytics_bucket: str | None
    stack_version: str | None
    stack_prefix: str | None
    tabulator_data_catalog: str | None
    config_json: str


def auth_status() -> AuthStatusAnswer:
    """Your sign-in: status, user, expiry.

    `status` is one of not_configured, not_authenticated, authenticated, expired, refused, unreachable, unknown; if the
    login could not be checked, `details` gives the reason. `user_info` contains username, email, is_admin, role and
    roles; it is null unless authenticated, and on stacks that are too old to describe their users. `credentials`
    contains the sources of the login and of the AWS credentials, and when they expire; both renew themselves, except
    an API key. Sends one request if there is a login, otherwise none; a second one for a user without a role, and on
    stacks that do not describe their users.

    For callers who sign in to this server, the Quilt login is the token of the request: `source` is then "request", and
    the expiry of the token is unknown and null.
    """
    try:
        caller = current_caller()
    except ResourceExecutionError as failure:  # the files that name the stack and the login are damaged
        return _make_unknown(failure)
    status, standing, problem = _check_login(caller)
    user = _describe_user(standing) if standing and standing.known else None
    login = caller.login  # read after the request, which can renew it
    uses_machine = caller.sign_in.uses_machine_credentials
    return {
        "status": status,
        "authenticated": status == "authenticated",
        "message": MESSAGES[status],
        "details": _describe(problem) if problem else NO_ME if status == "authenticated" and user is None else None,
        "catalog_url": login.stack.catalog_url,
        "catalog_name": get_catalog_name(login.stack.catalog_url),
        "registry_url": login.stack.registry_url,
        "user_info": user,
        "credentials": {
            "source": login.source if login.signed_in else None,
            "token_expires_at": iso(login.expiry),
            "aws_source": "quilt" if login.signed_in else "aws_default_chain" if uses_machine else None,
            "aws_expires_at": iso(caller.find_aws_expiry(standing)),
        },
        "suggested_actions": _suggest_actions(caller, status, problem),
    }


def _make_unknown(problem: ResourceFailure) -> AuthStatusAnswer:
    return {
        "status": "unknown",
        "authenticated": False,
        "message": MESSAGES["unknown"],
        "details": _describe(problem),
        "catalog_url": None,
        "catalog_name": None,
        "registry_url": None,
        "user_info": None,
        "credentials": {"source": None, "token_expires_at": None, "aws_source": None, "aws_expires_at": None},
        "suggested_actions": list(problem.suggested_actions),
    }


def _describe(problem: ResourceFailure) -> str:
    return f"{problem.message} ({problem.details})" if problem.details else problem.message


def _suggest_actions(caller: "Caller", status: Status, problem: ResourceFailure | None) -> list[str]:
    """Return what to do next. Remote callers cannot run `quilt-mcp login` on this machine."""
    if caller.sign_in.advice and status in WITHOUT_LOGIN:
        return list(caller.sign_in.advice)
    return list(ACTIONS.get(status) or (problem.suggested_actions if problem else ()))


def _check_login(caller: "Caller") -> tuple[Status, "Standing | None", ResourceFailure | None]:
    """Return the status, what the stack says about the caller, or why that is unknown: also the caller's problem."""
    if caller.sign_in.problem is None and caller.login.stack.registry_url is None:
        return "not_configured", None, None
    if caller.sign_in.problem is None and not caller.login.signed_in:
        return "not_authenticated", None, None
    try:
        return "authenticated", caller.fetch_standing(), None
    except ResourceFailure as failure:
        return _find_status(failure), None, failure


def _describe_user(standing: "Standing") -> UserInfo:
    return {
        "username": standing.name,
        "email": standing.email,
        "is_admin": standing.is_admin,
        "role": standing.role,
        "roles": None if standing.roles is None else list(standing.roles),
    }


def _find_status(failure: ResourceFailure) -> Status:
    if isinstance(failure, NotSignedIn):
        return "expired"
    if isinstance(failure, RefusedByStack):
        return "refused"
    return "unreachable" if isinstance(failure, Unavailable) else "unknown"


def catalog_info() -> CatalogInfoAnswer:
    """The catalog's addresses and version.

    The answer also has the AWS region, and names the data catalog of tabulator. The values come from quilt3's
    configuration and from the catalog's public config.json. `config_json` is "read" if that could be read, otherwise it
    gives the reason. `is_authenticated` is true if there is a login, which is not checked; auth://status checks it.
    Unknown values are null. Sends one request if a catalog is configured, otherwise none.
    """
    caller = current_caller()
    login, stack = caller.login, caller.login.stack
    public, state = _read_public_config(caller)
    analytics_bucket = public.get("analyticsBucket")
    prefix = get_stack_prefix(analytics_bucket)
    return {
        "catalog_name": get_catalog_name(stack.catalog_url),
        "detection_method": _find_detection_method(login),
        "is_authenticated": login.signed_in,
        "catalog_url": stack.catalog_url,
        "registry_url": stack.registry_url or public.get("registryUrl"),
        "region": stack.region or public.get("region"),
        "s3_proxy_url": public.get("s3Proxy"),
        "service_bucket": public.get("serviceBucket"),
        "analytics_bucket": analytics_bucket,
        "stack_version": public.get("stackVersion"),
        "stack_prefix": prefix,
        "tabulator_data_catalog": make_tabulator_catalog(prefix) if prefix else None,
        "config_json": state,
    }


def _read_public_config(caller: "Caller") -> tuple["CatalogConfig", str]:
    if caller.login.stack.catalog_url is None:
        return {}, "not_configured"
    try:
        return caller.fetch_catalog_config(), "read"
    except ResourceFailure as failure:
        return {}, f"unavailable: {failure.message}"


def _find_detection_method(login: "Login") -> DetectionMethod:
    if login.stack.catalog_url is None:
        return "registry_config" if login.stack.registry_url else "unknown"
    return "authentication" if login.signed_in else "navigator_config"
