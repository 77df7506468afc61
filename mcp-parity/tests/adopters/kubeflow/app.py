from kubeflow_mcp.core.server import create_server

from mcp_parity import add_get_resource

mcp = create_server()
add_get_resource(mcp)
