"""The system calls that the process in the jail can make, and why it needs each. All others are refused.

No call takes a path or starts a thread or process, and none names the machine. Everything that the process needs is
loaded before it enters the jail; see `jail/preparation.py`.
"""

from dataclasses import dataclass

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
