"""config://security: what analysed code is held to, from the object that enforces it."""

import functools
import json
import subprocess
import sys
from importlib.util import find_spec

from typing_extensions import TypedDict

from quilt_mcp import runtime_context
from quilt_mcp.analysis.answers import LAYERS, missing_layers
from quilt_mcp.analysis.policy import Policy

_PROBE = (sys.executable, "-I", "-B", "-m", "quilt_mcp.analysis.probe")
_PROBE_SECONDS = 10.0


class Isolation(TypedDict):
    """How the process that analyses is confined on this machine.

    `landlock`, `privileges`, `rlimits` and `seccomp` tell which layers hold, found by trying them.
    """

    accepts_code: bool
    weaker_sandbox_allowed: bool
    landlock: bool
    privileges: bool
    rlimits: bool
    seccomp: bool


class SecurityConfig(TypedDict):
    """What `config://security` answers; lists are sorted."""

    allowed_modules: list[str]
    blocked_modules: list[str]
    dangerous_builtins: list[str]
    memory_limit_mb: int
    code_size_bytes: int
    coverage_threshold: int
    isolation: Isolation


def security() -> SecurityConfig:
    """The rules for code that is analysed: modules it may import, modules and builtins it may not use, and its limits.

    `memory_limit_mb` is the address space of the process that analyses, in MiB; `code_size_bytes` the longest code;
    `coverage_threshold` the most paths that are explored for a condition. `isolation` tells which layers of the sandbox
    hold on this machine, and whether code is accepted at all: it is not where a layer is missing, unless the operator
    accepts less, nor where the extra `analysis` is not installed. Then every module and builtin is refused, and the
    limits are 0.
    """
    policy, layers = Policy.of(runtime_context.settings()), isolation()
    accepts = find_spec("crosshair") is not None and missing_layers(layers, policy) is None
    if not accepts:
        policy = policy.closed()
    return {
        "allowed_modules": sorted(policy.allowed_modules),
        "blocked_modules": sorted(policy.blocked_modules),
        "dangerous_builtins": sorted(policy.dangerous_builtins),
        "memory_limit_mb": policy.memory_limit_mb,
        "code_size_bytes": policy.code_size_bytes,
        "coverage_threshold": policy.coverage_threshold,
        "isolation": {
            "accepts_code": accepts,
            "weaker_sandbox_allowed": policy.allow_weaker_sandbox,
            "landlock": layers["landlock"],
            "privileges": layers["privileges"],
            "rlimits": layers["rlimits"],
            "seccomp": layers["seccomp"],
        },
    }


def isolation() -> dict[str, bool]:
    """For each layer of the jail whether it holds on this machine; a new dictionary each time.

    A process of a few milliseconds enters the jail and tries, once in the life of the server. It imports no analyser.
    """
    return dict(_tried())


@functools.cache
def _tried() -> dict[str, bool]:
    nothing = dict.fromkeys(LAYERS, False)
    if sys.platform != "linux":
        return nothing  # Landlock, seccomp and handles of processes are Linux's
    try:
        probe = subprocess.run(_PROBE, env={}, cwd="/", capture_output=True, timeout=_PROBE_SECONDS, check=True)  # noqa: S603 - our own module
        tried: dict[str, bool] = json.loads(probe.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return nothing
    return nothing | tried
