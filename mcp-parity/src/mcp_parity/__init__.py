"""Contract tests for the resources of any MCP server. These names are public; tests come from `mcp_parity.contract`."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcp_parity.answers import Answer, observe
    from mcp_parity.listing import Component, list_components, read_rows
    from mcp_parity.settings import ContractError, Names, Settings

_LISTING = dict.fromkeys(("Component", "list_components", "read_rows"), "listing")
_SETTINGS = dict.fromkeys(("ContractError", "Names", "Settings"), "settings")
_MODULES = {"Answer": "answers", "observe": "answers"} | _LISTING | _SETTINGS
__all__ = ["Answer", "Component", "ContractError", "Names", "Settings", "list_components", "observe", "read_rows"]


def __getattr__(name: str) -> Any:
    """Import FastMCP only when it is needed: every pytest run in the environment imports this package."""
    if name in _MODULES:
        return getattr(import_module(f"mcp_parity.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
