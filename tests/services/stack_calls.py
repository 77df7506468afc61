"""What a world's stack was asked, with which identity AWS is called, and all pages of a list."""

from quilt_mcp.core.answers import JSONObject
from quilt_mcp.demo.world import World
from quilt_mcp.services.stack.aws import AWSClients
from quilt_mcp.services.stack.callers import current_caller
from tests.support.python_caller import read


def list_calls(world: World) -> list[str]:
    """Return the operation of each query, and the path of each other request."""
    return [call.operation or call.path for call in world.stack.calls]


def count_calls(world: World, name: str) -> int:
    return list_calls(world).count(name)


def find_role(aws: AWSClients | None = None) -> str:
    """Return the role that AWS sees; without `aws`, for the calls of the current caller."""
    arn: str = (aws or current_caller().aws).call("sts", "get_caller_identity")["Arn"]
    return arn.split("/")[1].removeprefix("Quilt-")


async def read_pages(uri: str) -> list[JSONObject]:
    """Return the data of every page of a list, which starts with these parameters."""
    pages = [await read(uri)]
    while cursor := pages[-1]["next_cursor"]:
        pages.append(await read(f"{uri}{'&' if '?' in uri else '?'}cursor={cursor}"))
    return pages
