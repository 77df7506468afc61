"""seccomp: a filter in the kernel that allows only the listed system calls.

The filter is a program for the kernel's packet filter (linux/filter.h, linux/seccomp.h). It loads fields of the call
and compares them. A refused call fails with EPERM, so that the process can still report its failure.

No allowed call takes a path or starts a thread or process, and none names the machine. Everything that the process
needs is loaded before it enters the jail; see `jail/zygote.py`.
"""

import ctypes
import platform
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from quilt_mcp.analysis.jail.libc import syscall

# PROT_READ and PROT_WRITE in all combinations: memory is never executable
_DATA_ONLY = (0, 1, 2, 3)
# F_GETFD, F_SETFD, F_GETFL, F_DUPFD_CLOEXEC: not F_SETOWN, by which a descriptor sends signals
_DESCRIPTOR_FLAGS = (1, 2, 3, 1030)


@dataclass(frozen=True, slots=True)
class Only:
    """The position of an argument, from 0, and the values that it can have."""

    argument: int
    values: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SystemCall:
    """An allowed system call.

    Attributes:
        name: as in the Linux manual.
        x86_64: its number on x86-64, or None.
        aarch64: its number on AArch64, or None.
        reason: why it is needed.
        only: restrictions of its arguments.
    """

    name: str
    x86_64: int | None
    aarch64: int | None
    reason: str
    only: tuple[Only, ...] = ()


SYSTEM_CALLS = (
    SystemCall("read", 0, 63, "read the request, from a file in memory"),
    SystemCall("lseek", 8, 62, "the same, to a position"),
    SystemCall("fstat", 5, 80, "the size of an open file"),
    SystemCall("write", 1, 64, "write the answer; the output of print() is discarded"),
    SystemCall("close", 3, 57, "close a descriptor"),
    SystemCall("fcntl", 72, 25, "flags of a descriptor", (Only(1, _DESCRIPTOR_FLAGS),)),
    SystemCall("mmap", 9, 222, "memory, never executable", (Only(2, _DATA_ONLY),)),
    SystemCall("mprotect", 10, 226, "return memory of a heap", (Only(2, _DATA_ONLY),)),
    SystemCall("mremap", 25, 216, "grow an allocation"),
    SystemCall("munmap", 11, 215, "free memory"),
    SystemCall("brk", 12, 214, "the heap"),
    SystemCall("madvise", 28, 233, "free the memory of ended threads"),
    SystemCall("futex", 202, 98, "locks"),
    SystemCall("membarrier", 324, 283, "locks"),
    SystemCall("sched_yield", 24, 124, "locks"),
    SystemCall("sched_getaffinity", 204, 123, "the number of usable cores"),
    SystemCall("rt_sigaction", 13, 134, "handlers for its own signals"),
    SystemCall("rt_sigprocmask", 14, 135, "end a thread"),
    SystemCall("rt_sigreturn", 15, 139, "return from a handler"),
    SystemCall("sigaltstack", 131, 132, "the stack of a handler"),
    SystemCall("clock_gettime", 228, 113, "the time, for the analyser's budget"),
    SystemCall("clock_getres", 229, 114, "the same"),
    SystemCall("clock_nanosleep", 230, 115, "the solver's timer"),
    SystemCall("nanosleep", 35, 101, "the same, in older C libraries"),
    SystemCall("restart_syscall", 219, 128, "continue a sleep"),
    SystemCall("times", 100, 153, "CPU time, for the analyser's budget"),
    SystemCall("getrusage", 98, 165, "the same, and the memory used"),
    SystemCall("getrlimit", 97, 163, "its own limits"),
    SystemCall("prlimit64", 302, 261, "its own limits; never to set one", (Only(0, (0,)), Only(2, (0,)))),
    SystemCall("getrandom", 318, 278, "seeds"),
    SystemCall("getpid", 39, 172, "its own process id, for seeds"),
    SystemCall("gettid", 186, 178, "its own thread id, for locks"),
    SystemCall("sysinfo", 99, 179, "the machine's memory, for the C library's sort"),
    SystemCall("exit", 60, 93, "end a thread"),
    SystemCall("exit_group", 231, 94, "end the process"),
)


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
