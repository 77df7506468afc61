"""A server that knows nothing of quilt-mcp and mcp-parity."""

from fastmcp import FastMCP
from fastmcp.server.transforms import ResourcesAsTools

mcp = FastMCP("shop")
mcp.add_transform(ResourcesAsTools(mcp))
ORDERS = {"7": ["tea"], "8": ["cake", "tea"]}


@mcp.resource("shop://orders", mime_type="application/json")
def list_orders() -> dict[str, object]:
    return {"orders": [{"id": one, "items": len(items)} for one, items in ORDERS.items()]}


@mcp.resource("shop://orders/{number}", mime_type="application/json")
def read_order(number: str) -> dict[str, object]:
    return {"id": number, "items": ORDERS[number]}


if __name__ == "__main__":
    mcp.run(show_banner=False)
