"""The server: where the parts meet."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastmcp import FastMCP

from quilt_mcp import __version__, runtime_context
from quilt_mcp.analysis import sandbox
from quilt_mcp.http.auth import auth_from
from quilt_mcp.http.tool_schemas import declare_input_schemas
from quilt_mcp.paged_server import PagedFastMCP
from quilt_mcp.resources import LISTING, MANAGER, register_resources
from quilt_mcp.settings import Settings
from quilt_mcp.tools.analysis_prompts import register_analysis_prompts
from quilt_mcp.tools.analysis_tools import register_analysis_tools
from quilt_mcp.tools.workflow_tools import register_workflow_tools

INSTRUCTIONS = """\
Reads a Quilt stack: sign-in, buckets and permissions, Athena, tabulator, users and roles, package metadata, workflows;
and a requirements database: epics, user stories, requirements, acceptance criteria, with search.
Where its tools are installed, analyses Python code: contracts, exceptions, equivalence, branches.
Call get_resource() to list what there is, then get_resource(uri=...), or read the same URIs as resources.\
"""


@asynccontextmanager
async def _lifespan(mcp: FastMCP[Any]) -> AsyncIterator[None]:
    """Close at its end what reads have opened."""
    await declare_input_schemas(mcp)
    try:
        yield
    finally:
        await sandbox.close()
        await runtime_context.close_rate_limiter()
        await runtime_context.close_sign_ins()
        await runtime_context.close_requirements()


def create_server(settings: Settings | None = None) -> FastMCP:
    """A server with every resource and tool, under these settings, or else the environment's."""
    runtime_context.use_settings(settings or Settings())
    mcp = PagedFastMCP(
        "quilt-mcp",
        listing=LISTING,
        manager=MANAGER,
        version=__version__,
        instructions=INSTRUCTIONS,
        mask_error_details=True,
        lifespan=_lifespan,
        auth=auth_from(runtime_context.settings(), shared_store=runtime_context.shared_sign_ins),
    )
    register_resources(mcp)
    register_workflow_tools(mcp)
    register_analysis_tools(mcp)
    register_analysis_prompts(mcp)
    return mcp
