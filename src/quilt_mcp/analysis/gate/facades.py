"""The modules that analysed code imports.

An import returns a facade: a new module with the public names of the real one, except for modules and withheld names.
These are refused when the code uses them. An AttributeError would be an outcome that the code does not have elsewhere.
Functions and classes are the real ones, because CrossHair recognises them by identity. Data is copied. `pathlib` is in
`paths.py`, and `singledispatch` in `dispatch.py`.

`logging` is a module with functions that do nothing. Whether a logger writes depends on the program that uses the code,
so questions about it have no answer: such a path and such a run stay undecided. `random` is the real one, but notes
where code gets random numbers from the operating system: no run with them can be repeated.
"""

import ast
import logging
import random
import sys
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from importlib import import_module
from types import FrameType, ModuleType

from crosshair.tracers import NoTracing
from crosshair.util import CrosshairUnsupported

from quilt_mcp.analysis.gate.changes import list_bound
from quilt_mcp.analysis.gate.dispatch import Dispatcher, MethodDispatcher, is_own_function
from quilt_mcp.analysis.gate.paths import make_pathlib
from quilt_mcp.analysis.gate.rules import WITHHELD, Refused
from quilt_mcp.analysis.messages import FOLDER
from quilt_mcp.analysis.policy import ALLOWED_MODULES

# The modules in allowed packages, apart from private ones. A package has them as attributes only after an import.
SUBMODULES: Mapping[str, frozenset[str]] = {
    "collections": frozenset({"abc"}),
    "json": frozenset({"decoder", "encoder", "scanner", "tool"}),
    "logging": frozenset({"config", "handlers"}),
}


def make_facade(name: str) -> ModuleType:
    """Return the module of this name as analysed code sees it."""
    real = import_module(name)
    if name == "logging":
        return refuse_others(make_logging(), real)
    if name == "pathlib":
        return refuse_others(make_pathlib(), real)
    shown = {one: getattr(real, one) for one in _list_public(real) if one not in WITHHELD.get(name, ())}
    shown |= _OF_FUNCTOOLS if name == "functools" else {}
    module = ModuleType(name)
    vars(module).update(
        {
            one: value.copy() if isinstance(value, list | dict | set) else value
            for one, value in shown.items()
            if not isinstance(value, ModuleType)
        }
    )
    module.__all__ = sorted(vars(module).keys() & shown.keys())  # type: ignore[attr-defined] # for `import *`
    return refuse_others(module, real)


def _list_public(module: ModuleType) -> list[str]:
    """Return the names that `from module import *` binds."""
    return getattr(module, "__all__", None) or [one for one in vars(module) if not one.startswith("_")]


def refuse_others(module: ModuleType, real: ModuleType) -> ModuleType:
    """Let a facade refuse the names that only the real module has. Names of the form __name__ are as if absent."""
    module_name = module.__name__
    known = {one for one in dir(real) if not one.startswith("__")} | SUBMODULES.get(module_name, frozenset())
    others = known - vars(module).keys()

    def refuse(name: str) -> object:
        if name in others:
            raise Refused("withheld", name=f"{module_name}.{name}")
        raise AttributeError(f"module '{module_name}' has no attribute '{name}'")

    vars(module)["__getattr__"] = refuse
    return module


def check_star_imports(tree: ast.Module, known: Collection[str] = ()) -> None:
    """Check that the code uses no name that only the real module gives it by `from module import *`.

    `known` are other names that the code has.
    """
    refused = {
        name: node
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.names[0].name == "*"
        for name in _list_refused(node.module or "")
    }
    nodes = list(ast.walk(tree)) if refused else ()
    bound = {name for node in nodes for name in list_bound(node)} | {*known}
    bound |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    for node in nodes:
        if isinstance(node, ast.Name) and node.id in refused and node.id not in bound:
            raise Refused("withheld", node.lineno, f"{refused[node.id].module}.{node.id}")


