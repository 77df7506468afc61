from kubeflow_mcp.core.server import create_server

from fastmcp.server.transforms import ResourcesAsTools

mcp = create_server()
mcp.add_transform(ResourcesAsTools(mcp))
