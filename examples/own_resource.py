"""A server with one resource, which clients read in both ways."""

from fastmcp import FastMCP
from typing_extensions import TypedDict

from quilt_mcp.core.errors import NotFound
from quilt_mcp.core.manager import ResourceManager
from quilt_mcp.core.registry import define
from quilt_mcp.core.surfaces import add_surfaces

PEOPLE = {"ada": "Ada Lovelace", "grace": "Grace Hopper"}


class Greeting(TypedDict):
    """The answer of demo://hello/{name}."""

    greeting: str
    """What to say."""


async def hello(name: str) -> Greeting:
    """A greeting for one person."""
    if name not in PEOPLE:
        raise NotFound(f"There is no person {name}.", suggested_actions=[f"Known people: {', '.join(PEOPLE)}."])
    return {"greeting": f"Hello, {PEOPLE[name]}."}


def names(prefix: str) -> list[str]:
    return [name for name in PEOPLE if name.startswith(prefix)]


row = define("demo://hello/{name}", hello, name="Hello", values={"name": names})
mcp = FastMCP("demo")
add_surfaces(mcp, ResourceManager({row["uri"]: row}))

if __name__ == "__main__":
    mcp.run()
