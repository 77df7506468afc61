"""Finds the server under test, connects to it in its own event loop, and keeps what is seen beside the answers."""

import asyncio
import importlib
import inspect
import os
import re
import shlex
import shutil
import signal
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import IO, Any, TypeVar, Unpack

import anyio
import httpx2
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from fastmcp import Client
from fastmcp.client.transports import ClientTransport, StreamableHttpTransport
from fastmcp.client.transports.base import SessionKwargs, TransportOptions
from mcp import ClientSession
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from mcp_parity.settings import ContractError, Settings
from mcp_parity.values import read_json

LONGEST_LINE = 128 * 1024 * 1024
MOST_NOISE = 1_000
LONGEST_NOISE = 120
_GRACE = 2.0  # the seconds in which a server may end after its stdin is closed, as in the SDK

Sent = MemoryObjectReceiveStream[SessionMessage]
Received = MemoryObjectSendStream[SessionMessage | Exception]


class Command(ClientTransport):
    """A server that is started by a command and speaks over its stdin and stdout.

    The SDK has such a transport too, but it only logs what is no message, and reads a line of any length.

    Attributes:
        noise: the lines of stdout that are no messages, of the last process.
        all_noise: those of all processes.
        errors: the file for stderr; None for that of this process.
    """

    def __init__(self, command: str, arguments: list[str], directory: str | None) -> None:
        self._command = [shutil.which(command) or command, *arguments]
        self._directory = directory
        self._environment = dict(os.environ)
        self.errors: IO[bytes] | None = None
        self._process: asyncio.subprocess.Process | None = None
        self.noise: list[str] = []
        self.all_noise: list[str] = []
        self._reported = 0

    @asynccontextmanager
    async def connect_session(
        self, *, transport_options: TransportOptions | None = None, **session_kwargs: Unpack[SessionKwargs]
    ) -> AsyncIterator[ClientSession]:
        """Start the process, and connect to it."""
        options = transport_options or TransportOptions()
        self.noise, self._reported = [], 0
        process = self._process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=self.errors,
            cwd=self._directory,
            env=self._environment,
            limit=LONGEST_LINE,
            start_new_session=True,
        )
        received, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        outgoing, sent = anyio.create_memory_object_stream[SessionMessage](0)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._read, process, received)
            tasks.start_soon(_write, process, sent, received)
            try:
                async with options.session_class(incoming, outgoing, **session_kwargs) as session:
                    yield session
            finally:
                with anyio.CancelScope(shield=True):
                    await self._stop(process)
                tasks.cancel_scope.cancel()

    async def _read(self, process: asyncio.subprocess.Process, received: Received) -> None:
        """Pass on the messages, until the server has printed too much else."""
        assert process.stdout  # noqa: S101 - it is a pipe
        async with received:
            while len(self.noise) < MOST_NOISE:
                try:
                    line = await process.stdout.readline()
                except ValueError:
                    self._note(f"a line of more than {LONGEST_LINE:,} bytes")
                    return
                if not line:
                    await _wait_for_end(process)
                    return
                message = self._parse(line)
                if message is not None:
                    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # what comes after the end
                        await received.send(message)

    def _parse(self, line: bytes) -> SessionMessage | None:
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            self._note(line.decode(errors="replace").rstrip("\r\n"))
            return None
        try:
            read_json(line.decode())
        except ValueError as error:
            self._note(f"{error}: {line.decode(errors='replace')}")
        return SessionMessage(message)

    def _note(self, line: str) -> None:
        self.noise.append(line[:LONGEST_NOISE])
        self.all_noise.append(line[:LONGEST_NOISE])

    def take_noise(self) -> str:
        """Return a sentence about the lines that are no messages since the last call; empty if there are none."""
        new, self._reported = self.noise[self._reported :], len(self.noise)
        if not new:
            return ""
        more = f" and {len(new) - 1} more lines" if len(new) > 1 else ""
        shown = ascii(new[0])
        return f"the server writes to stdout what is no message of MCP: {shown}{more}; log to stderr instead"

    @property
    def ended(self) -> int | None:
        """The exit status of the process; None while it runs."""
        return self._process.returncode if self._process else None

    async def _stop(self, process: asyncio.subprocess.Process) -> None:
        if process.stdin:
            process.stdin.close()
        await _wait_for_end(process)
        self.kill()

    def kill(self) -> None:
        """Kill the process and all that it started. Nothing happens if they have ended."""
        if self._process is None:
            return
        with suppress(ProcessLookupError, PermissionError):
            if sys.platform == "win32":
                self._process.kill()
            else:
                os.killpg(self._process.pid, signal.SIGKILL)


async def _wait_for_end(process: asyncio.subprocess.Process) -> None:
    with anyio.move_on_after(_GRACE):
        while process.returncode is None:  # noqa: ASYNC110 - `wait` waits for all that hold the pipes
            await anyio.sleep(0.02)


async def _write(process: asyncio.subprocess.Process, sent: Sent, received: Received) -> None:
    assert process.stdin  # noqa: S101 - it is a pipe
    try:
        async with sent:
            async for message in sent:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                process.stdin.write(text.encode() + b"\n")
                await process.stdin.drain()
    except (OSError, anyio.ClosedResourceError, anyio.BrokenResourceError):
        await received.aclose()  # the session sees that the connection has ended


