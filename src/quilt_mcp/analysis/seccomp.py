"""seccomp: a filter in the kernel that lets the listed system calls through, and no other.

The filter is a program for the kernel's packet filter (linux/filter.h, linux/seccomp.h): it loads fields of the call
and compares them. A refused call fails with EPERM, so that the process can still answer that it failed.
"""

import ctypes
import platform
import struct
from collections.abc import Iterator, Sequence

from quilt_mcp.analysis.libc import prctl
from quilt_mcp.analysis.system_calls import SYSTEM_CALLS, Only, SystemCall

_PR_SET_SECCOMP, _MODE_FILTER = 22, 2
_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _KILL, _EPERM, _ENOSYS = 0x7FFF0000, 0x80000000, 0x00050001, 0x00050026
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data
_CLONE3 = (
    435  # its flags lie in memory, where no filter sees them: told to be missing, the C library falls back on clone
)

# AUDIT_ARCH_* of linux/audit.h, by what `platform.machine()` says
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def allow_listed_calls() -> None:
    """Install the filter in this process, for good. The process must have given up new privileges.

    Raises:
        OSError: the kernel has no such filters, or the machine is of another architecture.
    """
    machine = platform.machine()
    if machine not in ARCHITECTURES:
        raise OSError(f"there is no table of system calls for {machine}")
    instructions = filter_program(machine)
    program = _Program(len(instructions) // 8, instructions)
    prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(program))


def filter_program(machine: str) -> bytes:
    """The filter for an architecture, as instructions of eight bytes."""
    program = [
        _step(_LOAD, _ARCHITECTURE),
        _step(_JUMP_IF_EQUAL, ARCHITECTURES[machine], over_if_true=1),
        _step(_RETURN, _KILL),  # a call by another architecture's numbers
        _step(_LOAD, _NUMBER),
        _step(_JUMP_IF_EQUAL, _CLONE3, over_if_false=1),
        _step(_RETURN, _ENOSYS),
    ]
    for number, call in _numbered(machine):
        checks = [step for only in call.only for step in _argument_check(only)]
        program += [_step(_JUMP_IF_EQUAL, number, over_if_false=len(checks) + 1), *checks, _step(_RETURN, _ALLOW)]
    return b"".join([*program, _step(_RETURN, _EPERM)])


def _numbered(machine: str) -> Iterator[tuple[int, SystemCall]]:
    for call in SYSTEM_CALLS:
        number: int | None = getattr(call, machine)
        if number is not None:
            yield number, call


def _argument_check(only: Only) -> Sequence[bytes]:
    """Go on behind these steps if the argument, two words of 32 bits, has one of the values; else refuse."""
    low, high = _ARGUMENTS + 8 * only.argument, _ARGUMENTS + 8 * only.argument + 4
    left = len(only.values)  # from each comparison that holds, jump over those left and over the refusal
    compares = [_step(_JUMP_IF_EQUAL, value, over_if_true=left - place) for place, value in enumerate(only.values)]
    return [
        _step(_LOAD, high),
        _step(_JUMP_IF_EQUAL, 0, over_if_true=1),
        _step(_RETURN, _EPERM),
        _step(_LOAD, low),
        *compares,
        _step(_RETURN, _EPERM),
    ]


def _step(code: int, value: int, *, over_if_true: int = 0, over_if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, over_if_true, over_if_false, value)
