"""How objects of analysed code were made: their attributes, and arguments of their class that make equal ones."""

import inspect
from collections.abc import Mapping
from itertools import permutations

_MOST_OPEN = 2


def read_attributes(value: object) -> dict[str, object]:
    """Return the attributes in `__dict__` and in slots."""
    found = dict(getattr(value, "__dict__", {}))
    for base in type(value).__mro__:
        names = base.__dict__.get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            if not name.startswith("__") and hasattr(value, name):
                found[name] = getattr(value, name)
    return found


def find_arguments(value: object, attributes: Mapping[str, object]) -> dict[str, object] | None:
    """Return arguments with which the class makes an equal object; None if they are not known.

    A parameter takes the attribute of its name, also with an underscore before it, else one that no parameter names.
    """
    cls = type(value)
    if cls.__init__ is object.__init__:
        return None if attributes else {}
    try:
        parameters = inspect.signature(cls).parameters
        stored = {name: _find_stored(name, attributes) for name in parameters}
        found = {name: attributes[key] for name, key in stored.items() if key is not None}
        open_names = [one.name for one in parameters.values() if stored[one.name] is None and one.default is one.empty]
        others = [one for key, one in attributes.items() if key not in stored.values()]
        for chosen in permutations(others, len(open_names)) if len(open_names) <= _MOST_OPEN else ():
            arguments = {**found, **dict(zip(open_names, chosen, strict=True))}
            if read_attributes(cls(**arguments)) == attributes:
                return {name: arguments[name] for name in parameters if name in arguments}
    except Exception:  # noqa: BLE001 - the class is analysed code
        return None
    return None


def _find_stored(name: str, attributes: Mapping[str, object]) -> str | None:
    return next((key for key in (name, f"_{name}") if key in attributes), None)
