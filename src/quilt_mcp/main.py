"""`mcp`, the server object, for `fastmcp run`, for hosts that import it, and for `quilt-mcp serve`."""

from quilt_mcp.server import create_server

mcp = create_server()
