"""Notes where analysed code gets random numbers from the operating system. No run with them can be repeated.

They are noted when they are drawn: the code can have any name for a generator.
"""

import random
import sys
from types import FrameType

from quilt_mcp.analysis.gate.project import FOLDER

_STARTS = frozenset({"__init__", "__new__", "seed"})
_NOTES = "__unseeded__"  # code cannot use such a name


def watch_generators() -> None:
    """Note from now on which lines create or seed a generator without a seed. This cannot be undone.

    A subclass with a start of its own counts as one: it can leave out the seed.
    """
    lines: list[int] = []
    seed_plain = random.Random.seed
    begin_plain = vars(random.Random)["__init_subclass__"].__func__

    def seed(self: random.Random, a: float | str | bytes | bytearray | None = None, version: int = 2) -> None:
        if a is None:
            _note(lines, sys._getframe(1))  # noqa: SLF001 - there is no public access to the running line
        seed_plain(self, a, version)

    def begin(cls: type[random.Random], /, **kwargs: object) -> None:
        begin_plain(cls, **kwargs)
        if not _STARTS.isdisjoint(vars(cls)):
            _note(lines, sys._getframe(1))  # noqa: SLF001 - as above

    vars(seed)[_NOTES] = lines
    random.Random.seed = seed  # type: ignore[method-assign] # the purpose
    random.Random.__init_subclass__ = classmethod(begin)  # type: ignore[assignment] # the purpose


def list_unseeded() -> list[int]:
    """Return the lines that have created or seeded a generator without a seed, in their order."""
    lines: list[int] = vars(random.Random.seed).get(_NOTES, [])
    return lines


def _note(lines: list[int], frame: FrameType | None) -> None:
    """Note the line of analysed code that runs. The analyser copies generators, and copies begin without a seed."""
    while frame is not None and not frame.f_code.co_filename.startswith(FOLDER):
        frame = frame.f_back
    if frame is not None:
        lines.append(frame.f_lineno)
