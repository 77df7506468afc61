"""The workflows of one app."""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from threading import Lock
from typing import TYPE_CHECKING, cast

from quilt_mcp.app import identity
from quilt_mcp.core.errors import ResourceFailure
from quilt_mcp.workflows.settings import WorkflowSettings

if TYPE_CHECKING:
    from quilt_mcp.workflows.database import WorkflowDatabase
    from quilt_mcp.workflows.store import WorkflowStore

RETENTION_SECONDS = 600.0

logger = logging.getLogger(__name__)


class Workflows:
    """Opens the workflow database when it is first used, so that a server starts without SQLAlchemy.

    Args:
        settings: of the workflow domain.
        queue_seconds: as for `WorkflowDatabase`.
        retention_seconds: the minimum time between two deletions of old workflows, while none are left.
    """

    def __init__(
        self,
        settings: WorkflowSettings,
        *,
        queue_seconds: float = 25.0,
        retention_seconds: float = RETENTION_SECONDS,
    ) -> None:
        self._settings, self._retention_seconds = settings, retention_seconds
        self._queue_seconds = queue_seconds
        self._database: WorkflowDatabase | None = None
        self._opening = Lock()
        self._retain_at = 0.0

    @contextmanager
    def reading(self) -> Iterator["WorkflowStore"]:
        """Yield the caller's store to read from; see `WorkflowDatabase.reading`.

        Raises:
            NotSignedIn: as `identity.current`.
            Unavailable, ResourceExecutionError: as `WorkflowDatabase.reading`.
        """
        owner = identity.current().key
        with self._open().reading(owner) as store:
            yield store

    @contextmanager
    def writing(self) -> Iterator["WorkflowStore"]:
        """Yield the caller's store to read and write; see `WorkflowDatabase.writing`.

        Raises:
            NotSignedIn: as `identity.current`.
            Unavailable, ResourceExecutionError: as `WorkflowDatabase.writing`.
        """
        owner = identity.current().key
        with self._open().writing(owner) as store:
            yield store
        self._delete_expired()

    def check(self) -> None:
        """Check the database in which machines share workflows. Does nothing if workflows are in a file.

        Raises:
            ResourceFailure: as `WorkflowDatabase.reading`.
        """
        if self._settings.workflows_url is not None:
            with self._open().reading(""):
                pass

    async def close(self) -> None:
        """Close every connection."""
        if self._database:
            self._database.close()

    def _delete_expired(self) -> None:
        """Delete one batch of workflows that are too old, but not soon after the last one. Failures are only logged."""
        days = self._settings.workflow_retention_days
        with self._opening:
            if days is None or time.monotonic() < self._retain_at:
                return
            self._retain_at = time.monotonic() + self._retention_seconds
        retention = import_module("quilt_mcp.workflows.retention")
        try:
            with self._open().changing() as connection:
                number = retention.delete_expired(connection, days)
        except ResourceFailure as failure:
            logger.warning("workflows that are too old were not deleted: %s", failure.message)
            return
        if number:
            logger.info("%d workflows were deleted: they have not changed for %d days", number, days)
        if number == retention.BATCH:
            self._retain_at = 0.0  # there can be more

    def _open(self) -> "WorkflowDatabase":
        with self._opening:
            if self._database is None:
                module = import_module("quilt_mcp.workflows.database")
                self._database = cast(
                    "WorkflowDatabase", module.WorkflowDatabase(self._settings, queue_seconds=self._queue_seconds)
                )
            return self._database
