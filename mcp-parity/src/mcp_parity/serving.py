"""Finds the server under test, and connects to it in an event loop of its own."""

import asyncio
import importlib
import inspect
import os
import re
import shlex
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, TypeVar

from fastmcp import Client
from fastmcp.client.transports import ClientTransport, StdioTransport
from mcp.shared.exceptions import MCPError
from mcp_types import METHOD_NOT_FOUND

from mcp_parity.settings import ContractError, Settings

T = TypeVar("T")
AnyClient = Client[Any]
_ATTRIBUTE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_GRACE = 5.0


class _TimeIsOver(BaseException):
    """The server takes too long to import. A server that catches every `Exception` must not catch it."""


def load_server(settings: Settings) -> Any:
    """Return what `mcp_server` names, in a form that FastMCP's client can connect to.

    Raises:
        ContractError: there is no such server.
    """
    named = settings.server
    if not named:
        raise ContractError("mcp_server is not set: write mcp_server = module:attribute, a command or a URL")
    if named.startswith(("http://", "https://")):
        return named
    if not _ATTRIBUTE.fullmatch(named):
        command, *arguments = shlex.split(named)
        return StdioTransport(command, arguments, env=dict(os.environ), cwd=str(settings.root))
    if str(settings.root) not in sys.path:
        sys.path.insert(0, str(settings.root))
    with _explain(f"mcp_server = {named}", settings):
        return _limit(lambda: _create(named, settings.timeout), settings.timeout)


@contextmanager
def _explain(about: str, settings: Settings, failed: str = "") -> Iterator[None]:
    """Report every failure in one line."""
    try:
        yield
    except _TimeIsOver as end:
        raise ContractError(f"{about}: the server does not answer within {settings.timeout:g} s (mcp_timeout)") from end
    except ContractError:
        raise
    except (Exception, SystemExit) as error:
        raise ContractError(f"{about}: {failed}{type(error).__name__}: {error}") from error


def _limit(work: Callable[[], T], seconds: float) -> T:
    """Interrupt what takes longer. An import must stay in the main thread, and only a signal can interrupt it there.

    The signal comes again every second: Python discards an exception in a destructor, and a server can catch all.
    There is no limit on Windows, in another thread, and in a test with a limit of its own by the same signal.

    Raises:
        _TimeIsOver: it takes longer.
    """
    here = threading.current_thread() is threading.main_thread()
    if sys.platform == "win32" or not here or signal.getitimer(signal.ITIMER_REAL)[0]:
        return work()

    is_working = True

    def stop(*_: object) -> None:
        if is_working:
            raise _TimeIsOver

    previous = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1)
    try:
        return work()
    finally:
        is_working = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


def _create(named: str, timeout: float) -> Any:
    module, _, attribute = named.partition(":")
    found: Any = importlib.import_module(module)
    for name in attribute.split("."):
        found = getattr(found, name)
    if callable(found) and not hasattr(found, "list_resources"):
        found = found()
    if inspect.isawaitable(found):
        found = loop().run(found, timeout)
    if not (hasattr(found, "list_resources") or isinstance(found, ClientTransport | str | dict)):
        raise ContractError(f"mcp_server = {named}: this is {type(found).__name__}, not a FastMCP server")
    return found


def converse(server: Any, settings: Settings, talk: Callable[[AnyClient], Coroutine[Any, Any, T]], about: str) -> T:
    """Connect to the server, talk with it, and return the result.

    Raises:
        ContractError: the server cannot be reached or does not answer in time.
    """

    async def connect() -> T:
        client = Client(server, mode=settings.protocol)
        async with client:
            return await talk(client)

    with _explain(about, settings, "no answer: "):
        return loop().run(connect(), settings.timeout)


async def get_list(request: Callable[[], Awaitable[list[T]]]) -> list[T]:
    """Return a list of the server; an empty one if it does not know the request, as it may if it has no such items."""
    try:
        return await request()
    except MCPError as error:
        if error.error.code != METHOD_NOT_FOUND:
            raise
        return []


class _Loop:
    """An event loop in a thread. Connections to a subprocess stay open in it, and a hanging server does not stop it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self.blocked = False
        threading.Thread(target=self._loop.run_forever, name="mcp-parity", daemon=True).start()

    def run(self, work: Awaitable[T], timeout: float) -> T:
        """Wait for the work in the context of the caller.

        Raises:
            _TimeIsOver: it takes longer than `timeout` seconds, even if it blocks the loop.
        """
        done: Future[T] = Future()

        async def finish() -> None:
            try:
                async with asyncio.timeout(timeout):
                    done.set_result(await work)
            except BaseException as error:  # noqa: BLE001 - the caller's thread raises it
                done.set_exception(error)

        self._task = asyncio.run_coroutine_threadsafe(finish(), self._loop)  # a loop keeps only weak references
        try:
            return done.result(timeout + _GRACE)
        except TimeoutError:
            self.blocked = not done.done()
            if self.blocked:  # anyio would cancel the work again and again, without a pause
                self._loop.call_soon_threadsafe(self._loop.stop)
            raise _TimeIsOver from None


_loops: list[_Loop] = []


def loop() -> _Loop:
    """Return the loop that serves this process; a new one if the last is blocked."""
    if not _loops or _loops[-1].blocked:
        _loops.append(_Loop())
    return _loops[-1]
