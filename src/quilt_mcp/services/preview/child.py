"""The process that opens files with large libraries: pyarrow, openpyxl and pypdf. It has no secrets and no network.

A file can be made to crash such a library, to keep it busy, or to take all memory. So it runs in a process of its own,
with limits of memory and processor time, for one file. It asks its parent for the ranges that it needs.

Its messages are lines of JSON: {"read": [start, size]}, which the parent answers with the number of bytes in four bytes
and the bytes; and {"done": …} or {"failed": "…"} as the last one.
"""

import json
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from traceback import walk_tb
from typing import BinaryIO

from quilt_mcp.services.preview.asked import Asked
from quilt_mcp.services.preview.block_file import BlockFile
from quilt_mcp.services.preview.refused import Refused, TooMuch

MEMORY = 1_200_000_000
"""Bytes of address space. The libraries themselves need a quarter of it."""
CPU_SECONDS = 8
MOST_READ = 24_000_000
LONGEST = 400
"""The characters of a message that says why a file cannot be opened."""

if sys.platform != "win32":
    import resource

PACKAGE = "quilt_mcp.services.preview."
BUGS = (AttributeError, LookupError, NameError, TypeError)
"""What code of this project raises for no file, so that it is not taken for a damaged one."""
OPENERS = {
    "csv": ("tables", "read_csv"),
    "excel": ("sheets", "read_sheet"),
    "json_lines": ("tables", "read_json_lines"),
    "parquet": ("tables", "read_parquet"),
    "pdf": ("documents", "read_pdf"),
}
"""The module and the function for each kind of file. Only the module of one kind is imported."""


def main() -> int:
    """Show one file. The first line of stdin says which kind it has, its size, and how much to show."""
    inner, outer = os.dup(sys.stdout.fileno()), sys.stdin.buffer
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a library prints is not part of the conversation
    _limit()
    with os.fdopen(inner, "wb") as replies:
        asked = Asked(**json.loads(outer.readline()))
        message = _show(asked, lambda start, size: _ask(outer, replies, start, size))
        replies.write(json.dumps(message).encode() + b"\n")
    return 0


def _show(asked: Asked, read_range: Callable[[int, int], bytes]) -> dict[str, object]:
    file = BlockFile(read_range, asked.size, MOST_READ)
    try:
        module, function = OPENERS[asked.kind]
        return {"done": getattr(import_module(f"{PACKAGE}{module}"), function)(file, asked)}
    except Refused as refusal:
        return {"failed": str(refusal)}
    except TooMuch:
        return {"failed": f"More than {MOST_READ:,} bytes of the file would have to be read."}
    except MemoryError:
        return {"failed": "It needs too much memory."}
    except Exception as error:  # noqa: BLE001 - the libraries raise anything for a damaged file
        *_, (innermost, _) = walk_tb(error.__traceback__)
        if isinstance(error, BUGS) and innermost.f_globals["__name__"].startswith(PACKAGE):
            return {"bug": type(error).__name__}
        return {"failed": f"It is damaged, or not a file of this kind ({type(error).__name__})."[:LONGEST]}


def _ask(answers: BinaryIO, replies: BinaryIO, start: int, size: int) -> bytes:
    replies.write(json.dumps({"read": [start, size]}).encode() + b"\n")
    replies.flush()
    return answers.read(int.from_bytes(answers.read(4), "big"))


def _limit() -> None:
    """Limit memory, processor time and files. Windows has no such limits: there, only the parent's time limit holds."""
    if sys.platform != "win32":
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        with suppress(ValueError, OSError):  # a system without a limit of memory, such as macOS
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
