"""The view: a page of MCP Apps that shows any answer to a person, and the tool that opens it."""
