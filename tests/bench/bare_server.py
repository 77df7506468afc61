"""A FastMCP server with one resource and one tool and nothing else, for comparing the start."""

from fastmcp import FastMCP

mcp = FastMCP("bare")


@mcp.resource("bare://greeting")
def greeting() -> str:
    """A text."""
    return "Hello"


@mcp.tool
def greet() -> str:
    """The same."""
    return "Hello"


if __name__ == "__main__":
    mcp.run(transport="stdio", show_banner=False)
