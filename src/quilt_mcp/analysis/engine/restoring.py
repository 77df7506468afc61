"""Put modules back into the state before the runs, so that each run is a first call of a fresh module.

What no attribute or name shows, such as the state of an iterator, cannot be put back.
"""

import copy
import decimal
import functools
import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from types import CellType, FunctionType, ModuleType
from typing import Any

from quilt_mcp.analysis.engine.states import is_filled, walk

_CACHED = type(functools.cache(id))


def keep_state(modules: Sequence[ModuleType]) -> Callable[[int], None]:
    """Return a function that puts the state of modules and the decimal context back, and seeds the random numbers."""
    own = {one.__name__ for one in modules}
    parts = [part for one in modules for value in list(vars(one).values()) for part in walk(value, own)]
    restoring = [restore for one in (*modules, *parts) for restore in _keep(one, own)]
    context = decimal.getcontext().copy()

    def restore_all(seed: int) -> None:
        random.seed(seed)
        decimal.setcontext(context.copy())
        for restore in restoring:
            restore()

    return restore_all


def _keep(value: Any, own: set[str]) -> Iterator[Callable[[], object]]:
    """Yield functions that put the content of a value back, but not that of its parts."""
    if isinstance(value, list | bytearray):
        yield functools.partial(value.__setitem__, slice(None), value[:])
    elif isinstance(value, dict | set):
        yield functools.partial(_refill, value.clear, value.update, copy.copy(value))
    elif isinstance(value, deque):
        yield functools.partial(_refill, value.clear, value.extend, [*value])
    elif isinstance(value, _CACHED):
        yield value.cache_clear
    if isinstance(value, FunctionType):
        yield from (functools.partial(setattr, one, "cell_contents", one.cell_contents) for one in _list_cells(value))
    elif isinstance(value, type) and value.__module__ in own:
        yield functools.partial(_reset_class, value, dict(vars(value)))
    elif isinstance(value, ModuleType) or (type(value).__module__ in own and hasattr(value, "__dict__")):
        yield functools.partial(_refill, vars(value).clear, vars(value).update, dict(vars(value)))


def _refill(clear: Callable[[], None], fill: Callable[[Any], object], content: object) -> None:
    clear()
    fill(content)


def _list_cells(function: FunctionType) -> list[CellType]:
    return [one for one in function.__closure__ or () if is_filled(one)]


def _reset_class(cls: type, before: dict[str, object]) -> None:
    for name in [one for one in vars(cls) if one not in before]:
        delattr(cls, name)
    for name, value in before.items():
        if not name.startswith("__") and vars(cls).get(name) is not value:
            setattr(cls, name, value)
