"""seccomp: a filter in the kernel that allows only the listed system calls.

The filter is a program for the kernel's packet filter (linux/filter.h, linux/seccomp.h). It loads fields of the call
and compares them. A refused call fails with EPERM, so that the process can still report its failure.
"""

import ctypes
import platform
import struct
from collections.abc import Iterator, Sequence

from quilt_mcp.analysis.jail.libc import syscall
from quilt_mcp.analysis.jail.system_calls import SYSTEM_CALLS, Only, SystemCall

_SET_MODE_FILTER, _ALL_THREADS = 1, 1  # SECCOMP_FILTER_FLAG_TSYNC
_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _KILL, _EPERM = 0x7FFF0000, 0x80000000, 0x00050001
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data

# AUDIT_ARCH_* of linux/audit.h, by `platform.machine()`
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
# The number of the system call seccomp()
_SECCOMP = {"x86_64": 317, "aarch64": 277}


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def install_filter() -> None:
    """Install the filter in all threads of this process. This cannot be undone.

    The process must have set PR_SET_NO_NEW_PRIVS.

    Raises:
        OSError: the kernel has no seccomp filters, or the machine has another architecture.
    """
    machine = platform.machine()
    if machine not in ARCHITECTURES:
        raise OSError(f"unsupported machine type {machine}: the sandbox has no system-call table for it")
    instructions = build_filter(machine)
    program = _Program(len(instructions) // 8, instructions)
    thread = syscall(_SECCOMP[machine], _SET_MODE_FILTER, _ALL_THREADS, ctypes.byref(program))
    if thread:
        raise OSError(f"the kernel could not install the filter in thread {thread}")


def build_filter(machine: str) -> bytes:
    """Return the filter for an architecture, as instructions of eight bytes."""
    program = [
        _step(_LOAD, _ARCHITECTURE),
        _step(_JUMP_IF_EQUAL, ARCHITECTURES[machine], over_if_true=1),
        _step(_RETURN, _KILL),  # a call with the numbers of another architecture
        _step(_LOAD, _NUMBER),
    ]
    for number, call in _numbers_on(machine):
        checks = [step for only in call.only for step in _argument_check(only)]
        program += [_step(_JUMP_IF_EQUAL, number, over_if_false=len(checks) + 1), *checks, _step(_RETURN, _ALLOW)]
    return b"".join([*program, _step(_RETURN, _EPERM)])


def _numbers_on(machine: str) -> Iterator[tuple[int, SystemCall]]:
    for call in SYSTEM_CALLS:
        number: int | None = getattr(call, machine)
        if number is not None:
            yield number, call


def _argument_check(only: Only) -> Sequence[bytes]:
    """Return steps that refuse the call unless the argument, two words of 32 bits, has one of the values."""
    low, high = _ARGUMENTS + 8 * only.argument, _ARGUMENTS + 8 * only.argument + 4
    left = len(only.values)  # a true comparison jumps over the remaining ones and over the refusal
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