def _list_refused(module_name: str) -> Collection[str]:
    """Return the names that `from module_name import *` binds with the real module, but not with its facade."""
    if module_name not in ALLOWED_MODULES:
        return ()  # another file of the project
    return {*_list_public(import_module(module_name))} - {*_list_public(make_facade(module_name))}


_COPIED = ("__name__", "__qualname__", "__doc__", "__module__")


def wraps(wrapped: object) -> Callable[[object], object]:
    """Make a decorator as the one of the library does."""
    return lambda wrapper: update_wrapper(wrapper, wrapped)


def update_wrapper(wrapper: object, wrapped: object) -> object:
    """Give a function of the code the name, the documentation and the attributes of another one.

    The function of the library sets any attribute of any object.
    """
    if is_own_function(wrapper) and is_own_function(wrapped):
        for name in _COPIED:
            setattr(wrapper, name, getattr(wrapped, name))
        vars(wrapper).update(vars(wrapped), __wrapped__=wrapped)
    return wrapper


_OF_FUNCTOOLS: Mapping[str, object] = {
    "singledispatch": Dispatcher,
    "singledispatchmethod": MethodDispatcher,
    "update_wrapper": update_wrapper,
    "wraps": wraps,
}
_LEVELS = {"NOTSET": 0, "DEBUG": 10, "INFO": 20, "WARNING": 30, "WARN": 30, "ERROR": 40, "CRITICAL": 50, "FATAL": 50}
_METHODS = ("debug", "info", "warning", "warn", "error", "exception", "critical", "fatal", "log")
_CONFIGURES = ("basicConfig", "disable", "captureWarnings", "addLevelName", "shutdown")
_SETTABLE = frozenset({"propagate", "disabled", "level"})
_ROOT = "root"
_no_tracing: Callable[[], AbstractContextManager[object]] = NoTracing


def _do_nothing(*_: object, **__: object) -> None:
    """Take any arguments."""


def _ask(*_: object, **__: object) -> None:
    raise CrosshairUnsupported  # the configuration of the program decides it


class Logger:
    """A logger that writes nothing and does not know its configuration."""

    debug = info = warning = warn = error = exception = critical = fatal = log = staticmethod(_do_nothing)
    setLevel = addHandler = removeHandler = addFilter = removeFilter = staticmethod(_do_nothing)  # noqa: N815 - as there
    isEnabledFor = getEffectiveLevel = hasHandlers = staticmethod(_ask)  # noqa: N815 - as there
    level = propagate = disabled = handlers = filters = parent = property(_ask)

    def __init__(self, name: str, level: object = 0) -> None:
        del level
        self.name = name

    def __setattr__(self, name: str, value: object) -> None:
        """Accept a configuration without effect, and refuse other attributes unless the code defines the class."""
        if name in _SETTABLE:
            return
        if name != "name" and type(self) is Logger:
            raise Refused("store")
        object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> object:
        """Refuse the attributes that only the real class has."""
        if not name.startswith("__") and hasattr(logging.Logger, name):
            raise Refused("withheld", name=f"logging.Logger.{name}")
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def getChild(self, suffix: str) -> "Logger":  # noqa: N802 - the name in the library
        return get_logger(suffix if self.name == _ROOT else f"{self.name}.{suffix}")


_LOGGERS: dict[str, Logger] = {}


def get_logger(name: str | None = None) -> Logger:
    """Return the logger of this name. It is the same object each time, unless the name is symbolic."""
    if not name:
        name = _ROOT
    if not isinstance(name, str):
        raise TypeError("A logger name must be a string")
    with _no_tracing():
        if type(name) is str:  # a symbolic name is of this type only while CrossHair traces
            return _LOGGERS.setdefault(name, Logger(name))
    return Logger(name)


def make_logging() -> ModuleType:
    module = ModuleType("logging")
    vars(module).update(_LEVELS)
    vars(module).update(dict.fromkeys((*_METHODS, *_CONFIGURES), _do_nothing))
    vars(module).update({"Logger": Logger, "getLogger": get_logger})
    vars(module)["__all__"] = sorted(name for name in vars(module) if not name.startswith("_"))
    return module


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
