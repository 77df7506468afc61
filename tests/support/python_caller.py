"""Reads URIs as Python callers do, with the promised `get_resource`."""

from quilt_mcp.core.answers import GetResourceError, JSONObject
from quilt_mcp.tools.resource_access import get_resource


async def read(uri: str) -> JSONObject:
    """Return the data of a URI."""
    answer = await get_resource(uri)
    assert answer.success, answer
    return answer.data


async def read_error(uri: str) -> GetResourceError:
    """Return the error of a URI."""
    answer = await get_resource(uri)
    assert isinstance(answer, GetResourceError), answer
    return answer
