"""The analysis domain: its resources, tools and prompts."""

from importlib import import_module

from fastmcp import FastMCP

from quilt_mcp.analysis import security_resource, server_resources
from quilt_mcp.analysis.sandbox import is_installed
from quilt_mcp.analysis.settings import AnalysisSettings
from quilt_mcp.app import App
from quilt_mcp.app.domain import Domain
from quilt_mcp.core.registry import define

RESOURCES = [
    define(
        "config://security",
        security_resource.security,
        name="Security Configuration",
        ttl_seconds=300,  # it changes only with a restart
        shared=True,
    ),
    define("config://server", server_resources.server_config, name="Server Configuration"),
    define("info://capabilities", server_resources.capabilities, name="Server Capabilities"),
]


def add_tools(mcp: FastMCP, app: App) -> None:
    """Add the tools and the prompts, if the extra is installed. Without it, the server starts without their modules."""
    if is_installed():
        import_module("quilt_mcp.analysis.tools").register_analysis_tools(mcp, app)
        import_module("quilt_mcp.analysis.prompts").register_analysis_prompts(mcp, app)


ANALYSIS = Domain(
    name="analysis",
    resources=RESOURCES,
    add_tools=add_tools,
    settings=AnalysisSettings,
    libraries=("crosshair", "z3"),
    extra="analysis",
)
