from pathlib import Path

from fastmcp import FastMCP
from fastmcp.server.providers.skills import SkillsDirectoryProvider

from mcp_parity import add_get_resource

mcp = FastMCP("skills")
mcp.add_provider(SkillsDirectoryProvider(Path(__file__).parent / "skills"))
add_get_resource(mcp)
