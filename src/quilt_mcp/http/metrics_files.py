"""The files in which worker processes keep their metrics. Needs fcntl, which Windows does not have.

prometheus_client keeps the files of each process forever, so each renewal of the workers would add some 200 KB.
"""

import fcntl
import os
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from prometheus_client.mmap_dict import MmapedDict

SUMS = ("counter", "histogram")
ENDED = "ended"
"""Stands for the number of a process in the names of the files with the sums of all processes that ended."""


@contextmanager
def without_ended_processes(directory: Path) -> Iterator[None]:
    """Add up the counters of the processes that ended, and remove their gauges. No other process does so meanwhile."""
    with (directory / "lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for path in directory.glob("gauge_live*.db"):
            if _has_ended(path):
                path.unlink()
        for kind in SUMS:
            if ended := [path for path in directory.glob(f"{kind}_*.db") if _has_ended(path)]:
                _add_up(kind, ended, directory)
        yield


def _has_ended(path: Path) -> bool:
    number = path.stem.rpartition("_")[2]
    if number == ENDED:
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except PermissionError:  # the id belongs to another user's process now
        return False
    return False


def _add_up(kind: str, ended: list[Path], directory: Path) -> None:
    before, new = directory / f"{kind}_{ENDED}.db", directory / f"{kind}_{ENDED}.new"
    sums: defaultdict[str, float] = defaultdict(float)
    for path in (*ended, *([before] if before.exists() else [])):
        # prometheus_client has no annotations here
        for key, value, _, _ in MmapedDict.read_all_values_from_file(path):  # type: ignore[no-untyped-call]  # of prometheus_client
            sums[key] += value
    new.unlink(missing_ok=True)
    written = MmapedDict(new)  # type: ignore[no-untyped-call]  # the library has no annotations here
    for key, value in sums.items():
        written.write_value(key, value, 0.0)  # type: ignore[no-untyped-call]  # of prometheus_client
    written.close()  # type: ignore[no-untyped-call]  # of prometheus_client
    new.replace(before)
    for path in ended:
        path.unlink()
