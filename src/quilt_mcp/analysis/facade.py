"""The second barrier: what `import` and the builtins look like to analysed code.

An import yields a module made for the code, with the public names of the real one and no modules among them. Functions
and classes are the real ones, because the analyser knows them by identity.
"""

import ast
import builtins
import linecache
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType, SimpleNamespace
from typing import Any

from quilt_mcp.analysis.loaded import FILE_NAME, MODULE_NAME
from quilt_mcp.analysis.policy import Policy

# Public names that allowed modules do not show, by what they would give.
WITHHELD: Mapping[str, frozenset[str]] = {
    "abc": frozenset({"ABCMeta"}),  # called with three arguments it makes a class of any names
    "dataclasses": frozenset({"make_dataclass"}),  # code from names that are text
    "enum": frozenset({"EnumMeta", "EnumType", "global_enum"}),  # makes classes; writes into other modules
    "functools": frozenset(
        # attributes by name, among them __doc__ and __wrapped__; annotations evaluated
        {"WRAPPER_ASSIGNMENTS", "WRAPPER_UPDATES", "singledispatch", "singledispatchmethod", "update_wrapper", "wraps"}
    ),
    "operator": frozenset({"attrgetter", "methodcaller"}),  # attributes by computed name
    "random": frozenset({"SystemRandom"}),  # the operating system's numbers: no path repeats
    "string": frozenset({"Formatter"}),  # attributes by computed name
    "typing": frozenset(
        # text evaluated; functools.wraps by another name; `type` itself, as the origin of typing.Type
        {"ForwardRef", "evaluate_forward_ref", "get_args", "get_origin", "get_type_hints", "no_type_check_decorator"}
    ),
    "typing_extensions": frozenset(
        {"ForwardRef", "evaluate_forward_ref", "get_annotations", "get_args", "get_origin", "get_original_bases"}
        | {"get_type_hints", "no_type_check_decorator", "type_repr"}
    ),
}


def facade(name: str) -> ModuleType:
    """The module of this name, as analysed code sees it."""
    real = import_module(name)
    public = getattr(real, "__all__", None) or [one for one in vars(real) if not one.startswith("_")]
    shown = {one: getattr(real, one) for one in public if one not in WITHHELD.get(name, ())}
    module = ModuleType(name)
    vars(module).update({one: value for one, value in shown.items() if not isinstance(value, ModuleType)})
    module.__all__ = sorted(vars(module).keys() & shown.keys())  # type: ignore[attr-defined] # what `import *` takes
    return module


def restricted_builtins(policy: Policy) -> dict[str, Any]:
    """The permitted builtins, with an `import` that yields facades and a `type` that only asks."""
    names = {one: getattr(builtins, one) for one in policy.permitted_builtins if hasattr(builtins, one)}
    return names | {"__import__": _importer(policy), "__build_class__": builtins.__build_class__, "type": type_of}


def type_of(value: object) -> type:
    """The type of a value. Not of a class: that would be a metaclass, which makes classes of any names.

    Raises:
        TypeError: the value is a class.
    """
    found = type(value)
    if issubclass(found, type):
        raise TypeError("the type of a class is not open to analysed code")
    return found


def load_module(source: str, policy: Policy, names: Mapping[str, Any] | None = None) -> ModuleType:
    """Run canonical source as the module of analysed code, in place of the one before.

    Args:
        source: as the gate wrote it, or made by us from its tree.
        policy: what the code may use.
        names: what the module's namespace holds beforehand.

    Raises:
        BaseException: whatever the code raises.
    """
    module = ModuleType(MODULE_NAME)
    module.__file__ = FILE_NAME
    module.__loader__ = SimpleNamespace(get_source=lambda _: source)  # inspect asks for no more
    vars(module).update({"__builtins__": restricted_builtins(policy), **(names or {})})
    linecache.cache[FILE_NAME] = (len(source), None, source.splitlines(keepends=True), FILE_NAME)
    sys.modules[MODULE_NAME] = module
    exec(compile(ast.parse(source), FILE_NAME, "exec", dont_inherit=True), vars(module))  # noqa: S102 - the purpose
    return module


def _importer(policy: Policy) -> Callable[..., ModuleType]:
    loaded: dict[str, ModuleType] = {}

    def module(name: str) -> ModuleType:
        if name not in policy.allowed_modules:
            raise ImportError("this module is not allowed")
        if name not in loaded:
            loaded[name] = facade(name)
        return loaded[name]

    def guarded_import(
        name: str, globals_: Any = None, locals_: Any = None, fromlist: tuple[str, ...] = (), level: int = 0
    ) -> ModuleType:
        del globals_, locals_  # the code's namespaces have no say
        if level:
            raise ImportError("relative imports are not allowed")
        found = module(name)
        top, _, rest = name.partition(".")
        if not rest or fromlist:
            return found
        setattr(module(top), rest, found)  # `import collections.abc` binds `collections`
        return module(top)

    return guarded_import
