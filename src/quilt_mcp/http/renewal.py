"""An application that a new one can replace while it serves."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from starlette.applications import Starlette
from starlette.types import Receive, Scope, Send

logger = logging.getLogger(__name__)


@dataclass(eq=False)
class _Running:
    """An application between its startup and its shutdown.

    Attributes:
        app: the application.
        started: its state, or the error of its startup.
        unused: set while no request uses it.
        retired: set when no further request will use it.
        ended: the task of `run`.
    """

    app: Starlette
    started: asyncio.Future[dict[str, object]] = field(default_factory=asyncio.Future)
    unused: asyncio.Event = field(default_factory=asyncio.Event)
    retired: asyncio.Event = field(default_factory=asyncio.Event)
    ended: "asyncio.Task[None]" = field(init=False)
    requests: int = 0

    async def run(self) -> None:
        """Start, serve until it is retired and its requests are answered, and shut down."""
        try:
            async with self.app.router.lifespan_context(self.app) as state:
                self.unused.set()
                self.started.set_result(dict(state or {}))
                await self.retired.wait()
                await self.unused.wait()
        except Exception as error:
            if self.started.done():
                raise
            self.started.set_exception(error)

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        self.requests += 1
        self.unused.clear()
        scope["state"] = self.started.result().copy()
        try:
            await self.app(scope, receive, send)
        finally:
            self.requests -= 1
            if not self.requests:
                self.unused.set()


class RenewableApplication:
    """Serves one application until `renew` replaces it. Requests in progress finish in the one that they began in.

    Args:
        app: the first application. Nothing here refers to an application that was replaced and has ended.
        create: creates the next ones, in a thread.
        when_replaced: called when an application that was replaced has ended.
        failures: the errors of `create` that are logged with the result of `describe`; the application stays.
        describe: returns a message without secrets.
    """

    def __init__(
        self,
        app: Starlette,
        create: Callable[[], Starlette],
        *,
        when_replaced: Callable[[], None] = lambda: None,
        failures: tuple[type[Exception], ...] = (),
        describe: Callable[[Exception], str] = str,
    ) -> None:
        self._first = [app]
        self._create = create
        self._when_replaced = when_replaced
        self._failures = failures
        self._describe = describe
        self._current: _Running | None = None
        self._state: dict[str, object] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._lock = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or run the lifespan."""
        if scope["type"] == "lifespan":
            self._state = scope.get("state", self._state)  # the server shows it to its connections
            await self._run_lifespan(receive, send)
        elif self._current is not None:
            await self._current.answer(scope, receive, send)

    async def renew(self) -> bool:
        """Replace the application, if a new one starts. Log why it does not. Return whether it is replaced."""
        async with self._lock:
            try:
                following = await self._start(await asyncio.to_thread(self._create))
            except self._failures as error:
                # The message is the whole reason.
                logger.error("the server keeps its settings: %s", self._describe(error))  # noqa: TRY400 - as above
                return False
            previous = self._current
            self._use(following)
            if previous is not None:
                previous.ended.add_done_callback(lambda _: self._when_replaced())
                previous.retired.set()
            logger.info("the server has read its settings again")
            return True

    async def _start(self, app: Starlette) -> _Running:
        running = _Running(app)
        task = running.ended = asyncio.create_task(running.run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        await running.started
        return running

    async def _run_lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        self._use(await self._start(self._first.pop()))
        await send({"type": "lifespan.startup.complete"})
        await receive()
        if self._current is not None:
            self._current.retired.set()
        await asyncio.gather(*self._tasks)
        await send({"type": "lifespan.shutdown.complete"})

    def _use(self, following: _Running) -> None:
        """Send further requests to this application, and show its state to the connections of the server."""
        self._current = following
        self._state.clear()
        self._state.update(following.started.result())
