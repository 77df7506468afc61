"""What reads depend on: the one table of the checks behind /ready. A domain with a source of its own adds its row."""

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


READINESS_CHECKS: dict[str, Check] = {"catalog": catalog, "database": database}
