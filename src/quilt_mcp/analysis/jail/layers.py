"""The jail, the third and decisive barrier: what the kernel denies to the process that runs the analysis.

It has four layers. They cannot be undone, and none of them needs privileges. The process enters them after it has
loaded everything that it needs and before it reads the code.

Code that gets past the gate and the restricted modules can still forge its own answer, and read what is in its own
process: the analyser, the Python libraries and its own request. It opens no file and starts no thread. It runs without
the server's memory, environment and descriptors; if the server runs as root, it runs as the user "nobody".
"""

import contextlib
import ctypes
import os
import resource
import signal
from collections.abc import Callable
from pathlib import Path

from quilt_mcp.analysis.jail import landlock
from quilt_mcp.analysis.jail.libc import call, prctl
from quilt_mcp.analysis.jail.seccomp import install_filter

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 1, 4, 38
_CAPABILITY_VERSION_3 = 0x20080522
_NOBODY = 65534


def enter_jail(
    memory_limit_mb: int, cpu_seconds: int, *, start_threads: Callable[[], None] = lambda: None
) -> dict[str, bool]:
    """Enter the jail.

    Args:
        memory_limit_mb: maximum address space, in MiB.
        cpu_seconds: CPU time after which the kernel kills the process.
        start_threads: starts the threads that the process needs. It is called when only the last layer is missing.

    Returns:
        For each layer, by its name in `messages.LAYERS`, whether this process has entered it.
    """
    return {
        "privileges": _succeeds(_drop_privileges),
        "landlock": _succeeds(_close_files),
        "rlimits": _succeeds(lambda: _limit_resources(memory_limit_mb, cpu_seconds)) and _succeeds(start_threads),
        # last, because it refuses system calls that the others make
        "seccomp": _succeeds(install_filter),
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
    header, nothing = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0), (ctypes.c_uint32 * 6)()
    call("capset", header, nothing)


def _leave_root() -> None:
    """Become "nobody". A container can refuse that; then the process keeps the name of root without its rights."""
    with contextlib.suppress(OSError):
        os.setgroups([])
        os.setresgid(_NOBODY, _NOBODY, _NOBODY)
        os.setresuid(_NOBODY, _NOBODY, _NOBODY)
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # the kernel forgets it when the user changes


def _close_files() -> None:
    landlock.drop_files()
    try:
        list(Path("/").iterdir())
    except PermissionError:
        return
    raise OSError("Landlock does not refuse to list a directory")


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
