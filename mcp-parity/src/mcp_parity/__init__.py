"""Contract tests for the resources of any MCP server. These names are public; tests come from `mcp_parity.contract`."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcp_parity.answers import Answer, observe
    from mcp_parity.listing import Component, list_components, read_rows
    from mcp_parity.settings import ContractError, Names, Settings

_MODULES = {
    "answers": ("Answer", "observe"),
    "listing": ("Component", "list_components", "read_rows"),
    "settings": ("ContractError", "Names", "Settings"),
}
__all__ = ["Answer", "Component", "ContractError", "Names", "Settings", "list_components", "observe", "read_rows"]


def __getattr__(name: str) -> Any:
    """Import FastMCP only when it is needed: every pytest run in the environment imports this package."""
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"mcp_parity.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
