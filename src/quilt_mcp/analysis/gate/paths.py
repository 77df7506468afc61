"""`pathlib` as analysed code sees it: paths without files.

The library's classes refer to modules such as `posixpath`, and these to `os`. So code gets classes of the same names
that keep a path of the library under a name that no code can use, and ask it. Their results are those of the library.
They have only what is listed here: other attributes of the library's classes, and subclasses, are refused.
"""

import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from enum import Enum
from types import ModuleType
from typing import ClassVar, NoReturn, overload

from crosshair.tracers import NoTracing

from quilt_mcp.analysis.gate.rules import Refused

_MODULE = "pathlib"
# What the library computes must not become part of a path of an analysis
_no_tracing: Callable[[], AbstractContextManager[object]] = NoTracing


class Withheld:
    """An attribute that only the library's object has."""

    def __init__(self, name: str) -> None:
        self.__named__ = name  # code cannot use such a name

    def __get__(self, instance: object, owner: type | None = None) -> NoReturn:
        raise Refused("withheld", name=self.__named__)


def read_text(value: object) -> object:
    """Return a part of a path as the library takes it, or what the library refuses by its type.

    The analyser calls another function in its place for values that it does not know.
    """
    if type(value) is str or isinstance(value, Enum) or not isinstance(value, str):
        return value
    raise Refused("withheld", name="pathlib: a path of a subclass of str")  # its methods would replace those of str


read_text.__qualname__ = "pathlib.PurePath"  # what an analysis calls the operation


def _read_part(value: object) -> object:
    return value.__pure__ if isinstance(value, PurePath) else read_text(value)


def _read_name(value: object) -> str:
    """Return a text for a method that takes nothing else."""
    read = read_text(value)
    if type(read) is not str:
        raise Refused("withheld", name="pathlib: an argument that is no text")
    return read


def _ask(path: pathlib.PurePath, name: str, *arguments: object, **options: object) -> object:
    """Return the result of a method of the library's path."""
    read = {key: read_text(one) for key, one in options.items()}
    if not all(one is True or one is False or one is None for one in read.values()):
        raise Refused("withheld", name="pathlib: an option that is not True or False")
    with _no_tracing():
        try:
            found = getattr(path, name)(*arguments, **read)
        except AttributeError as error:
            raise AttributeError(str(error)) from None  # its attribute `obj` can be the library's
        return _show(found) if isinstance(found, pathlib.PurePath) else found


def _show(path: pathlib.PurePath) -> "PurePath":
    made = object.__new__(PureWindowsPath if isinstance(path, pathlib.PureWindowsPath) else PurePosixPath)
    object.__setattr__(made, "__pure__", path)
    return made


