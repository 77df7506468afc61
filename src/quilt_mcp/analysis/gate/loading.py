"""Load admitted code as a module that sees restricted builtins and modules. This is the second barrier.

The code of a request and its older version are loaded at once, the other files of its project when they are imported.

Attributes that the code sets, deletes or reads need checks at run time, because only the run knows the object. They are
calls in the compiled code: `x.a = 1` becomes `__owned__(x, line).a = 1`. The canonical source, which analyses show and
parse, does not contain them.
"""

import ast
import builtins
import contextlib
import functools
import linecache
import operator
import random
import sys
import typing
from collections import UserString
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from decimal import Context
from types import FunctionType, MappingProxyType, ModuleType, SimpleNamespace
from typing import TypeVar

from crosshair.core import python_type
from crosshair.tracers import NoTracing
from crosshair.util import ControlFlowException, CrosshairUnsupported, CrossHairValue, NotDeterministic

from quilt_mcp.analysis.gate.admit import Admitted, Submission, find_packages
from quilt_mcp.analysis.gate.changes import Changes, changes_imported
from quilt_mcp.analysis.gate.dispatch import check_registering
from quilt_mcp.analysis.gate.facades import Logger, check_star_imports, list_unseeded, make_facade
from quilt_mcp.analysis.gate.reduction import find_imports, find_unchanged, remove_definitions
from quilt_mcp.analysis.gate.rules import CLOSED_ATTRIBUTES, REGISTER, Interrupted, Refused
from quilt_mcp.analysis.gate.tree import names_base_exception, read_getattr
from quilt_mcp.analysis.messages import FILE_NAME, FOLDER, MODULE_NAME, Report
from quilt_mcp.analysis.policy import Policy

# Modules that C code of the standard library imports on behalf of its caller, such as `strftime`. It takes them from
# `sys.modules` and does not use what the import returns, so this is an empty module.
C_IMPORTS = frozenset({"_pylong", "_strptime", "time"})
_OLD_FILE = f"{FOLDER}old.py"

# The checks must not become part of a path
_no_tracing: Callable[[], AbstractContextManager[object]] = NoTracing

_Value = TypeVar("_Value")
_Tree = TypeVar("_Tree", bound=ast.AST)


def guard_attributes(tree: _Tree, submitted: ast.AST | None = None) -> _Tree:
    """Put the checks into a tree that is about to be compiled. Refusals have the line numbers of `submitted`."""
    lines = {
        id(node): getattr(other, "lineno", 0)
        for node, other in zip(ast.walk(tree), ast.walk(submitted or tree), strict=True)
    }
    guarded: _Tree = ast.fix_missing_locations(_Guarding(lines).visit(tree))
    return guarded


def check_owned(value: _Value, line: int) -> _Value:
    """Return the value if the code can set and delete its attributes: if the code defines it or its class."""
    with _no_tracing():
        if not _is_owned(value):
            raise Refused("store", line)
    return value


def check_formats(value: _Value, line: int) -> _Value:
    """Return the value, whose `format` the code reads, unless it is a text: "{0.a}".format(x) reads `a` unchecked."""
    with _no_tracing():
        kind = python_type(value)
        cls = value if issubclass(kind, type) else kind  # `str.format` is refused like `"".format`
        if issubclass(cls, str | UserString):  # type: ignore[arg-type] # a class here
            raise Refused("format", line)
    return value


def has_attribute(value: object, name: str) -> bool:
    """Return `hasattr(value, name)`, for a proxy of CrossHair that of the value that it stands for."""
    with _no_tracing():
        if type(name) is not str:
            raise TypeError("hasattr() needs a name that does not depend on the arguments")
        if name in CLOSED_ATTRIBUTES or name.startswith("__"):
            raise Refused("attribute")
        if isinstance(value, CrossHairValue):
            if not hasattr(python_type(value), name):
                raise CrosshairUnsupported  # its attributes are not known
            return True
        return hasattr(value, name)


ANALYSER_EXCEPTIONS: tuple[type[BaseException], ...] = (ControlFlowException, NotDeterministic, Interrupted, Refused)
"""What ends a run that code must not end otherwise."""


