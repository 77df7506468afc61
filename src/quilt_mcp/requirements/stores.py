"""The requirements database of one app.

The first read that needs SQLAlchemy imports it here, so that a server starts without it.
"""

import asyncio
from importlib import import_module
from typing import TYPE_CHECKING, cast
from weakref import WeakKeyDictionary

from quilt_mcp.app import current_app
from quilt_mcp.requirements.settings import RequirementsSettings

if TYPE_CHECKING:
    from quilt_mcp.requirements.store import RequirementsStore


class Stores:
    """One store for each event loop, because a connection belongs to the loop that opened it.

    Args:
        settings: of the requirements domain.
    """

    def __init__(self, settings: RequirementsSettings) -> None:
        self._settings = settings
        self._stores: WeakKeyDictionary[asyncio.AbstractEventLoop, RequirementsStore] = WeakKeyDictionary()

    def current(self) -> "RequirementsStore":
        """Return the store of the running event loop."""
        loop = asyncio.get_running_loop()
        if loop not in self._stores:
            module = import_module("quilt_mcp.requirements.store")
            self._stores[loop] = cast("RequirementsStore", module.RequirementsStore(self._settings))
        return self._stores[loop]

    async def close(self) -> None:
        """Close the connections of the running event loop."""
        if store := self._stores.pop(asyncio.get_running_loop(), None):
            await store.close()


def current_store() -> "RequirementsStore":
    """Return the requirements database of the current app, for the running event loop."""
    return current_app().part(Stores).current()
