"""The processes of this machine, as Linux tells."""

from pathlib import Path


def descendants(pid: int) -> set[int]:
    """The processes below this one; those that have ended and wait for their parent are not among them."""
    children: dict[int, set[int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            number, _, rest = status.read_text().partition(" (")
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has just ended
        state, parent = rest.rpartition(") ")[2].split()[:2]
        if state != "Z":
            children.setdefault(int(parent), set()).add(int(number))
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        new = children.get(waiting.pop(), set()) - found
        found |= new
        waiting += new
    return found


def is_running(pid: int) -> bool:
    """Whether there is such a process, and it has not ended."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(") ")[2].split()[0] != "Z"
