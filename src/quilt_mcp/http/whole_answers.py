"""A transport that sends each small answer as a whole."""

import asyncio
from collections.abc import Iterable
from typing import Any


class WholeAnswers(asyncio.Transport):
    """Sends what is written in one turn of the event loop as a whole.

    uvicorn writes the head of an answer and its body separately. If the process is killed between the two, a proxy has
    already forwarded the head and cannot repeat the read with another server.

    Args:
        transport: the transport of the connection.
    """

    MAX_BYTES = 65_536
    """The maximum size of an answer that is collected. A longer answer is sent in parts, which limits the memory."""

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__()
        self._transport = transport
        self._parts: list[bytes | bytearray | memoryview] = []
        self._size = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send the data at the end of this turn, with all that is written until then."""
        if not self._parts:
            asyncio.get_running_loop().call_soon(self._send)
        self._parts.append(data)
        self._size += len(data)
        if self._size > self.MAX_BYTES:
            self._send()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        """Send the data like `write`."""
        for data in list_of_data:
            self.write(data)

    def close(self) -> None:
        """Send the rest, then close the connection."""
        self._send()
        self._transport.close()

    def abort(self) -> None:
        """Close the connection at once."""
        self._parts, self._size = [], 0
        self._transport.abort()

    def _send(self) -> None:
        parts, self._parts, self._size = self._parts, [], 0
        if parts and not self._transport.is_closing():
            self._transport.write(b"".join(parts))

    def get_write_buffer_size(self) -> int:
        """Return the number of bytes that are not sent yet."""
        return self._size + self._transport.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set when the protocol is asked to pause."""
        self._transport.set_write_buffer_limits(high, low)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return a fact about the connection."""
        return self._transport.get_extra_info(name, default)

    def is_closing(self) -> bool:
        """Return whether the connection is closed or is being closed."""
        return self._transport.is_closing()

    def pause_reading(self) -> None:
        """Stop the calls of `data_received`."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Start them again."""
        self._transport.resume_reading()
