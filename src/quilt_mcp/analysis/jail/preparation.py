"""What a process does before it enters the jail, because it cannot do so afterwards.

In the jail it can neither open a file nor start a thread. So the zygote imports every module that the standard library
and the analyser import on first use, and each child starts the threads of the solver's timers.
"""

import encodings
import pkgutil
import sys
from contextlib import suppress
from importlib import import_module

import z3  # type: ignore[import-untyped] # z3 ships no type information

from quilt_mcp.analysis.gate.submission import admit_request
from quilt_mcp.analysis.policy import ALLOWED_MODULES, Policy

# Modules that others import inside a function
_LATE_MODULES = (
    *("_strptime", "crosshair.pathing_oracle", "difflib", "inspect", "traceback", "tracemalloc", "unicodedata"),
    *(("_pylong",) if sys.version_info >= (3, 12) else ()),
    *("_codecs_cn", "_codecs_hk", "_codecs_iso2022", "_codecs_jp", "_codecs_kr", "_codecs_tw", "_multibytecodec"),
)
# Each solver timer that runs within another one takes a thread. z3 keeps the threads for later timers.
_TIMERS = 4
_LONG_MS = 60_000
_EXAMPLE = 'def f(x: int) -> int:\n    """post: _ > x"""\n    return x + 1\n'


def import_late_modules() -> None:
    """Import the modules that analysed code and the analyser can need later."""
    for name in (*ALLOWED_MODULES, *_LATE_MODULES):
        import_module(name)
    for codec in pkgutil.iter_modules(encodings.__path__):
        with suppress(ImportError):  # the encodings of another operating system
            import_module(f"encodings.{codec.name}")


def admit_example() -> None:
    """Let the gate check a program, so that its children find the caches of the libraries filled."""
    admit_request({"tool": "symbolic_check", "code": _EXAMPLE, "function_name": "f"}, Policy())


def start_solver_threads() -> None:
    """Let z3 start the threads of its timers."""
    tactic = z3.Tactic("skip")
    for _ in range(_TIMERS):
        tactic = z3.TryFor(tactic, _LONG_MS)
    tactic(z3.Goal())
