"""The jail, the third and decisive barrier: what the kernel denies to the process that runs the analysis.

It has four layers. They cannot be undone, and none of them needs privileges. The process enters them after it has
loaded everything that it needs and before it reads the code. `-m quilt_mcp.analysis.jail.layers` enters them and says
which of them work.

Code that gets past the gate and the restricted modules can still forge its own answer, and read what is in its own
process: the analyser, the Python libraries and its own request. It opens no file and starts no thread. It runs without
the server's memory, environment and descriptors; if the server runs as root, it runs as the user "nobody".

Landlock is a feature of the Linux kernel by which a process drops access to files, network and other processes; its
numbers and structures are those of linux/landlock.h, the same on every architecture. seccomp is a filter, a program for
the kernel's packet filter (linux/filter.h, linux/seccomp.h), which allows only the listed system calls. A refused call
fails with EPERM, so that the process can still report its failure. No allowed call takes a path or starts a thread or
process, and none names the machine.
"""

import contextlib
import ctypes
import json
import os
import platform
import resource
import signal
import socket
import struct
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from quilt_mcp.analysis.policy import Policy


def call(name: str, *arguments: object) -> int:
    """Call a C function that returns a negative number on failure. Integers become machine words."""
    try:
        function = getattr(ctypes.CDLL(None, use_errno=True), name)
    except AttributeError:
        raise OSError(f"the C library has no {name}") from None
    result: int = function(*(ctypes.c_ulong(one) if isinstance(one, int) else one for one in arguments))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def syscall(number: int, *arguments: object) -> int:
    """Make a system call by number. `OSError`: the kernel refuses it or does not have it."""
    return call("syscall", number, *arguments)


def prctl(option: int, *arguments: object) -> int:
    """Change an attribute of this process. Up to four arguments; missing ones are 0."""
    return call("prctl", option, *(*arguments, 0, 0, 0, 0)[:4])


_CREATE_RULESET, _RESTRICT_SELF = 444, 446
_CREATE_RULESET_VERSION = 1

# The rights in each version of the interface, newest first: file rights, network rights and scopes. Older versions do
# not have the last ones. The process drops all of them, so a newer kernel removes more.
_RIGHTS: tuple[tuple[int, tuple[int, ...]], ...] = (
    (6, ((1 << 16) - 1, 3, 3)),  # abstract sockets, and signals to processes outside
    (5, ((1 << 16) - 1, 3)),  # ioctl on devices
    (4, ((1 << 15) - 1, 3)),  # TCP bind and connect
    (3, ((1 << 15) - 1,)),  # truncate
    (2, ((1 << 14) - 1,)),  # link and rename between directories
    (1, ((1 << 13) - 1,)),  # read, write, execute, create and remove files of all kinds
)


def drop_files() -> None:
    """Drop all that Landlock controls, also of later threads. `OSError`: the kernel does not have it or disables it."""
    newest = syscall(_CREATE_RULESET, None, 0, _CREATE_RULESET_VERSION)
    rights = next(rights for version, rights in _RIGHTS if version <= newest)
    attributes = struct.pack(f"={len(rights)}Q", *rights)  # the rights that rules can give back: there are no rules
    ruleset = syscall(_CREATE_RULESET, attributes, len(attributes), 0)
    try:
        syscall(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


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
    """An allowed system call."""

    name: str  # as in the Linux manual
    x86_64: int | None  # its number on x86-64, or None
    aarch64: int | None  # its number on AArch64, or None
    reason: str  # why it is needed
    only: tuple[Only, ...] = ()  # restrictions of its arguments


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
    """Install the filter in all threads of this process, which has set PR_SET_NO_NEW_PRIVS. This cannot be undone."""
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
    for call in SYSTEM_CALLS:
        number: int | None = getattr(call, machine)
        if number is None:
            continue
        checks = [step for only in call.only for step in _argument_check(only)]
        program += [_step(_JUMP_IF_EQUAL, number, over_if_false=len(checks) + 1), *checks, _step(_RETURN, _ALLOW)]
    return b"".join([*program, _step(_RETURN, _EPERM)])


def _argument_check(only: Only) -> Sequence[bytes]:
    """Return steps that refuse the call unless the argument, two words of 32 bits, has one of the values."""
    low, high = _ARGUMENTS + 8 * only.argument, _ARGUMENTS + 8 * only.argument + 4
    count = len(only.values)  # a true comparison jumps over the remaining ones and over the refusal
    compares = [_step(_JUMP_IF_EQUAL, value, over_if_true=count - place) for place, value in enumerate(only.values)]
    return [
        _step(_LOAD, high),
        _step(_JUMP_IF_EQUAL, 0, over_if_true=1),
        _step(_RETURN, _EPERM),  # no value needs the high word
        _step(_LOAD, low),
        *compares,
        _step(_RETURN, _EPERM),
    ]


def _step(code: int, value: int, *, over_if_true: int = 0, over_if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, over_if_true, over_if_false, value)


_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 1, 4, 38
_CAPABILITY_VERSION_3 = 0x20080522
_NOBODY = 65534


def enter_jail(
    memory_limit_mb: int, cpu_seconds: int, *, start_threads: Callable[[], None] = lambda: None
) -> dict[str, bool]:
    """Enter the jail. Return for each layer, by its name in `messages.LAYERS`, whether this process has entered it.

    A layer that the kernel accepts and that does not refuse what it prevents does not count as entered.
    `start_threads` starts the threads that the process needs. It is called when only the last layer is missing.
    """
    return {
        "privileges": _succeeds(_drop_privileges),
        "landlock": _succeeds(_close_files),
        "rlimits": _succeeds(lambda: _limit_resources(memory_limit_mb, cpu_seconds)) and _succeeds(start_threads),
        # last, because it refuses system calls that the others make
        "seccomp": _succeeds(_close_system_calls),
    }


def _succeeds(layer: Callable[[], None]) -> bool:
    try:
        layer()
    except (OSError, ValueError):  # setrlimit raises ValueError
        return False
    return True


def _drop_privileges() -> None:
    if os.geteuid() == 0:
        _leave_root()
    prctl(_PR_SET_NO_NEW_PRIVS, 1)
    prctl(_PR_SET_DUMPABLE, 0)
    header, no_capabilities = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0), (ctypes.c_uint32 * 6)()
    call("capset", header, no_capabilities)


def _leave_root() -> None:
    """Become "nobody". A container can refuse that; then the process keeps the name of root without its rights."""
    with contextlib.suppress(OSError):
        os.setgroups([])
        os.setresgid(_NOBODY, _NOBODY, _NOBODY)
        os.setresuid(_NOBODY, _NOBODY, _NOBODY)
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # the kernel forgets it when the user changes


def _close_files() -> None:
    drop_files()
    try:
        list(Path("/").iterdir())
    except PermissionError:
        return
    raise OSError("Landlock does not refuse to list a directory")


def _close_system_calls() -> None:
    install_filter()
    try:
        socket.socket().close()
    except PermissionError:
        return
    raise OSError("the filter does not refuse a system call")


def _limit_resources(memory_limit_mb: int, cpu_seconds: int) -> None:
    limits = {
        resource.RLIMIT_AS: memory_limit_mb << 20,
        resource.RLIMIT_CPU: cpu_seconds,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NOFILE: 32,
        resource.RLIMIT_STACK: 16 << 20,
    }
    for name, value in limits.items():
        hard = resource.getrlimit(name)[1]
        held = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(name, (held, held))


_CPU_SECONDS = 10


if __name__ == "__main__":
    json.dump(enter_jail(Policy().memory_limit_mb, _CPU_SECONDS), sys.stdout)
