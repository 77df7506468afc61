"""auth://: who is signed in to which catalog, and where this machine lets Quilt write."""

import os
import shutil
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from quilt_mcp import identity, runtime_context
from quilt_mcp.errors import NotSignedIn, ResourceFailure, Unavailable
from quilt_mcp.services.timestamps import iso

if TYPE_CHECKING:
    from quilt_mcp.caller import Caller, CatalogConfig
    from quilt_mcp.login import Login

CONFIGURE = "Run `quilt3 config https://<your catalog>` in a terminal."
SIGN_IN = "Run `quilt3 login` in a terminal and sign in in the browser."
GIB = 2**30
ANALYTICS_SUFFIX = "-analyticsbucket"

MESSAGES = {
    "not_configured": "No Quilt catalog is configured.",
    "not_authenticated": "A catalog is configured, but nobody is signed in to it.",
    "authenticated": "Signed in.",
    "expired": "The sign-in has ended: the catalog does not accept it any more.",
    "unreachable": "The catalog cannot be reached, so the sign-in cannot be checked.",
}
ACTIONS = {
    "not_configured": [CONFIGURE, SIGN_IN],
    "not_authenticated": [SIGN_IN],
    "authenticated": ["Read permissions://discover to see which buckets you may use."],
    "expired": [SIGN_IN],
    "unreachable": ["Check the network and auth://catalog/info, then try again."],
}
WITHOUT_SIGN_IN = ("not_configured", "not_authenticated", "expired")


def auth_status() -> dict[str, Any]:
    """Whether you are signed in to a Quilt catalog, to which, as whom, and until when.

    `status` is one of not_configured, not_authenticated, authenticated, expired, unreachable. `user_info` is what the
    registry says of you (username, email, is_admin, role, roles), null unless authenticated. `credentials` tells where
    the sign-in and the AWS credentials come from and when they expire; both renew themselves. Makes one call if a
    sign-in is stored, else none.

    Of a caller who signs in to this server, the sign-in to Quilt is the token that its request brings: `source` is then
    "request", and when it expires is not known here, and null.
    """
    caller = runtime_context.caller()
    status, user = _sign_in_state(caller)
    login = caller.login  # read after the call, which may have renewed it
    expires = None if login.expires_at is None else datetime.fromtimestamp(login.expires_at, UTC)
    return {
        "status": status,
        "authenticated": status == "authenticated",
        "message": MESSAGES[status],
        "catalog_url": login.stack.catalog_url,
        "catalog_name": _host(login.stack.catalog_url),
        "registry_url": login.stack.registry_url,
        "user_info": user,
        "credentials": {
            "source": login.source if login.signed_in else None,
            "token_expires_at": iso(expires),
            "aws_source": _aws_source(login),
            "aws_expires_at": iso(login.aws_keys.expiry_time) if login.aws_keys else None,
        },
        "suggested_actions": _advice(caller, status),
    }


def _aws_source(login: "Login") -> str | None:
    if login.signed_in:
        return "quilt"
    return "aws_default_chain" if login.source == "login" else None


def _advice(caller: "Caller", status: str) -> list[str]:
    """What to do next; `quilt3 login` in a terminal helps nobody who is not at this machine."""
    return list(caller.advice) if caller.advice and status in WITHOUT_SIGN_IN else ACTIONS[status]


def _sign_in_state(caller: "Caller") -> tuple[str, dict[str, Any] | None]:
    if caller.login.stack.registry_url is None:
        return "not_configured", None
    if not caller.login.signed_in:
        return "not_authenticated", None
    try:
        me = caller.me()
    except NotSignedIn:
        return "expired", None
    except Unavailable:
        return "unreachable", None
    if me is None:
        return "expired", None
    return "authenticated", {
        "username": me["name"],
        "email": me["email"],
        "is_admin": me["isAdmin"],
        "role": me["role"]["name"] if me["role"] else None,
        "roles": sorted(role["name"] for role in me["roles"]),
    }