def get_attribute(value: object, name: str, line: int, *default: object) -> object:
    """Return `getattr(value, name, *default)`. The gate has checked the name."""
    if name == "format":
        check_formats(value, line)
    with _no_tracing():
        if isinstance(value, CrossHairValue) and not hasattr(python_type(value), name):
            raise CrosshairUnsupported  # its attributes are not known
    return getattr(value, name, *default)


GUARDS: Mapping[str, Callable[..., object]] = {
    "__owned__": check_owned,
    "__formats__": check_formats,
    "__registering__": check_registering,
    "__attribute__": get_attribute,
}
"""The checks by their names in the compiled code. The gate lets no code use such names."""


def _is_owned(value: object) -> bool:
    kind = type(value)
    if kind is FunctionType:
        return bool(value.__globals__.get("__name__") == MODULE_NAME)  # type: ignore[attr-defined] # it is a function
    cls = value if issubclass(kind, type) else kind
    if cls.__module__ == MODULE_NAME:
        return True
    return kind in {Context, Logger} or (issubclass(kind, Exception) and kind.__module__ == "builtins")


class _Guarding(ast.NodeTransformer):
    def __init__(self, lines: Mapping[int, int]) -> None:
        self._lines = lines

    def visit_Attribute(self, node: ast.Attribute) -> ast.Attribute:
        self.generic_visit(node)
        stores = not isinstance(node.ctx, ast.Load)
        checks = {"format": "__formats__", REGISTER: "__registering__"}
        if stores or (node.attr in checks and not isinstance(node.value, ast.Constant)):
            guard = "__owned__" if stores else checks[node.attr]
            call = ast.Call(ast.Name(guard, ast.Load()), [node.value, ast.Constant(self._lines[id(node)])], [])
            node.value = ast.copy_location(call, node.value)
        return node

    def visit_Call(self, node: ast.Call) -> ast.Call:
        is_getattr = read_getattr(node) is not None
        self.generic_visit(node)
        if is_getattr:
            node.func = ast.copy_location(ast.Name("__attribute__", ast.Load()), node.func)
            node.args.insert(2, ast.Constant(self._lines[id(node)]))
        return node

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.ExceptHandler:
        if names_base_exception(node.type):
            node.type = ast.copy_location(ast.Name("__exception__", ast.Load()), node)
        self.generic_visit(node)
        return node

    def visit_Try(self, node: ast.Try) -> ast.Try:
        """Let the exceptions of the analyser pass handlers of all exceptions."""
        handles_all = [one for one in node.handlers if one.type is None or names_base_exception(one.type)]
        self.generic_visit(node)
        for one in handles_all:
            passing = ast.ExceptHandler(ast.Name("__analyser__", ast.Load()), None, [ast.Raise()])
            node.handlers.insert(node.handlers.index(one), ast.copy_location(passing, one))
        return node


@dataclass(frozen=True, slots=True)
class Loaded:
    """Admitted code, ready for an analysis."""

    module: ModuleType  # the code as a module, after it has run. `sys.modules` has it under `MODULE_NAME`
    source: str  # the canonical source that the gate wrote
    tree: ast.Module  # the syntax tree of `source`, with the line numbers of the submitted text
    report: Report  # sends a partial answer, which is complete in itself. All of them together must stay below 4 MiB.
    # the other modules of the project that the code has imported, by name
    files: Mapping[str, ModuleType] = field(default_factory=dict)
    old: "Loaded | None" = None  # the older version of the code, if two versions are compared
    other_trees: tuple[ast.Module, ...] = ()  # the syntax trees of the other files and of the older version
    # what the functions of all of them change
    changes: Changes = Changes()  # noqa: RUF009 - it is frozen
    shares_changed: bool = False  # whether two versions share a file of which one changes values
    draws: bool = False  # whether random numbers were drawn when the code was loaded

    @property
    def names(self) -> Mapping[str, object]:
        """The names of the code, and its other files by the names of their modules."""
        return {**self.files, **vars(self.module)}

    @property
    def modules(self) -> list[ModuleType]:
        """Everything with a state that a call can change."""
        return [self.module, *self.files.values(), *([self.old.module] if self.old else [])]

    @property
    def whole_tree(self) -> ast.Module:
        """The code and everything that it can call, as one tree."""
        return ast.Module([statement for tree in (self.tree, *self.other_trees) for statement in tree.body], [])


