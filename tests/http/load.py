"""A load of raw HTTP/1.1 connections, so that the client uses little CPU time compared to the server."""

import asyncio
import json
import ssl
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import cycle, islice
from typing import Any

from tests.http.web import lines_of, request, with_headers
from tests.support.waiting import until

STATIC = "metadata://templates"
READS = [request("resources/read", uri=STATIC), request("tools/call", name="get_resource", arguments={"uri": STATIC})]
BROKEN = (ConnectionError, asyncio.IncompleteReadError)


@dataclass
class Load:
    """Requests over keep-alive connections. All read one resource, on both surfaces."""

    port: int
    repeats: bool = True  # a request whose connection breaks, as HTTP clients do with reads
    host: str = "127.0.0.1"
    tls: ssl.SSLContext | None = None
    answered: int = 0  # correctly
    broken: int = 0  # connections, during a request
    wrong: Counter[str] = field(default_factory=Counter)

    async def run(self, connections: int, requests: int) -> None:
        shares = [requests // connections + (place < requests % connections) for place in range(connections)]
        async with asyncio.TaskGroup() as group:
            for place, share in enumerate(shares):
                group.create_task(self._ask(place, share))

    async def _ask(self, place: int, count: int) -> None:
        messages = cycle([self._bytes(one) for one in READS[place % 2 :] + READS[: place % 2]])
        connection = None
        for message in islice(messages, count):
            is_answered = False
            while not is_answered:
                connection = connection or await self._connect()
                is_answered, stays_open = await self._exchange(*connection, message)
                if not stays_open:
                    connection[1].close()
                    connection = None
        if connection:
            connection[1].close()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        name = self.host if self.tls else None
        return await asyncio.open_connection("127.0.0.1", self.port, ssl=self.tls, server_hostname=name)

    async def _exchange(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, message: bytes
    ) -> tuple[bool, bool]:
        """Return whether the request is done, and whether the connection stays open."""
        try:
            writer.write(message)
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            length = next(line for line in head.splitlines() if line.startswith("content-length:"))
            body = await reader.readexactly(int(length.partition(":")[2]))
        except BROKEN as error:
            self.broken += 1
            if not self.repeats:
                self.wrong[type(error).__name__] += 1
            return not self.repeats, False
        if head.startswith("http/1.1 200 ") and b"available_templates" in body:
            self.answered += 1
        else:
            self.wrong[f"{head.splitlines()[0]} {body[:80]!r}"] += 1
        return True, "connection: close" not in head

    def _bytes(self, one: dict[str, Any]) -> bytes:
        body = json.dumps(one["json"]).encode()
        head = lines_of(with_headers(one, {"Host": self.host, "Content-Length": str(len(body))}))
        return b"POST %b HTTP/1.1\r\n%b\r\n%b" % (one["url"].encode(), head, body)


async def during(load: Load, connections: int, requests: int, at: int, act: Callable[[], None]) -> None:
    running = asyncio.create_task(load.run(connections, requests))
    await until(lambda: load.answered >= at or running.done())
    act()
    await running
