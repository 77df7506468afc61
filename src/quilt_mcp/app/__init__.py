"""An app: everything that one server owns. A context variable names the app of the current call.

Service functions take the parameters of their resource and nothing else, so they find their app with `current_app`.
The manager makes its app the current one around each call; threads that the call starts inherit it.
"""

import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar, cast

if TYPE_CHECKING:
    from pydantic import BaseModel  # the command line starts without it


class Part(Protocol):
    """Something that an app owns, such as a connection pool."""

    async def close(self) -> None:
        """Release its resources. A later use acquires them again."""


P = TypeVar("P", bound=Part)
S = TypeVar("S", bound="BaseModel")
T = TypeVar("T")

Parts = Mapping[object, Part]
"""Parts by what `App.part` is called with."""

_current: ContextVar["App"] = ContextVar("app")


class App:
    """The settings of one server, and one instance of each part that it has used.

    Args:
        settings: the settings of every domain in one model.
        parts: parts that exist already. The app closes them too.
    """

    def __init__(self, settings: "BaseModel", parts: Parts | None = None) -> None:
        self.settings = settings
        self._parts: dict[object, Part] = dict(parts or {})
        self._made: dict[object, object] = {}
        self._lock = threading.RLock()

    def part(self, kind: Callable[[Any], P]) -> P:
        """Return this app's instance of a part. The first call creates it; its only argument are the settings."""
        with self._lock:
            if kind not in self._parts:
                self._parts[kind] = kind(self.settings)
            return cast("P", self._parts[kind])

    def once(self, make: Callable[["App"], T], *, key: object = None) -> T:
        """Return what a function makes of this app. The first call with the key, by default the function, runs it."""
        with self._lock:
            if (key or make) not in self._made:
                self._made[key or make] = make(self)
            return cast("T", self._made[key or make])

    def settings_as(self, kind: type[S]) -> S:
        """Return the settings, typed as the class in which one domain declares its own.

        Raises:
            TypeError: the settings of this app do not include them.
        """
        if not isinstance(self.settings, kind):
            raise TypeError(f"The settings of the app are {type(self.settings).__name__}; expected {kind.__name__}.")
        return self.settings

    @contextmanager
    def active(self) -> Iterator[Self]:
        """Make this the current app of the context, and of threads that copy the context."""
        token = _current.set(self)
        try:
            yield self
        finally:
            _current.reset(token)

    def bind(self, function: Callable[[], Awaitable[T]]) -> Callable[[], Awaitable[T]]:
        """Return the function; while it runs, this is the current app."""

        async def run() -> T:
            with self.active():
                return await function()

        return run

    async def close(self) -> None:
        """Close all parts, the newest first.

        Raises:
            Exception: the last that a part raised. The other parts are closed too.
        """
        with self._lock:
            parts = list(self._parts.values())
        async with AsyncExitStack() as closing:
            for part in parts:
                closing.push_async_callback(part.close)


class DefaultApp:
    """The app of Python callers who have no server. The first use makes it."""

    def __init__(self) -> None:
        self._make: Callable[[], App] | None = None
        self._app: App | None = None
        self._lock = threading.Lock()

    def register(self, make: Callable[[], App] | None = None) -> None:
        """Forget the app; from now on make it with this function, or with the same as before."""
        with self._lock:
            self._make, self._app = make or self._make, None

    @contextmanager
    def replace_temporarily(self, make: Callable[[], App] | None = None) -> Iterator[None]:
        """Make another app until the context ends, with this or the same function. Then the app is that of before."""
        with self._lock:
            before = self._make, self._app
        self.register(make)
        try:
            yield
        finally:
            with self._lock:
                self._make, self._app = before

    def get(self) -> App:
        """Return the app.

        Raises:
            LookupError: no function is registered.
        """
        with self._lock:
            if self._make is None:
                raise LookupError("No app is active. Call this inside `with app.active():`.")
            self._app = self._app or self._make()
            return self._app


default_app = DefaultApp()
"""The only state that belongs to the process rather than to an app."""


def current_app() -> App:
    """Return the app of the current call; the default app outside of calls."""
    return _current.get(None) or default_app.get()
