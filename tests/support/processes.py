"""The processes of this machine. Needs Linux."""

from pathlib import Path


def children(pid: int) -> list[int]:
    """Return the processes that the main thread of this one has started."""
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()]


def command_line(pid: int) -> bytes:
    """Return the command line of a process; nothing if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def descendants(pid: int) -> set[int]:
    """Return the processes below this one, without those that have ended."""
    found: dict[int, set[int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            number, _, rest = status.read_text(encoding="utf-8").partition(" (")
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has just ended
        state, parent = rest.rpartition(") ")[2].split()[:2]
        if state not in "ZX":  # X: it has ended, and the kernel removes it at this moment
            found.setdefault(int(parent), set()).add(int(number))
    below: set[int] = set()
    waiting = [pid]
    while waiting:
        new = found.get(waiting.pop(), set()) - below
        below |= new
        waiting += new
    return below


def is_running(pid: int) -> bool:
    """Return whether the process exists and has not ended."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(") ")[2].split()[0] not in "ZX"
