"""Enter the jail and try whether each layer works. `-m quilt_mcp.analysis.jail.probe` prints the result.

A process that has tried stays in the jail and cannot do anything else.
"""

import json
import os
import resource
import socket
import sys
from collections.abc import Callable
from pathlib import Path

from quilt_mcp.analysis.jail.layers import enter_jail
from quilt_mcp.analysis.messages import LAYERS
from quilt_mcp.analysis.policy import Policy

_CPU_SECONDS = 10


def try_layers() -> dict[str, bool]:
    """Return for each layer whether this process has entered it and is refused what the layer prevents."""
    limit = Policy().memory_limit_mb
    entered = enter_jail(limit, _CPU_SECONDS)
    tried = {
        "privileges": True,  # the system calls that would gain privileges are refused by the other layers
        "landlock": _is_refused(Path("/proc/self/status").read_bytes),
        "rlimits": max(resource.getrlimit(resource.RLIMIT_AS)) <= limit << 20,
        "seccomp": _is_refused(lambda: socket.socket().close()) and _is_refused(os.fork),
    }
    return {layer: entered[layer] and tried[layer] for layer in sorted(LAYERS)}


def _is_refused(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except PermissionError:
        return True
    return False


if __name__ == "__main__":
    json.dump(try_layers(), sys.stdout)
