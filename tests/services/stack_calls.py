"""What a world's stack was asked, and with which identity AWS is called."""

from quilt_mcp.commands.demo.world import World
from quilt_mcp.services.stack.aws import AWSClients
from quilt_mcp.services.stack.callers import current_caller


def list_calls(world: World) -> list[str]:
    """Return the operation of each query, and the path of each other request."""
    return [call.operation or call.path for call in world.stack.calls]


def count_calls(world: World, name: str) -> int:
    return list_calls(world).count(name)


def find_role(aws: AWSClients | None = None) -> str:
    """Return the role that AWS sees; without `aws`, for the calls of the current caller."""
    arn: str = (aws or current_caller().aws).call("sts", "get_caller_identity")["Arn"]
    return arn.split("/")[1].removeprefix("Quilt-")
