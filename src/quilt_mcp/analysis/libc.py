"""The C library, for the few calls to the kernel that Python has no function for."""

import ctypes
import os
from typing import Any


def call(name: str, *arguments: Any) -> int:
    """Call a function of the C library that answers a negative number on failure; integers go as machine words.

    Raises:
        OSError: it failed, or there is no such function.
    """
    try:
        function = getattr(ctypes.CDLL(None, use_errno=True), name)
    except AttributeError:
        raise OSError(f"the C library has no {name}") from None
    result: int = function(*map(_word, arguments))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def syscall(number: int, *arguments: Any) -> int:
    """Call the kernel by number.

    Raises:
        OSError: the kernel refuses, or there is no such call.
    """
    return call("syscall", number, *arguments)


def prctl(option: int, *arguments: Any) -> int:
    """Ask something of the kernel for this process; four arguments, zero where none is given.

    Raises:
        OSError: the kernel refuses, or does not know the option.
    """
    return call("prctl", option, *(*arguments, 0, 0, 0, 0)[:4])


def _word(value: Any) -> Any:
    return ctypes.c_ulong(value) if isinstance(value, int) else value
