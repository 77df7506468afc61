"""What `import logging` gives to analysed code: a module with functions that do nothing.

Whether a logger writes depends on the program that uses the code. So questions about it have no answer: such a path and
such a run stay undecided.
"""

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import ModuleType

from crosshair.tracers import NoTracing
from crosshair.util import CrosshairUnsupported

from quilt_mcp.analysis.gate.rules import Refused

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
        """Accept a configuration without effect.

        Raises:
            Refused: it is another attribute, and the code does not define the class.
        """
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
        """Return the logger below this one."""
        return get_logger(suffix if self.name == _ROOT else f"{self.name}.{suffix}")


_LOGGERS: dict[str, Logger] = {}


def get_logger(name: str | None = None) -> Logger:
    """Return the logger of this name. It is the same object each time, unless the name is symbolic.

    Raises:
        TypeError: the name is not a string.
    """
    if not name:
        name = _ROOT
    if not isinstance(name, str):
        raise TypeError("A logger name must be a string")
    with _no_tracing():
        if type(name) is str:
            return _LOGGERS.setdefault(name, Logger(name))
    return Logger(name)


def make_logging() -> ModuleType:
    """Return the module."""
    module = ModuleType("logging")
    vars(module).update(_LEVELS)
    vars(module).update(dict.fromkeys((*_METHODS, *_CONFIGURES), _do_nothing))
    vars(module).update({"Logger": Logger, "getLogger": get_logger})
    vars(module)["__all__"] = sorted(name for name in vars(module) if not name.startswith("_"))
    return module
