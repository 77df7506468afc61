"""What MCP clients install. Everything follows from pyproject.toml, the settings and the server."""
