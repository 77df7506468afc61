"""The zygote: a process that imports the analyser once and then forks a child for each request.

It starts with an empty environment and with its end of the control socket as stdin. It never sees a request: the child
reads it from a file in memory. The answer goes over a socket that only the child and the server have. The zygote ends
when the server closes the control socket or ends for any reason, and its children end with it.
"""

import gc
import json
import os
import resource
import signal
import socket
import warnings
from collections.abc import Callable, Mapping
from typing import NoReturn

from quilt_mcp.analysis.gate.randomness import watch_generators
from quilt_mcp.analysis.jail.freezing import find_classes, freeze_classes
from quilt_mcp.analysis.jail.guards import GUARDED_CLASSES
from quilt_mcp.analysis.jail.layers import enter_jail
from quilt_mcp.analysis.jail.libc import prctl
from quilt_mcp.analysis.jail.preparation import admit_example, import_late_modules, start_solver_threads
from quilt_mcp.analysis.jail.probe import try_layers
from quilt_mcp.analysis.jail.runner import answer_request
from quilt_mcp.analysis.jail.writing import Unwritable, write_json
from quilt_mcp.analysis.messages import ANSWER_BYTES, Answer, Envelope, Limits, Report, error

_PR_SET_PDEATHSIG = 1

Work = Callable[[Envelope, Mapping[str, bool], Report], Answer]
"""What a child does in the jail. Its arguments are those of `runner.answer_request`."""


def serve(work: Work) -> None:
    """Fork a child for each request, until the server closes the control socket."""
    control = socket.socket(fileno=0)
    warnings.simplefilter("ignore")  # stderr is not read
    import_late_modules()
    admit_example()
    watch_generators()
    freeze_classes(find_classes(without=GUARDED_CLASSES))
    control.send(json.dumps({"layers": _try_layers_in_child()}).encode())
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


def _try_layers_in_child() -> dict[str, bool]:
    """Return for each layer of the jail whether it works."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(theirs, json.dumps(try_layers()).encode())
        finally:
            os._exit(0)
    os.close(theirs)
    with os.fdopen(ours, "rb") as answer:
        found: dict[str, bool] = json.loads(answer.read() or b"{}")
    os.waitpid(child, 0)
    return found


def _run_child(zygote: int, limits: Limits, request: int, channel: int, work: Work) -> NoReturn:
    """Run a child from its fork to its end."""
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
        line = write_json({kind: answer})
    except (Unwritable, ValueError):
        line = write_json({kind: error("UnusableResult", "The result cannot be written as JSON.")})
    if len(line) > ANSWER_BYTES:
        line = write_json({kind: error("ResultTooLarge", "The result is larger than 256 KiB.")})
    left = memoryview(line + b"\n")
    while left:
        left = left[os.write(channel, left) :]


if __name__ == "__main__":
    serve(answer_request)
