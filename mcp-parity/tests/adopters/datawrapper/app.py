from datawrapper_mcp.server import mcp

from mcp_parity import add_get_resource

add_get_resource(mcp)
