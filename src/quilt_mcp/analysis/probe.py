"""Try the jail: enter it, and see whether each layer holds. `python -m quilt_mcp.analysis.probe` prints the result.

The process that tries is in the jail afterwards and of no other use.
"""

import json
import os
import resource
import socket
import sys
from collections.abc import Callable
from pathlib import Path

from quilt_mcp.analysis import jail
from quilt_mcp.analysis.answers import LAYERS
from quilt_mcp.analysis.policy import Policy

_CPU_SECONDS = 10


def layers_that_hold() -> dict[str, bool]:
    """For each layer whether it took hold, and whether what it withholds is out of reach."""
    limit = Policy().memory_limit_mb
    entered = jail.enter(limit, _CPU_SECONDS)
    tried = {
        "privileges": True,  # gaining them would take a system call that the others withhold
        "landlock": _is_refused(lambda: list(Path("/").iterdir()))
        and _is_refused(Path("/proc/self/status").read_bytes),
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
    json.dump(layers_that_hold(), sys.stdout)
