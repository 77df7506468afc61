"""The server: where the parts meet."""

from fastmcp import FastMCP

from quilt_mcp import __version__, runtime_context
from quilt_mcp.resources import register_resources
from quilt_mcp.settings import Settings
from quilt_mcp.tools.workflow_tools import register_workflow_tools

INSTRUCTIONS = """\
Reads a Quilt stack: sign-in, buckets and permissions, Athena, tabulator, users and roles, package metadata, workflows.
Call get_resource() to list what there is, then get_resource(uri=...), or read the same URIs as resources.\
"""


def create_server(settings: Settings | None = None) -> FastMCP:
    """A server with every resource and tool, under these settings, or else the environment's."""
    runtime_context.use_settings(settings or Settings())
    mcp = FastMCP("quilt-mcp", version=__version__, instructions=INSTRUCTIONS, mask_error_details=True)
    register_resources(mcp)
    register_workflow_tools(mcp)
    return mcp
