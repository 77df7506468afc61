"""The dispatcher: one registry, one manager, two surfaces. It serves any FastMCP server."""
