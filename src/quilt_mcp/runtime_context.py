"""Who is asking, and with which settings.

This is the one place through which quilt3 and boto3 come in: they are heavy, so they are imported on the first read
that needs them, and the server starts without.
"""

import threading
from importlib import import_module
from typing import TYPE_CHECKING, cast

from quilt_mcp.settings import Settings

if TYPE_CHECKING:
    from quilt_mcp.caller import Caller
    from quilt_mcp.login import QuiltPaths

_lock = threading.Lock()
_settings: Settings | None = None
_caller: "Caller | None" = None


def settings() -> Settings:
    """The settings in force: those last given to `use_settings`, else the environment's. Takes no lock and no time."""
    global _settings  # noqa: PLW0603 - one process serves one set of settings
    if _settings is None:
        _settings = Settings()
    return _settings


def use_settings(new: Settings) -> None:
    """Put settings into force, and forget every client that was made under the old ones."""
    global _settings, _caller
    with _lock:
        _settings, _caller = new, None


def caller() -> "Caller":
    """The identity that quilt3's files describe now; the same object for as long as they stay the same.

    Reads files: not for the event loop. A read asks once, so that it acts for one identity throughout.
    """
    global _caller  # noqa: PLW0603 - one process acts for one login
    module = import_module("quilt_mcp.caller")
    with _lock:
        if _caller is None or _caller.is_stale():
            _caller = module.Caller(settings())
        return cast("Caller", _caller)


def quilt_paths() -> "QuiltPaths":
    """Where quilt3 keeps its files."""
    return cast("QuiltPaths", import_module("quilt_mcp.login").paths())
