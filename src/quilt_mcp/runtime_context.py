"""Who is asking, and with which settings.

This is the one place through which quilt3, boto3, SQLAlchemy, psycopg, limits and redis come in: heavy as they are,
each is imported by the first read that needs it, and the server starts without.
"""

import asyncio
import threading
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, cast
from weakref import WeakKeyDictionary

from quilt_mcp import identity
from quilt_mcp.errors import ResourceExecutionError
from quilt_mcp.settings import Settings

if TYPE_CHECKING:
    from quilt_mcp.caller import Caller
    from quilt_mcp.login import QuiltPaths
    from quilt_mcp.rate_limits import RateLimiter
    from quilt_mcp.request_callers import RequestCallers
    from quilt_mcp.requirements.store import RequirementsStore
    from quilt_mcp.services.workflow_postgres import SharedWorkflows
    from quilt_mcp.shared_state import SharedSignIns

_lock = threading.Lock()
_settings: Settings | None = None
_caller: "Caller | None" = None
_request_callers: "RequestCallers | None" = None
_sign_ins: "SharedSignIns | None" = None
_stores: "WeakKeyDictionary[asyncio.AbstractEventLoop, RequirementsStore]" = WeakKeyDictionary()
_rate_limiters: "WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[Settings, RateLimiter]]" = WeakKeyDictionary()


def settings() -> Settings:
    """The settings in force: those last given to `use_settings`, else the environment's. Takes no lock and no time."""
    global _settings  # noqa: PLW0603 - one process serves one set of settings
    if _settings is None:
        _settings = Settings()
    return _settings


def use_settings(new: Settings) -> None:
    """Put settings into force, and forget every client that was made under the old ones."""
    global _settings, _caller, _request_callers, _sign_ins
    with _lock:
        _settings, _caller, _request_callers, _sign_ins = new, None, None, None


def caller() -> "Caller":
    """Whom the read under way acts for.

    Over stdio, and over HTTP without authentication, it is who quilt3's files describe now; the same object for as long
    as they stay the same. For an identity that the transport has proved it is that identity, with the Quilt token of
    its own that the request brings; quilt3's files, and the AWS credentials of this machine, then play no part.

    Reads files, and may ask the catalog where it is: not for the event loop. A read asks once, so that it acts for one
    identity throughout.

    Raises:
        NotSignedIn: as `identity.current`. That a token is missing or dead shows only where it is needed.
        ResourceExecutionError: quilt3's files are damaged.
        ResourceFailure: the catalog in the settings does not answer.
    """
    global _caller, _request_callers  # noqa: PLW0603 - one process acts for one login, and keeps one set of others
    who = identity.current()
    if not who.is_local:
        module = import_module("quilt_mcp.request_callers")
        with _lock:
            if _request_callers is None:
                _request_callers = module.RequestCallers(settings())
            callers = cast("RequestCallers", _request_callers)
        return callers.get(who, identity.quilt_token(settings().quilt_token_header))
    module = import_module("quilt_mcp.caller")
    with _lock:
        if _caller is None or _caller.is_stale():
            _caller = module.local_caller(settings())
        return cast("Caller", _caller)


def check_catalog() -> None:
    """Ask the Quilt catalog for its public config.json, on behalf of nobody; nothing where there is no catalog.

    Raises:
        ResourceFailure: it does not answer, or quilt3's files are damaged.
    """
    login, callers = import_module("quilt_mcp.login"), import_module("quilt_mcp.caller")
    if url := settings().catalog_url or login.read_stack().catalog_url:
        callers.fetch_catalog_config(url, callers.timeout_of(settings()))


def quilt_paths() -> "QuiltPaths":
    """Where quilt3 keeps its files."""
    return cast("QuiltPaths", import_module("quilt_mcp.login").paths())


@cache
def has_requirements() -> bool:
    """Whether what the requirements database needs is installed."""
    return find_spec("sqlalchemy") is not None and find_spec("aiosqlite") is not None


def requirements() -> "RequirementsStore":
    """The requirements database under the settings in force; one for each event loop, to which its connections belong.

    Raises:
        ResourceExecutionError: what it needs is not installed.
    """
    if not has_requirements():
        raise ResourceExecutionError(
            "This server has no requirements database.",
            suggested_actions=[
                "Run `make install EXTRAS=requirements` in the server's source directory, and start it again."
            ],
        )
    loop = asyncio.get_running_loop()
    store = _stores.get(loop)
    if store is None or store.settings is not settings():
        store = import_module("quilt_mcp.requirements.store").RequirementsStore(settings())
        _stores[loop] = cast("RequirementsStore", store)
    return cast("RequirementsStore", store)


async def close_requirements() -> None:
    """Close this event loop's connections to the requirements database; the next read opens new ones."""
    if store := _stores.pop(asyncio.get_running_loop(), None):
        await store.close()


def rate_limiter() -> "RateLimiter":
    """What counts how often an identity asks, under the settings in force, of which there is a limit.

    One for each event loop, to which its connections belong.
    """
    loop, now = asyncio.get_running_loop(), settings()
    made_for, limiter = _rate_limiters.get(loop, (None, None))
    if limiter is None or made_for is not now:
        state = import_module("quilt_mcp.shared_state") if now.state_url else None
        pool = state.open_pool(now.state_url.get_secret_value()) if state and now.state_url else None
        limiter = cast("RateLimiter", import_module("quilt_mcp.rate_limits").RateLimiter(now.rate_limit, pool))
        _rate_limiters[loop] = (now, limiter)
    return limiter


async def close_rate_limiter() -> None:
    """Close this event loop's connections to the state that processes share; the next request opens new ones."""
    if kept := _rate_limiters.pop(asyncio.get_running_loop(), None):
        await kept[1].close()


def shared_sign_ins(secret: str) -> "SharedSignIns | None":
    """Where processes share sign-ins by way of an OpenID provider, under the settings in force; None: on this machine.

    Args:
        secret: what it is encrypted with.
    """
    global _sign_ins  # noqa: PLW0603 - one process serves one set of settings
    url = settings().state_url
    if url is None:
        return None
    _sign_ins = cast(
        "SharedSignIns", import_module("quilt_mcp.shared_state").SharedSignIns(url.get_secret_value(), secret)
    )
    return _sign_ins


async def check_sign_ins() -> None:
    """Ask the place where processes share sign-ins for a sign of life; nothing where there is none.

    Raises:
        Unavailable: it gives none.
    """
    if _sign_ins is not None:
        await _sign_ins.check()


async def close_sign_ins() -> None:
    """Close the connections to the place where processes share sign-ins; the next use opens new ones."""
    if _sign_ins is not None:
        await _sign_ins.close()


def shared_workflows() -> "SharedWorkflows | None":
    """The database in which machines share workflows, under the settings in force; None where they are in a file."""
    now = settings()
    if now.workflows_url is None:
        return None
    module = import_module("quilt_mcp.services.workflow_postgres")
    return cast(
        "SharedWorkflows", module.SharedWorkflows(now.workflows_url.get_secret_value(), now.database_timeout_seconds)
    )
