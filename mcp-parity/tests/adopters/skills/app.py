from pathlib import Path

from fastmcp import FastMCP
from fastmcp.server.providers.skills import SkillsDirectoryProvider

from fastmcp.server.transforms import ResourcesAsTools

mcp = FastMCP("skills")
mcp.add_provider(SkillsDirectoryProvider(Path(__file__).parent / "skills"))
mcp.add_transform(ResourcesAsTools(mcp))