def catalog_info() -> dict[str, Any]:
    """The configured Quilt catalog: addresses, AWS region, stack version, tabulator catalog; any sign-in, unchecked.

    Read from quilt3's configuration and from the catalog's public config.json; `config_json` tells whether that could
    be read. `is_authenticated` says whether a sign-in is stored, or sent with the request; auth://status checks it.
    What is not known is null. Makes one call if a catalog is configured, else none.
    """
    caller = runtime_context.caller()
    login, stack = caller.login, caller.login.stack
    public, state = _public_config(caller)
    analytics_bucket = public.get("analyticsBucket")
    return {
        "catalog_name": _host(stack.catalog_url),
        "detection_method": _detection_method(login),
        "is_authenticated": login.signed_in,
        "navigator_url": stack.catalog_url,
        "registry_url": stack.registry_url or public.get("registryUrl"),
        "region": stack.region or public.get("region"),
        "s3_proxy_url": public.get("s3Proxy"),
        "service_bucket": public.get("serviceBucket"),
        "analytics_bucket": analytics_bucket,
        "stack_version": public.get("stackVersion"),
        "stack_prefix": _stack_prefix(analytics_bucket),
        "tabulator_data_catalog": tabulator_data_catalog(analytics_bucket),
        "config_json": state,
    }


def _public_config(caller: "Caller") -> tuple["CatalogConfig", str]:
    if caller.login.stack.catalog_url is None:
        return {}, "not_configured"
    try:
        return caller.catalog_config(), "read"
    except ResourceFailure as failure:
        return {}, f"unavailable: {failure.message}"


def _detection_method(login: "Login") -> str:
    if login.stack.catalog_url is None:
        return "registry_config" if login.stack.registry_url else "unknown"
    return "authentication" if login.signed_in else "navigator_config"


def _stack_prefix(analytics_bucket: str | None) -> str | None:
    """The name that all of a stack's resources begin with: its analytics bucket's, up to a fixed word."""
    prefix, found, _ = (analytics_bucket or "").lower().partition(ANALYTICS_SUFFIX)
    return prefix if found and prefix else None


def tabulator_data_catalog(analytics_bucket: str | None) -> str | None:
    """The name of the Athena data catalog of a stack's tabulator tables; None for a stack without a known prefix."""
    prefix = _stack_prefix(analytics_bucket)
    return f"quilt-{prefix}-tabulator" if prefix else None


def _host(url: str | None) -> str | None:
    host = urlsplit(url or "").hostname
    return host.removeprefix("www.") if host else None


def filesystem_status() -> dict[str, Any]:
    """Whether this server can write where Quilt and its workflows need it, and how much space is free there.

    For each directory: `path`, `exists`, `writable` (tried with a nameless temporary file that leaves nothing behind;
    in the nearest existing parent if the directory does not exist yet), `free_gib` (whole GiB) and `error`. `status` is
    full_access, limited_access or read_only.

    A caller who signs in to this server is told of the directory of the workflows alone, without its path and its free
    space: the others serve the person at this machine, and how it is laid out is nobody else's business.
    """
    is_local = identity.current().is_local
    directories = {name: _probe(path) for name, path in _directories().items() if is_local or name == "workflows"}
    if not is_local:
        directories["workflows"] |= {"path": None, "free_gib": None}
    writable = [one["writable"] for one in directories.values()]
    status = "full_access" if all(writable) else "limited_access" if any(writable) else "read_only"
    return {"status": status, "directories": directories}


def _directories() -> dict[str, Path]:
    paths = runtime_context.quilt_paths()
    return {
        "quilt_data": paths.data,
        "quilt_cache": paths.cache,
        "workflows": runtime_context.settings().data_dir,
        "temporary": Path(tempfile.gettempdir()),
        "current": Path(),
    }


def _probe(path: Path) -> dict[str, Any]:
    row: dict[str, Any] = {"path": "", "exists": False, "writable": False, "free_gib": None, "error": None}
    try:
        # fails if the current directory was deleted; a name that is no UTF-8 is shown with escapes
        row["path"] = os.fsencode(path.absolute()).decode("utf-8", "backslashreplace")
        row["exists"] = path.is_dir()
        parent = next(one for one in (path.absolute(), *path.absolute().parents) if one.exists())
        row["free_gib"] = shutil.disk_usage(parent).free // GIB
        with tempfile.TemporaryFile(dir=parent):
            row["writable"] = True
    except OSError as error:
        row["error"] = f"{type(error).__name__}: {error.strerror}"
    return row
