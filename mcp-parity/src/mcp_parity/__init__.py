"""Contract tests for the resources of any MCP server."""
