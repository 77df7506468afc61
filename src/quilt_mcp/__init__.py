"""quilt_mcp: Quilt's resources for every MCP client, declared once and answered alike on two surfaces."""

from importlib.metadata import version

__version__ = version("quilt-mcp")