def restrict_builtins(policy: Policy, files: "ProjectFiles | None" = None) -> dict[str, object]:
    """Return the permitted builtins, with an `import` that returns facades and a `type` that creates no classes."""
    names: dict[str, object] = {
        name: getattr(builtins, name) for name in policy.permitted_builtins if hasattr(builtins, name)
    }
    hidden = {"__import__": _make_import(policy, files), "__build_class__": builtins.__build_class__, **GUARDS}
    handled = {"__analyser__": ANALYSER_EXCEPTIONS, "__exception__": BaseException}
    return names | hidden | handled | {"type": get_type, "hasattr": has_attribute}


def get_type(value: object) -> type:
    """Return the type of a value that is not a class. The type of a class can create classes with any names."""
    found = type(value)
    if issubclass(found, type):
        raise Refused("type")
    return found


def load_module(
    source: str,
    policy: Policy,
    submitted: ast.Module | None = None,  # with the line numbers of the submitted text, for refusals at run time
    *,
    files: "ProjectFiles | None" = None,
    file_name: str = FILE_NAME,  # in tracebacks
    names: Mapping[str, object] = MappingProxyType({}),  # that the module has from the beginning
) -> ModuleType:
    """Run canonical source as the module of analysed code, in place of an earlier one. The code can raise anything."""
    tree = ast.parse(source)
    check_star_imports(submitted or tree, names)
    module = ModuleType(MODULE_NAME)
    module.__file__ = file_name
    module.__loader__ = SimpleNamespace(get_source=lambda _: source)  # all that inspect needs
    vars(module).update(names)
    vars(module)["__builtins__"] = restrict_builtins(policy, files)
    linecache.cache[file_name] = (len(source), None, source.splitlines(keepends=True), file_name)
    sys.modules[MODULE_NAME] = module
    tree = guard_attributes(tree, submitted)
    exec(compile(tree, file_name, "exec", dont_inherit=True), vars(module))  # noqa: S102 - the purpose
    return module


class ProjectFiles:
    """The other files of a project. The first import of one runs it, and adds it to `modules`."""

    def __init__(self, admitted: Mapping[str, Admitted], policy: Policy) -> None:
        self._admitted = admitted
        self._policy = policy
        self._facades: dict[str, ModuleType] = {name: ModuleType(name) for name in find_packages(admitted)}
        self._running: set[str] = set()
        self.modules: dict[str, ModuleType] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._admitted or name in self._facades

    def load(self, name: str) -> ModuleType:
        """Return the module with the public names of the file. A package that runs has only its modules so far.

        `ImportError`: the file imports itself.
        """
        if name in self._running and name not in self._facades:
            raise ImportError("the files import each other")
        if name in self._admitted and name not in self.modules and name not in self._running:
            importer = sys.modules.get(MODULE_NAME)  # whose place the file takes while it runs
            admitted = self._admitted[name]
            self._running.add(name)
            self.modules[name] = module = load_module(
                admitted.source, self._policy, admitted.tree, files=self, file_name=f"{FOLDER}{name}.py"
            )
            resolve_annotations(module)
            self.load_imports(admitted.tree)
            self._running.discard(name)
            if importer is not None:
                sys.modules[MODULE_NAME] = importer
            public = {
                public_name: value for public_name, value in vars(module).items() if not public_name.startswith("_")
            }
            facade = self._facades.setdefault(name, ModuleType(name))
            vars(facade).update(public, __all__=sorted(public))
        return self._facades[name]

    def load_imports(self, tree: ast.Module) -> None:
        """Load what the code imports in functions too, so that a later call changes nothing."""
        for name in sorted(find_imports(tree) & self._admitted.keys() - self._running):
            self.load(name)


