"""Running the database work of a command, and describing why it failed."""

from collections.abc import Callable
from typing import TypeVar

from quilt_mcp.commands.entry import is_of_stdout
from quilt_mcp.commands.output import complain
from quilt_mcp.commands.process import configure_logging, run_stoppable
from quilt_mcp.core.errors import ResourceFailure

T = TypeVar("T")


def run_or_complain(call: Callable[[], T], *, left_out: str | None = None) -> T | None:
    """Return the result of a call, or None after printing why it failed.

    Args:
        call: the work.
        left_out: a suggested action that is not printed.
    """
    try:
        with configure_logging("WARNING"):
            return run_stoppable(call)
    except ResourceFailure as failure:
        details = [f"  {failure.details}"] if failure.details else []
        actions = [f"  - {action}" for action in failure.suggested_actions if action != left_out]
        complain(failure.message, *details, *actions)
    except OSError as error:
        if isinstance(error, BrokenPipeError) or is_of_stdout(error):  # which ends the command
            raise
        complain(f"{error.filename}: {error.strerror}." if error.filename else f"{error.strerror}.")
    return None
