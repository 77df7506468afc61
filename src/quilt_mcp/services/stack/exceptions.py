"""Which failure an exception of a library is: the rows for botocore, requests and urllib3."""

from quilt_mcp.core.errors import MakeFailure, find_failure
from quilt_mcp.services.stack.aws_failures import AWS_FAILURES
from quilt_mcp.services.stack.catalog_failures import CATALOG_FAILURES, make_unexpected

FAILURES: dict[str, MakeFailure] = AWS_FAILURES | CATALOG_FAILURES
"""For any exception that reaches the dispatcher."""
_STACK_FAILURES: dict[str, MakeFailure] = FAILURES | {
    "pydantic_core._pydantic_core.ValidationError": lambda error: make_unexpected(
        f"{error.error_count()} invalid fields in {error.title}"
    )
}


def map_failure(error: Exception) -> Exception:
    """Return our failure for an exception that a call to Quilt or AWS raised; the exception itself for a bug.

    During such a call, a ValidationError means that the stack sent an unexpected response. Elsewhere it is a bug.
    """
    return find_failure(error, _STACK_FAILURES) or error