def resolve_annotations(module: ModuleType) -> None:
    """Replace the annotations of the module's classes that are texts by types, because others use them elsewhere."""
    for cls in [one for one in vars(module).values() if isinstance(one, type) and one.__module__ == MODULE_NAME]:
        functions = [one for one in vars(cls).values() if isinstance(one, FunctionType)]
        for owner in (cls, *functions):
            if not any(isinstance(one, str) for one in getattr(owner, "__annotations__", {}).values()):
                continue
            with contextlib.suppress(NameError, TypeError):  # then the class cannot be created from its annotations
                owner.__annotations__ = typing.get_type_hints(owner, vars(module), include_extras=True)


def _make_import(policy: Policy, files: ProjectFiles | None) -> Callable[..., ModuleType]:
    loaded: dict[str, ModuleType] = {}

    def load(name: str) -> ModuleType:
        if files is not None and name in files:
            return files.load(name)
        if name in C_IMPORTS and name in sys.modules:
            return ModuleType(name)
        if name not in policy.allowed_modules:
            raise ImportError("this module is not allowed")
        if name not in loaded:
            loaded[name] = make_facade(name)
        return loaded[name]

    def restricted_import(
        name: str, globals_: object = None, locals_: object = None, fromlist: tuple[str, ...] = (), level: int = 0
    ) -> ModuleType:
        del globals_, locals_  # only needed for relative imports
        if level:
            raise ImportError("relative imports are not allowed")
        found = load(name)
        _bind_parts(name, load)
        for part in fromlist or ():
            if files is not None and f"{name}.{part}" in files:
                setattr(found, part, load(f"{name}.{part}"))
        return found if fromlist else load(name.partition(".")[0])

    return restricted_import


def _bind_parts(name: str, load: Callable[[str], ModuleType]) -> None:
    """Bind each part of the name in its package: `import collections.abc` gives `collections`."""
    parts = name.split(".")
    for end in range(len(parts) - 1, 0, -1):
        setattr(load(".".join(parts[:end])), parts[end], load(".".join(parts[: end + 1])))


def load_submission(submission: Submission, report: Report) -> Loaded:
    """Run the code and its older version, which can raise anything. The files run when they are imported."""
    before = random.getstate(), len(list_unseeded())
    loaded = _load(submission, report)
    return replace(loaded, draws=before != (random.getstate(), len(list_unseeded())))


def _load(submission: Submission, report: Report) -> Loaded:
    policy, code, older = submission.policy, submission.code, submission.old
    files = ProjectFiles(submission.files, policy)
    module = load_module(code.source, policy, code.tree, files=files)
    files.load_imports(code.tree)
    others = [*submission.files.values(), *([older] if older else [])]
    trees = tuple(admitted.tree for admitted in others)
    changes = functools.reduce(operator.or_, (admitted.changes for admitted in (code, *others)))
    loaded = Loaded(module, code.source, code.tree, report, files.modules, other_trees=trees, changes=changes)
    if older is None:
        return loaded
    old = _load_older(older, loaded, files, policy)
    return replace(loaded, old=old, shares_changed=_changes_shared_files(submission.files, code, older))


def _load_older(older: Admitted, newer: Loaded, files: ProjectFiles, policy: Policy) -> Loaded:
    """Load the older version. It shares what is the same in both: else the classes of the arguments would differ."""
    functions = {node.name for node in newer.tree.body if isinstance(node, ast.FunctionDef)}
    shared = find_unchanged(older.tree, newer.tree) - functions
    source = ast.unparse(remove_definitions(older.tree, shared)) + "\n"
    names = {name: vars(newer.module)[name] for name in shared if name in vars(newer.module)}
    module = load_module(source, policy, files=files, file_name=_OLD_FILE, names=names)
    files.load_imports(older.tree)
    sys.modules[MODULE_NAME] = newer.module  # loading has put the older one there
    return Loaded(module, source, older.tree, newer.report)


def _changes_shared_files(files: Mapping[str, Admitted], code: Admitted, older: Admitted) -> bool:
    """Return whether a version, or a file that only one of them imports, changes values of files when it starts."""
    of_one = (find_imports(older.tree) ^ find_imports(code.tree)) & files.keys()
    trees = [code.tree, older.tree, *(files[name].tree for name in of_one)]
    return bool(files) and any(map(changes_imported, trees))
