"""The warm parent of all analyses: imports the analyser once, then forks one child for each request.

It is started with an empty environment, its end of the control socket as stdin, and nothing else. It never sees a
request: that goes to the child in a file in memory, and the answer comes back over a socket that only the child and the
server hold. It ends when the server's end of the control socket closes, however the server ended, and its children end
with it.
"""

import gc
import json
import os
import resource
import signal
import socket
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, NoReturn

from quilt_mcp.analysis import jail, libc, probe, worker
from quilt_mcp.analysis.answers import Answer, error
from quilt_mcp.analysis.policy import ALLOWED_MODULES

ANSWER_BYTES = 256 * 1024
_PR_SET_PDEATHSIG = 1
# Modules that would be imported late, when the child is in the jail, where no file of machine code can be loaded
_LATE_MODULES = (
    *("_strptime", "difflib", "encodings.idna", "inspect", "traceback", "unicodedata"),
    *("_codecs_cn", "_codecs_hk", "_codecs_iso2022", "_codecs_jp", "_codecs_kr", "_codecs_tw", "_multibytecodec"),
)

Work = Callable[[Mapping[str, Any], Mapping[str, bool], worker.Report], Answer]


def serve(work: Work) -> None:
    """Serve until the server's end of the control socket closes.

    Args:
        work: what a child in the jail does with the request; it gets a way to keep an answer for the case that the
            child is killed for time.
    """
    control = socket.socket(fileno=0)
    warnings.simplefilter("ignore")  # nobody reads them here
    for name in (*ALLOWED_MODULES, *_LATE_MODULES):
        import_module(name)
    control.send(json.dumps({"layers": _tried_layers()}).encode())
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel buries the children
    gc.freeze()  # what is loaded now stays shared with the children
    zygote = os.getpid()
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, 4096, 2)
        if not message:
            return
        if os.fork() == 0:
            request, channel = descriptors
            _be_child(zygote, json.loads(message), request, channel, work)
        for descriptor in descriptors:
            os.close(descriptor)


def _tried_layers() -> dict[str, bool]:
    """The layers of the jail that hold, as a child found by trying."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(theirs, json.dumps(probe.layers_that_hold()).encode())
        finally:
            os._exit(0)
    os.close(theirs)
    with os.fdopen(ours, "rb") as answer:
        found: dict[str, bool] = json.loads(answer.read() or b"{}")
    os.waitpid(child, 0)
    return found


def _be_child(zygote: int, limits: Mapping[str, int], request: int, channel: int, work: Work) -> NoReturn:
    """Live the life of one child, and never come back from it."""
    try:
        _leave_parent(zygote, {request, channel})
        # the server kills by this handle, which can name no other process
        with socket.socket(fileno=os.dup(channel)) as first:
            socket.send_fds(first, [b"."], [os.pidfd_open(os.getpid())])
        layers = jail.enter(limits["memory_limit_mb"], limits["cpu_seconds"])
        with os.fdopen(request, "rb") as file:
            envelope = json.load(file)
        _send(channel, "answer", work(envelope, layers, lambda result: _send(channel, "partial", result)))
    finally:
        os._exit(0)


def _leave_parent(zygote: int, kept: set[int]) -> None:
    """Cut all ties: own session, no standard streams, no other descriptor, and death with the parent."""
    os.setsid()
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != zygote:
        os._exit(0)  # the parent ended before the line above
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(nowhere, standard)
    low, high = sorted(kept)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    for begin, end in ((3, low), (low + 1, high), (high + 1, most)):
        os.closerange(begin, end)


def _send(channel: int, kind: str, result: Mapping[str, Any]) -> None:
    """Write one line of JSON: the answer, or one that stands if no other comes."""
    try:
        line = json.dumps({kind: result}, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError):
        line = json.dumps({kind: error("UnusableResult", "The result cannot be written as JSON.")}).encode()
    if len(line) > ANSWER_BYTES:
        line = json.dumps({kind: error("ResultTooLarge", "The result is longer than 256 KiB.")}).encode()
    left = memoryview(line + b"\n")
    while left:
        left = left[os.write(channel, left) :]


if __name__ == "__main__":
    serve(worker.answer)
