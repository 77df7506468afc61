"""The system calls that are left to the process that analyses, with what each is needed for. All others are refused."""

from dataclasses import dataclass

# PROT_READ | PROT_WRITE and what is in them: no memory that is executable is made once the process is confined
_DATA_ONLY = (0, 1, 2, 3)
# CLONE_VM|FS|FILES|SIGHAND|THREAD|SYSVSEM|SETTLS|PARENT_SETTID|CHILD_CLEARTID: glibc's threads; musl adds DETACHED
_THREAD = (0x3D0F00, 0x7D0F00)
# F_GETFD, F_SETFD, F_GETFL, F_DUPFD_CLOEXEC: not F_SETOWN, by which a descriptor sends signals
_DESCRIPTOR_FLAGS = (1, 2, 3, 1030)


@dataclass(frozen=True, slots=True)
class Only:
    """One argument, by its place from 0, and the values that it may have."""

    argument: int
    values: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SystemCall:
    """A system call that is let through.

    Attributes:
        name: as in the Linux manual.
        x86_64: its number there, or None.
        aarch64: its number there, or None.
        reason: what it is needed for.
        only: what its arguments are held to.
    """

    name: str
    x86_64: int | None
    aarch64: int | None
    reason: str
    only: tuple[Only, ...] = ()


SYSTEM_CALLS = (
    SystemCall("read", 0, 63, "open files of the standard library"),
    SystemCall("pread64", 17, 67, "the same, at a position"),
    SystemCall("lseek", 8, 62, "the same, to a position"),
    SystemCall("write", 1, 64, "the answer, and prints into the void"),
    SystemCall("close", 3, 57, "give up a descriptor"),
    SystemCall("fcntl", 72, 25, "flags of a descriptor", (Only(1, _DESCRIPTOR_FLAGS),)),
    SystemCall("openat", 257, 56, "read the standard library's files; Landlock decides which"),
    SystemCall("fstat", 5, 80, "the size of an open file"),
    SystemCall("stat", 4, None, "whether a module's file is there"),
    SystemCall("lstat", 6, None, "the same, for a link"),
    SystemCall("newfstatat", 262, 79, "the same, as newer C libraries ask"),
    SystemCall("statx", 332, 291, "the same, as the newest ask"),
    SystemCall("access", 21, None, "the same, as some libraries ask"),
    SystemCall("readlink", 89, None, "the real path of a module's file"),
    SystemCall("readlinkat", 267, 78, "the same, as newer C libraries ask"),
    SystemCall("getdents64", 217, 61, "a directory of modules, for import; Landlock decides which"),
    SystemCall("getcwd", 79, 17, "which is always the root directory"),
    SystemCall("mmap", 9, 222, "memory, never executable", (Only(2, _DATA_ONLY),)),
    SystemCall("mprotect", 10, 226, "the guard page of a thread's stack", (Only(2, _DATA_ONLY),)),
    SystemCall("mremap", 25, 216, "grow an allocation"),
    SystemCall("munmap", 11, 215, "give memory back"),
    SystemCall("brk", 12, 214, "the heap"),
    SystemCall("madvise", 28, 233, "give memory of ended threads back"),
    SystemCall("clone", 56, 220, "a thread of the solver; never a process", (Only(0, _THREAD),)),
    SystemCall("set_robust_list", 273, 99, "begin a thread"),
    SystemCall("rseq", 334, 293, "begin a thread"),
    SystemCall("futex", 202, 98, "locks"),
    SystemCall("membarrier", 324, 283, "locks"),
    SystemCall("sched_yield", 24, 124, "locks"),
    SystemCall("sched_getaffinity", 204, 123, "how many threads suit"),
    SystemCall("rt_sigaction", 13, 134, "handlers of its own signals"),
    SystemCall("rt_sigprocmask", 14, 135, "begin and end a thread"),
    SystemCall("rt_sigreturn", 15, 139, "return from a handler"),
    SystemCall("sigaltstack", 131, 132, "the stack of a handler"),
    SystemCall("clock_gettime", 228, 113, "the time, for the analyser's budget"),
    SystemCall("clock_getres", 229, 114, "the same"),
    SystemCall("clock_nanosleep", 230, 115, "the solver's timer"),
    SystemCall("nanosleep", 35, 101, "the same, in older C libraries"),
    SystemCall("restart_syscall", 219, 128, "go on with a sleep"),
    SystemCall("times", 100, 153, "processor time, for the analyser's budget"),
    SystemCall("getrusage", 98, 165, "the same, and the memory used"),
    SystemCall("getrlimit", 97, 163, "its own limits"),
    SystemCall("prlimit64", 302, 261, "its own limits; never to set one", (Only(0, (0,)), Only(2, (0,)))),
    SystemCall("getrandom", 318, 278, "seeds"),
    SystemCall("getpid", 39, 172, "its own number, for seeds"),
    SystemCall("gettid", 186, 178, "its own number, for locks"),
    SystemCall("sysinfo", 99, 179, "the machine's memory, for the C library's sort"),
    SystemCall("uname", 63, 160, "the system's name, for the platform module"),
    SystemCall("exit", 60, 93, "end a thread"),
    SystemCall("exit_group", 231, 94, "end the process"),
)
