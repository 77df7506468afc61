"""Runs the command quilt-mcp as on Windows: our own modules do not see what only Unix has. Libraries do.

`python -m tests.support.without_unix serve --demo`
"""

import builtins
import sys
from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

OURS = "quilt_mcp"
_MODULES = "crypt curses fcntl grp posix pty pwd readline resource spwd syslog termios tty"
_OS = """
CLD_EXITED O_ACCMODE O_ASYNC O_CLOEXEC O_DIRECT O_DIRECTORY O_DSYNC O_LARGEFILE O_NDELAY O_NOATIME O_NOCTTY
O_NOFOLLOW O_NONBLOCK O_PATH O_RSYNC O_SYNC O_TMPFILE P_PIDFD WEXITED WIFEXITED WEXITSTATUS WNOHANG chown chroot
confstr confstr_names copy_file_range ctermid eventfd fchdir fchown fdatasync fork forkpty fpathconf fstatvfs
getegid geteuid getgid getgrouplist getgroups getloadavg getpgid getpgrp getpriority getresgid getresuid getsid
getuid getxattr initgroups killpg lchown listxattr lockf login_tty major makedev memfd_create minor mkfifo mknod
nice openpty pathconf pidfd_open pipe2 posix_fadvise posix_fallocate posix_spawn posix_spawnp pread preadv pwrite
pwritev readv register_at_fork removexattr sched_getaffinity sched_get_priority_max sched_setaffinity
sched_setscheduler sched_yield sendfile setegid seteuid setgid setgroups setns setpgid setpriority setregid
setresgid setresuid setreuid setsid setuid setxattr splice statvfs sync sysconf sysconf_names tcgetpgrp tcsetpgrp
ttyname uname unshare wait wait3 wait4 waitid writev
"""
_SIGNAL = """
ITIMER_REAL SIGALRM SIGBUS SIGCHLD SIGCONT SIGHUP SIGIO SIGKILL SIGPIPE SIGPROF SIGPWR SIGQUIT SIGSTOP SIGSYS
SIGTRAP SIGTSTP SIGTTIN SIGTTOU SIGURG SIGUSR1 SIGUSR2 SIGVTALRM SIGWINCH SIGXCPU SIGXFSZ SIG_BLOCK SIG_SETMASK
SIG_UNBLOCK alarm getitimer pause pidfd_send_signal pthread_kill pthread_sigmask setitimer siginterrupt sigpending
sigtimedwait sigwait sigwaitinfo
"""
_SOCKET = """
AF_NETLINK AF_PACKET AF_UNIX CMSG_LEN CMSG_SPACE SCM_RIGHTS SOCK_CLOEXEC SOCK_NONBLOCK SO_PEERCRED SO_REUSEPORT
recv_fds send_fds sethostname
"""
MODULES = frozenset(_MODULES.split())
NAMES: Mapping[str, frozenset[str]] = {
    "os": frozenset(_OS.split()),
    "signal": frozenset(_SIGNAL.split()),
    "socket": frozenset(_SOCKET.split()),
    "time": frozenset(["clock_getres", "clock_gettime", "clock_settime", "pthread_getcpuclockid", "tzset"]),
    "select": frozenset(["epoll", "kqueue", "poll"]),
}
"""Names of the standard library that Windows does not have."""
OTHER: Mapping[str, Mapping[str, object]] = {"os": {"name": "nt"}, "sys": {"platform": "win32"}}
"""Names that have another value on Windows."""

_import = builtins.__import__


class Narrowed(ModuleType):
    """A module as our modules see it."""

    def __init__(self, module: ModuleType) -> None:
        super().__init__(module.__name__)
        vars(self)["module"] = module

    def __getattr__(self, name: str) -> object:
        module: ModuleType = vars(self)["module"]
        if name in NAMES.get(module.__name__, ()):
            raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
        return OTHER.get(module.__name__, {}).get(name) or getattr(module, name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(vars(self)["module"], name, value)


def import_as_on_windows(
    name: str, namespace: Mapping[str, object] | None = None, *others: Any, **named: Any
) -> object:
    """Import a module, for our modules without what only Unix has."""
    is_ours = str((namespace or {}).get("__name__")).partition(".")[0] == OURS
    if is_ours and name.partition(".")[0] in MODULES:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    module = _import(name, namespace, *others, **named)
    return Narrowed(module) if is_ours and module.__name__ in NAMES.keys() | OTHER.keys() else module


if __name__ == "__main__":
    vars(builtins)["__import__"] = import_as_on_windows
    sys.exit(import_module("quilt_mcp.commands.cli").main(sys.argv[1:]))