class PurePath:
    """A path of the system on which the analysis runs."""

    __slots__ = ("__pure__",)
    __module__ = _MODULE
    __library__: ClassVar[type[pathlib.PurePath]] = pathlib.PurePath
    __pure__: pathlib.PurePath

    def __new__(cls, *segments: object) -> "PurePath":  # noqa: PYI034 - an instance of another class
        parts = [_read_part(one) for one in segments]
        with _no_tracing():
            return _show(cls.__library__(*parts))  # type: ignore[arg-type] # it refuses what is no text

    def __init_subclass__(cls) -> None:
        if cls.__module__ != _MODULE:
            raise Refused("withheld", name="pathlib: a subclass of PurePath")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), self.__pure__.__reduce__()[1]  # how to copy it, as the library does

    def __str__(self) -> str:
        return str(self.__pure__)

    def __repr__(self) -> str:
        return repr(self.__pure__)

    def __hash__(self) -> int:
        return hash(self.__pure__)

    def __eq__(self, other: object) -> bool:
        return self.__compare__("__eq__", other)

    def __lt__(self, other: object) -> bool:
        return self.__compare__("__lt__", other)

    def __le__(self, other: object) -> bool:
        return self.__compare__("__le__", other)

    def __gt__(self, other: object) -> bool:
        return self.__compare__("__gt__", other)

    def __ge__(self, other: object) -> bool:
        return self.__compare__("__ge__", other)

    def __compare__(self, name: str, other: object) -> bool:
        # the operator of another object would get the library's path
        if not isinstance(other, PurePath):
            return NotImplemented  # type: ignore[no-any-return] # an operator can
        return _ask(self.__pure__, name, other.__pure__)  # type: ignore[return-value] # a truth value as a rule

    def __truediv__(self, other: object) -> object:
        part = _read_part(other)
        return _ask(self.__pure__, "joinpath", part) if isinstance(part, str | pathlib.PurePath) else NotImplemented

    def __rtruediv__(self, other: object) -> object:
        part = read_text(other)
        return _ask(self.__pure__, "__rtruediv__", part) if isinstance(part, str) else NotImplemented

    drive = property(lambda self: self.__pure__.drive)
    root = property(lambda self: self.__pure__.root)
    anchor = property(lambda self: self.__pure__.anchor)
    name = property(lambda self: self.__pure__.name)
    stem = property(lambda self: self.__pure__.stem)
    suffix = property(lambda self: self.__pure__.suffix)
    suffixes = property(lambda self: list(self.__pure__.suffixes))
    parts = property(lambda self: self.__pure__.parts)
    parent = property(lambda self: _show(self.__pure__.parent))
    parents = property(lambda self: _PathParents(repr(self.__pure__.parents), map(_show, self.__pure__.parents)))

    def as_posix(self) -> str:
        return self.__pure__.as_posix()

    def is_absolute(self) -> bool:
        return self.__pure__.is_absolute()

    def joinpath(self, *others: object) -> object:
        return _ask(self.__pure__, "joinpath", *map(_read_part, others))

    def relative_to(self, *other: object, **options: object) -> object:
        return _ask(self.__pure__, "relative_to", *map(_read_part, other), **options)

    def is_relative_to(self, *other: object) -> object:
        return _ask(self.__pure__, "is_relative_to", *map(_read_part, other))

    def with_name(self, name: object) -> object:
        return _ask(self.__pure__, "with_name", _read_name(name))

    def with_stem(self, stem: object) -> object:
        return _ask(self.__pure__, "with_stem", _read_name(stem))

    def with_suffix(self, suffix: object) -> object:
        return _ask(self.__pure__, "with_suffix", _read_name(suffix))

    def match(self, path_pattern: object, **options: object) -> object:
        return _ask(self.__pure__, "match", _read_name(path_pattern), **options)


class PurePosixPath(PurePath):
    """A path of POSIX."""

    __slots__ = ()
    __module__ = _MODULE
    __library__ = pathlib.PurePosixPath


class PureWindowsPath(PurePath):
    """A path of Windows."""

    __slots__ = ()
    __module__ = _MODULE
    __library__ = pathlib.PureWindowsPath


class _PathParents(Sequence[PurePath]):
    """The paths above a path."""

    __slots__ = ("__text__", "__paths__")  # noqa: RUF023 - the order of the parameters
    __module__ = _MODULE

    def __init__(self, text: str, paths: Iterable[PurePath]) -> None:
        self.__text__ = text
        self.__paths__ = tuple(paths)

    def __len__(self) -> int:
        return len(self.__paths__)

    @overload
    def __getitem__(self, index: int) -> PurePath: ...
    @overload
    def __getitem__(self, index: "slice[int | None]") -> Sequence[PurePath]: ...
    def __getitem__(self, index: "int | slice[int | None]") -> PurePath | Sequence[PurePath]:
        if not isinstance(index, slice) and not -len(self) <= index < len(self):
            raise IndexError(index)
        return self.__paths__[index]

    def __repr__(self) -> str:
        return self.__text__


CLASSES: Mapping[str, type[PurePath]] = {one.__name__: one for one in (PurePath, PurePosixPath, PureWindowsPath)}


def _withhold() -> None:
    known = {name for name in dir(PurePath) if name != "__class_getitem__"}
    others = {name for one in CLASSES.values() for name in dir(one.__library__)} - known
    for name in others | {"__bytes__", "__class_getitem__"}:
        if not name.startswith("__") or name in {"__bytes__", "__class_getitem__"}:
            setattr(PurePath, name, Withheld(f"pathlib.PurePath.{name}"))


_withhold()


def make_pathlib() -> ModuleType:
    module = ModuleType(_MODULE)
    vars(module).update(CLASSES, __all__=sorted(CLASSES))
    return module
