"""Quilt's resources for every MCP client: declared once, offered as resources and through one tool."""

from importlib import import_module

from quilt_mcp.app import App, default_app


def __getattr__(name: str) -> str:
    """Return `__version__`, the version of the installed package. Its library is imported at the first use."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    version: str = import_module("quilt_mcp.app.build").find_version()
    return version


# For Python callers who have no server, with the settings of the environment.
default_app.register(lambda: App(import_module("quilt_mcp.server").read_settings()))
