"""The third barrier, and the real one: what the kernel withholds from the process that analyses, whatever code it runs.

Four layers, each for good and none needing any privilege. They are entered after the process has loaded all that it
needs, and before it has seen a byte of the code.

What remains to code that gets past the gate and the facade: to forge its own answer, to read Python's libraries, and to
learn by stat() whether a path exists. It has the server's user, and nothing of its memory, environment or descriptors.
"""

import ctypes
import resource
import sysconfig
from collections.abc import Callable

from quilt_mcp.analysis import landlock, libc, seccomp

_PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 4, 38
_CAPABILITY_VERSION_3 = 0x20080522


def enter(memory_limit_mb: int, cpu_seconds: int) -> dict[str, bool]:
    """Enter the jail.

    Args:
        memory_limit_mb: the address space, in MiB.
        cpu_seconds: processor time, after which the kernel ends the process.

    Returns:
        For each layer, by its name in `answers.LAYERS`, whether it took hold.
    """
    return {
        "privileges": _takes_hold(_give_up_privileges),
        "landlock": _takes_hold(lambda: landlock.give_up_files(library_directories())),
        "rlimits": _takes_hold(lambda: _limit_resources(memory_limit_mb, cpu_seconds)),
        # last, because the others need calls that it refuses
        "seccomp": _takes_hold(seccomp.allow_listed_calls),
    }


def library_directories() -> list[str]:
    """Where Python's modules lie: the analyser reads its own and the standard library's source."""
    return sorted({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})


def _takes_hold(layer: Callable[[], None]) -> bool:
    try:
        layer()
    except (OSError, ValueError):  # ValueError is what setrlimit raises
        return False
    return True


def _give_up_privileges() -> None:
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1)
    libc.prctl(_PR_SET_DUMPABLE, 0)
    header, nothing = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0), (ctypes.c_uint32 * 6)()
    libc.call("capset", header, nothing)


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