class Remote(StreamableHttpTransport):
    """A server at a URL.

    Attributes:
        refused: the HTTP status of the last request, if it is an error.
    """

    def __init__(self, url: str, headers: dict[str, str] | None = None, auth: Any = None) -> None:
        super().__init__(url, headers=headers, auth=auth, httpx_client_factory=self._create)
        self.refused = ""

    def _create(
        self,
        headers: dict[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,
        auth: httpx2.Auth | None = None,
        **_: Any,
    ) -> httpx2.AsyncClient:
        client = httpx2.AsyncClient(
            headers=headers, timeout=timeout or httpx2.Timeout(30.0, read=300.0), auth=auth, follow_redirects=True
        )
        client.event_hooks["response"].append(self._note)
        return client

    async def _note(self, response: httpx2.Response) -> None:
        if response.request.method == "POST":  # a server may refuse the GET request for notifications
            is_error = response.status_code >= httpx2.codes.BAD_REQUEST
            self.refused = f"HTTP {response.status_code} {response.reason_phrase}".strip() if is_error else ""


def describe_transport(server: Any) -> str:
    """Return what a transport knows about a failure, as the end of a sentence; empty if it knows nothing."""
    if isinstance(server, Remote) and server.refused:
        login = "; give it a token or headers" if "HTTP 401" in server.refused else ""
        return f" ({server.refused}{login})"
    if isinstance(server, Command):
        ended = "" if server.ended is None else f" (the process has ended with status {server.ended})"
        noise = server.take_noise()
        if server.errors is not None:
            size = server.errors.seek(0, os.SEEK_END)
            server.errors.seek(max(0, size - 4096))
            lines = server.errors.read().decode(errors="replace").strip().splitlines()
            ended += f"; the last line of stderr: {lines[-1]}" if lines else ""
        return ended + (f"; {noise}" if noise else "")
    return ""


T = TypeVar("T")
AnyClient = Client[Any]
_ATTRIBUTE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_GRACE = 5.0


class _TimeIsOver(BaseException):
    """The server takes too long to import. A server that catches every `Exception` must not catch it."""


class Unanswered(ContractError):
    """The server cannot be created or reached, or it does not answer."""


def load_server(settings: Settings) -> Any:
    """Return what `mcp_server` names, in a form that FastMCP's client can connect to.

    Raises:
        ContractError: there is no such server.
    """
    named = settings.server
    if not named:
        raise ContractError("mcp_server is not set: write mcp_server = module:attribute, a command or a URL")
    if named.startswith(("http://", "https://")):
        return Remote(named)
    if not _ATTRIBUTE.fullmatch(named):
        command, *arguments = shlex.split(named)
        return Command(command, arguments, str(settings.root))
    if str(settings.root) not in sys.path:
        sys.path.insert(0, str(settings.root))
    with _explain(f"mcp_server = {named}", settings):
        return _limit(lambda: _create(named, settings.timeout), settings.timeout)


def open_server(settings: Settings, headers: dict[str, str], errors: IO[bytes]) -> Any:
    """Return what `load_server` returns, for a check: with headers, and a process whose stderr goes to a file.

    Raises:
        ContractError: there is no such server.
    """
    if settings.server.startswith(("http://", "https://")):
        return Remote(settings.server, headers)
    server = load_server(settings)
    if isinstance(server, Command):
        server.errors = errors
    return server


@contextmanager
def _explain(about: str, settings: Settings, failed: str = "", server: Any = None) -> Iterator[None]:
    """Report every failure in one line, with what the server's transport has seen."""
    try:
        yield
    except _TimeIsOver as end:
        late = f"{about}: the server does not answer within {settings.timeout:g} s (mcp_timeout)"
        raise Unanswered(f"{late}{describe_transport(server)}") from end
    except ContractError:
        raise
    except (Exception, SystemExit) as error:
        shown = f"{about}: {failed}{type(error).__name__}: {error}"
        raise Unanswered(f"{shown}{describe_transport(server)}") from error


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
    if type(found) is StreamableHttpTransport and found.httpx_client_factory is None:
        return Remote(found.url, found.headers, found.auth)  # which tells the status of a refusal
    return found


def ask(server: Any, settings: Settings, talk: Callable[[AnyClient], Coroutine[Any, Any, T]], about: str) -> T:
    """Talk with the server, and return the result. A connection to another process stays open for the next talk.

    Raises:
        Unanswered: the server cannot be reached, or does not answer in time.
    """
    try:
        with _explain(about, settings, "no answer: ", server):
            return loop().run(loop().talk(server, settings.protocol, talk), settings.timeout)
    except Unanswered:
        if isinstance(server, Command):
            server.kill()
        if isinstance(server, Command | Remote):
            disconnect([server])
        raise


def converse(server: Any, settings: Settings, talk: Callable[[AnyClient], Coroutine[Any, Any, T]], about: str) -> T:
    """Talk with the server as `ask` does.

    Raises:
        ContractError: the server cannot be reached, does not answer in time, or writes what is no message to stdout.
    """
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

    async def talk(self, server: Any, mode: str, talk: Callable[[AnyClient], Coroutine[Any, Any, T]]) -> T:
        """Talk over the open connection to the server, or a new one. One that another owns is not kept."""
        _, client = self._clients.get(id(server), (None, None))
        if client is None or not client.is_connected():
            client = Client(server, mode=mode)
            if isinstance(server, Command | Remote):
                await client.__aenter__()  # type: ignore[no-untyped-call]  # of FastMCP; `close` ends it
                self._clients[id(server)] = server, client
        async with client:
            return await talk(client)

    async def close(self, server: Any) -> None:
        """Close the connection to the server, if there is one."""
        _, client = self._clients.pop(id(server), (None, None))
        if client is not None:
            await client.close()  # type: ignore[no-untyped-call]  # FastMCP's

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
