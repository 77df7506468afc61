"""Make classes immutable, so that no code can change the analyser or the libraries that it uses.

CPython refuses to change a class with the flag Py_TPFLAGS_IMMUTABLETYPE, by an assignment as well as in a decorator or
another library function. It has the flag for classes that are written in C; this module sets it on the others.
"""

import ctypes
from collections.abc import Iterable, Iterator

_IMMUTABLE = 1 << 8  # Py_TPFLAGS_IMMUTABLETYPE
# The position of tp_flags in PyTypeObject: 3 words of PyObject_VAR_HEAD and 18 of other fields are before it
_FLAGS_AT = 21 * ctypes.sizeof(ctypes.c_void_p)


def freeze_classes(classes: Iterable[type]) -> None:
    """Make these classes immutable. This cannot be undone.

    Raises:
        OSError: this Python has another layout of classes. The process must not analyse anything then.
    """
    for cls in classes:
        flags = ctypes.c_ulong.from_address(id(cls) + _FLAGS_AT)
        if flags.value != cls.__flags__:
            raise OSError("this Python stores the flags of a class elsewhere")
        if not flags.value & _IMMUTABLE:
            flags.value |= _IMMUTABLE


def find_classes(*, without: Iterable[type] = ()) -> Iterator[type]:
    """Yield every class of this process except these."""
    seen: set[type] = {object}
    waiting: list[type] = [object]
    while waiting:
        new: set[type] = {*type.__subclasses__(waiting.pop())} - seen
        seen |= new
        waiting += new
    yield from seen.difference(without)
