"""What reads depend on: the one table of the checks behind /ready. A domain with a source of its own adds its row."""

from collections.abc import Callable
from contextlib import AbstractContextManager

from anyio import to_thread

from quilt_mcp import runtime_context
from quilt_mcp.http.readiness import Check


async def catalog() -> None:
    """As `runtime_context.check_catalog`."""
    await to_thread.run_sync(runtime_context.check_catalog, abandon_on_cancel=True)


async def database() -> None:
    """Ask the requirements database; nothing where none is configured and they are kept in a file.

    Raises:
        ResourceFailure: it does not answer, or holds something else.
    """
    if runtime_context.settings().database_url is None:
        return
    async with runtime_context.requirements().database.reading() as connection:
        await connection.exec_driver_sql("SELECT 1")


async def workflows() -> None:
    """Ask the database in which machines share workflows; nothing where they are kept in a file.

    Raises:
        ResourceFailure: as `SharedWorkflows.reading`.
    """
    if shared := runtime_context.shared_workflows():
        await to_thread.run_sync(_read_nothing, shared.reading, abandon_on_cancel=True)


def _read_nothing(reading: Callable[[], AbstractContextManager[object]]) -> None:
    with reading():
        pass


READINESS_CHECKS: dict[str, Check] = {
    "catalog": catalog,
    "database": database,
    "sign-ins": runtime_context.check_sign_ins,
    "workflows": workflows,
}
