"""The standard streams of the command: closed ones, their encoding, and failures of stdout."""

import io
import os
import sys
from contextlib import suppress


def open_closed_streams() -> None:
    """Discard the output to streams that the caller has closed. For Python they do not exist."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115 - until the process ends


def choose_encoding() -> None:
    """Write UTF-8 to files and pipes, which have an older encoding on Windows. A terminal keeps its encoding."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding=None if stream.isatty() else "utf-8", errors="backslashreplace")


def is_of_stdout(error: OSError) -> bool:
    """Return whether an error is one of stdout: it names no file, and stdout cannot be written."""
    if error.filename is not None:
        return False
    try:
        sys.stdout.write("\n")  # a flush alone can succeed, because Python discards some of what it could not write
        sys.stdout.flush()
    except OSError:
        return True
    return False


def discard_stdout() -> None:
    """Discard what Python has kept: to write it when the process ends would fail again."""
    with suppress(io.UnsupportedOperation):  # a stream of a program that calls the command
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
