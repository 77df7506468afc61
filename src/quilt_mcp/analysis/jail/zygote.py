"""The zygote: a process that imports the analyser once and then forks a child for each request.

It starts with an empty environment and with its end of the control socket as stdin. It never sees a request: the child
reads it from a file in memory. The answer goes over a socket that only the child and the server have. The zygote ends
when the server closes the control socket or ends for any reason, and its children end with it.

In the jail a process can neither open a file nor start a thread. So the zygote imports every module that the standard
library and the analyser import on first use, and each child starts the threads of the solver's timers.
"""

import encodings
import gc
import json
import os
import pkgutil
import resource
import signal
import socket
import sys
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from typing import NoReturn

import z3  # type: ignore[import-untyped] # z3 ships no type information

from quilt_mcp.analysis.gate.facades import watch_generators
from quilt_mcp.analysis.jail.layers import enter_jail, prctl
from quilt_mcp.analysis.jail.runner import answer_request
from quilt_mcp.analysis.messages import ANSWER_BYTES, READY, Answer, Envelope, Limits, Report, error
from quilt_mcp.analysis.policy import ALLOWED_MODULES

# Modules that others import inside a function
_LATE_MODULES = (
    *("_strptime", "crosshair.pathing_oracle", "difflib", "inspect", "traceback", "tracemalloc", "unicodedata"),
    *(("_pylong",) if sys.version_info >= (3, 12) else ()),
    *("_codecs_cn", "_codecs_hk", "_codecs_iso2022", "_codecs_jp", "_codecs_kr", "_codecs_tw", "_multibytecodec"),
)
# Each solver timer that runs within another one takes a thread. z3 keeps the threads for later timers.
_TIMERS = 4
_LONG_MS = 60_000


def import_late_modules() -> None:
    """Import the modules that analysed code and the analyser can need later."""
    for name in (*ALLOWED_MODULES, *_LATE_MODULES):
        import_module(name)
    for codec in pkgutil.iter_modules(encodings.__path__):
        with suppress(ImportError):  # the encodings of another operating system
            import_module(f"encodings.{codec.name}")


def start_solver_threads() -> None:
    """Let z3 start the threads of its timers, because the last layer of the jail refuses new ones."""
    tactic = z3.Tactic("skip")
    for _ in range(_TIMERS):
        tactic = z3.TryFor(tactic, _LONG_MS)
    tactic(z3.Goal())


_PR_SET_PDEATHSIG = 1

Work = Callable[[Envelope, Mapping[str, bool], Report], Answer]
"""What a child does in the jail. Its arguments are those of `runner.answer_request`."""


def serve(work: Work) -> None:
    """Fork a child for each request, until the server closes the control socket."""
    control = socket.socket(fileno=0)
    warnings.simplefilter("ignore")  # stderr is not read
    import_late_modules()
    watch_generators()
    control.send(READY)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps the children
    gc.freeze()  # the children share the memory of everything that is loaded now
    zygote = os.getpid()
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, 4096, 2)
        if not message:
            return
        if os.fork() == 0:
            request, channel = descriptors
            _run_child(zygote, json.loads(message), request, channel, work)
        for descriptor in descriptors:
            os.close(descriptor)


def _run_child(zygote: int, limits: Limits, request: int, channel: int, work: Work) -> NoReturn:
    try:
        _detach(zygote, {request, channel})
        # the server kills the child by this pidfd, which cannot refer to another process
        with socket.socket(fileno=os.dup(channel)) as first:
            socket.send_fds(first, [b"."], [os.pidfd_open(os.getpid())])
        layers = enter_jail(limits["memory_limit_mb"], limits["cpu_seconds"], start_threads=start_solver_threads)
        with os.fdopen(request, "rb") as file:
            envelope: Envelope = json.load(file)
        _send(channel, "answer", work(envelope, layers, lambda partial: _send(channel, "partial", partial)))
    finally:
        os._exit(0)


def _detach(zygote: int, kept: set[int]) -> None:
    """Start a new session, end with the zygote, and close all descriptors but two; the standard streams go nowhere."""
    os.setsid()
    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != zygote:
        os._exit(0)  # the zygote ended before the line above
    null = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(null, standard)
    low, high = sorted(kept)
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    for begin, end in ((3, low), (low + 1, high), (high + 1, limit)):
        os.closerange(begin, end)


def _send(channel: int, kind: str, answer: Answer) -> None:
    """Write one line of JSON with an answer or a partial answer."""
    try:
        line = json.dumps({kind: answer}, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        line = json.dumps({kind: error("UnusableResult", "The result cannot be written as JSON.")})
    if len(line) > ANSWER_BYTES:
        line = json.dumps({kind: error("ResultTooLarge", "The result is larger than 256 KiB.")})
    left = memoryview(f"{line}\n".encode("ascii"))
    while left:
        left = left[os.write(channel, left) :]


if __name__ == "__main__":
    serve(answer_request)
