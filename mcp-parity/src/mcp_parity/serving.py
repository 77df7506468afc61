"""Finds the server under test, and connects to it in its own event loop."""

import asyncio
import importlib
import inspect
import re
import shlex
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from fastmcp import Client
from fastmcp.client.transports import ClientTransport, StreamableHttpTransport
from pydantic import TypeAdapter, ValidationError

from mcp_parity.settings import ContractError, Settings
from mcp_parity.transports import Command, Remote, describe_transport

T = TypeVar("T")
AnyClient = Client[Any]
Talk = Callable[[AnyClient], Coroutine[Any, Any, T]]
ANSWER: TypeAdapter[Any] = TypeAdapter(dict[str, Any])
_ATTRIBUTE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_GRACE = 5.0
_MOST_PLACES = 3


class _TimeIsOver(BaseException):
    """The server takes too long to import. A server that catches every `Exception` must not catch it."""


class Unanswered(ContractError):
    """The server cannot be created or reached, or it does not answer."""


def load_server(settings: Settings, headers: dict[str, str] | None = None) -> Any:
    """Return what `mcp_server` names, in a form that FastMCP's client can connect to."""
    named = settings.server
    if not named:
        raise ContractError("mcp_server is not set: write mcp_server = module:attribute, a command or a URL")
    scheme, separator, rest = named.partition("://")
    if separator and scheme.lower() in ("http", "https"):
        return Remote(f"{scheme.lower()}://{rest}", headers)
    with _explain(f"mcp_server = {named}", settings):
        if not _ATTRIBUTE.fullmatch(named):
            command, *arguments = shlex.split(named)
            return Command(command, arguments, str(settings.root))
        if str(settings.root) not in sys.path:
            sys.path.insert(0, str(settings.root))
        return _limit(lambda: _create(named, settings.timeout), settings.timeout)


@contextmanager
def _explain(about: str, settings: Settings, failed: str = "", server: Any = None) -> Iterator[None]:
    """Report every failure in one line, with what the server's transport has seen."""
    try:
        yield
    except _TimeIsOver as end:
        late = f"{about}: the server does not answer within {round(settings.timeout, 1):g} s (mcp_timeout)"
        raise Unanswered(f"{late}{describe_transport(server)}") from end
    except ContractError:
        raise
    except ValidationError as error:
        raise Unanswered(f"{about}: the answer is malformed: {_describe_form(error)}") from error
    except (Exception, SystemExit) as error:
        said = str(error).partition("\n")[0] if isinstance(server, Remote) else error  # more is of no use
        shown = f"{about}: {failed}{type(error).__name__}: {said}"
        raise Unanswered(f"{shown}{describe_transport(server)}") from error


def _describe_form(error: ValidationError) -> str:
    """Return where an answer has another form than the protocol wants, with the name of the entry if it tells one."""
    lines = []
    for one in error.errors(include_url=False)[:_MOST_PLACES]:
        path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in one["loc"]).removeprefix(".")
        entry = one["input"] if isinstance(one["input"], dict) else {}
        named = entry.get("name") or entry.get("uri")
        lines.append(f"{path}{f' ({named})' if named else ''}: {one['msg']}")
    return "; ".join(lines)


def _limit(work: Callable[[], T], seconds: float) -> T:
    """Interrupt what takes longer. An import must stay in the main thread, and only a signal can interrupt it there.

    The signal comes again every second: Python discards an exception in a destructor, and a server can catch all.
    There is no limit on Windows, in another thread, and in a test with a limit of its own by the same signal.
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
    if type(found) is StreamableHttpTransport and found.httpx_client_factory is None:
        return Remote(found.url, found.headers, found.auth)  # which tells the status of a refusal
    return found


def ask(server: Any, settings: Settings, talk: Talk[T], about: str, *, is_last: bool = False) -> T:
    """Return the result of a talk with the server, or raise Unanswered. A connection to a process stays open."""
    try:
        with _explain(about, settings, "no answer: ", server):
            return loop().run(loop().talk(server, settings.protocol, talk), settings.timeout)
    except Unanswered:
        if isinstance(server, Command):
            server.kill()
        if isinstance(server, Command | Remote):
            disconnect([server])
        if is_last or not (isinstance(server, Remote) and server.last.lost_session):
            raise
    return ask(server, settings, talk, about, is_last=True)


def converse(server: Any, settings: Settings, talk: Talk[T], about: str) -> T:
    """Talk with the server as `ask` does. What it writes to stdout that is no message is a ContractError too."""
    result = ask(server, settings, talk, about)
    if isinstance(server, Command) and (noise := server.take_noise()):
        raise ContractError(f"{about}: {noise}")
    return result


def disconnect(servers: Iterable[Any]) -> None:
    """Close the connections to the servers. A process that does not end is killed."""
    for server in servers:
        with suppress(Exception, _TimeIsOver):  # whatever it says, it is not asked again
            loop().run(loop().close(server), _GRACE)
        if isinstance(server, Command):
            server.kill()


class _Loop:
    """An event loop in a thread. Connections to a subprocess stay open in it, and a hanging server does not stop it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self.blocked = False
        self._clients: dict[int, tuple[Any, AnyClient]] = {}
        threading.Thread(target=self._loop.run_forever, name="mcp-parity", daemon=True).start()

    async def talk(self, server: Any, mode: str, talk: Talk[T]) -> T:
        """Talk over the open connection to the server, or a new one. One that another owns is not kept."""
        _, client = self._clients.get(id(server), (None, None))
        if client is None or not client.is_connected():
            client = Client(server, mode=mode, log_handler=lambda _: asyncio.sleep(0))  # it can control a terminal
            if isinstance(server, Command | Remote):
                await client.__aenter__()  # type: ignore[no-untyped-call]  # of FastMCP; `close` ends it
                self._clients[id(server)] = server, client
        async with client:
            return await talk(client)

    async def close(self, server: Any) -> None:
        _, client = self._clients.pop(id(server), (None, None))
        if client is not None:
            await client.close()  # type: ignore[no-untyped-call]  # FastMCP's

    def run(self, work: Awaitable[T], timeout: float) -> T:
        """Wait for the work in the context of the caller, or raise _TimeIsOver, even if the work blocks the loop."""
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
