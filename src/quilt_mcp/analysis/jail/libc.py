"""Calls of the C library for which Python has no function."""

import ctypes
import os


def call(name: str, *arguments: object) -> int:
    """Call a C function that returns a negative number on failure. Integers become machine words.

    Raises:
        OSError: it failed, or the C library does not have it.
    """
    try:
        function = getattr(ctypes.CDLL(None, use_errno=True), name)
    except AttributeError:
        raise OSError(f"the C library has no {name}") from None
    result: int = function(*map(_to_word, arguments))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def syscall(number: int, *arguments: object) -> int:
    """Make a system call by number.

    Raises:
        OSError: the kernel refuses it or does not have it.
    """
    return call("syscall", number, *arguments)


def prctl(option: int, *arguments: object) -> int:
    """Change an attribute of this process. Up to four arguments; missing ones are 0.

    Raises:
        OSError: the kernel refuses, or does not know the option.
    """
    return call("prctl", option, *(*arguments, 0, 0, 0, 0)[:4])


def _to_word(value: object) -> object:
    return ctypes.c_ulong(value) if isinstance(value, int) else value
