"""A zygote with children that run statements behind the gate and look for objects outside the facades. Tests run it.

It runs each statement as the sandbox does: admitted, with the checks at run time, and with restricted builtins and
modules. Then it walks over everything that code could name: the values of variables, and from each value the attributes
that the gate lets code read, the items, and what class patterns capture.
"""

import ast
import builtins
import gc
import json
import random
import sys
import types
from collections import deque
from collections.abc import Iterator, Mapping
from functools import cache

from quilt_mcp.analysis.gate import dispatch, facades, paths
from quilt_mcp.analysis.gate.admit import admit
from quilt_mcp.analysis.gate.loading import GUARDS, get_type, guard_attributes, has_attribute, load_module
from quilt_mcp.analysis.gate.rules import Refused
from quilt_mcp.analysis.jail import zygote
from quilt_mcp.analysis.jail.guards import install_guards
from quilt_mcp.analysis.messages import MODULE_NAME, Answer, Envelope, Report
from quilt_mcp.analysis.policy import ALLOWED_MODULES, Policy

POLICY = Policy()
# Modules in C or Python that implement the allowed ones; `warnings` has classes of warnings
IMPLEMENTATIONS = {
    *("_abc", "_bisect", "_collections", "_collections_abc", "_decimal", "_functools", "_heapq", "_io", "_json"),
    *("_operator", "_pydecimal", "_pydatetime", "_random", "_sre", "_statistics", "_struct", "_typing", "_thread"),
    *("builtins", "re._constants", "re._parser", "re._compiler", "json.decoder", "json.encoder", "json.scanner"),
    *("types", "contextlib", "numbers", "warnings", "copyreg", "_datetime", "annotationlib", "reprlib", "_string"),
    *("_hashlib", "_blake2", "_md5", "_sha1", "_sha2", "_sha256", "_sha3", "_sha512"),
}
# A statement with this prefix passes no check, so that tests can show what the walk finds
UNCHECKED = "# unchecked\n"
_FACADES = (facades.__name__, dispatch.__name__, paths.__name__)
INTERNAL = (types.FrameType, types.CodeType, types.TracebackType, types.CellType)


def run(envelope: Envelope, layers: Mapping[str, bool], report: Report) -> Answer:
    """Run the statements, a list as JSON, and return the paths to objects outside the facades."""
    del layers, report
    install_guards(POLICY)
    module = load_module("", POLICY)
    names = vars(module)
    for name in ALLOWED_MODULES:
        _execute(f"import {name}", names)
    ran = sum([_execute(statement, names) for statement in json.loads(envelope["request"]["code"])])
    roots = {key: value for key, value in names.items() if not key.startswith("__")}
    permitted = {key: value for key, value in names["__builtins__"].items() if key not in GUARDS and key[:2] != "__"}
    found = list(_walk({**permitted, **roots}, _Judge(module)))
    return {"status": "ran", "value": json.dumps([ran, found[:20]])}


def _execute(statement: str, names: dict[str, object]) -> bool:
    """Run a statement, and return whether it ended without an exception."""
    try:
        if statement.startswith(UNCHECKED):
            exec(statement, {"__builtins__": builtins}, names)  # noqa: S102 - the purpose of this script
            return True
        tree = guard_attributes(ast.parse(admit(statement, POLICY).source))
        exec(compile(tree, "statement", "exec", dont_inherit=True), names)  # noqa: S102 - the purpose of this script
    except (Exception, Refused):  # noqa: BLE001 - a statement can raise anything
        return False
    return True


class _Judge:
    """Tells which objects are outside the facades."""

    def __init__(self, module: types.ModuleType) -> None:
        self._allowed = {*ALLOWED_MODULES, *IMPLEMENTATIONS, MODULE_NAME, "typing", *_FACADES}
        self._own = module
        self._replaced = {id(get_type), id(has_attribute), id(random.Random.seed)}
        self._globals = {id(vars(one)) for one in list(sys.modules.values()) if hasattr(one, "__dict__")}
        self._refused = {
            id(value)
            for name, value in vars(builtins).items()
            if callable(value) and name not in POLICY.permitted_builtins
        }
        self._young = {id(one) for one in gc.get_objects()}  # without what the zygote has frozen

    def judge(self, value: object) -> str | None:
        """Return why the value is outside, or None."""
        if id(value) in self._replaced:
            return None
        if isinstance(value, dict | list | set | bytearray):
            return self._judge_container(value)
        kind = value if isinstance(value, type | types.FunctionType | types.BuiltinFunctionType) else type(value)
        home = getattr(kind, "__module__", None)
        reasons = {
            "part of the interpreter": isinstance(value, INTERNAL),
            "a module": isinstance(value, types.ModuleType) and self._is_real(value),
            "a metaclass": isinstance(value, type) and issubclass(value, type),
            "a refused builtin": id(value) in self._refused,
            f"of the module {home}": isinstance(home, str) and home not in self._allowed,
        }
        return next((reason for reason, applies in reasons.items() if applies), None)

    def _is_real(self, module: types.ModuleType) -> bool:
        return sys.modules.get(module.__name__) is module and module is not self._own

    def _judge_container(self, value: object) -> str | None:
        if id(value) in self._globals and value is not vars(self._own):
            return "the names of a module"
        if gc.is_tracked(value) and id(value) not in self._young:
            return "data that others use"
        return None


def _walk(roots: Mapping[str, object], judge: _Judge) -> Iterator[str]:
    seen: dict[int, object] = {}
    waiting = deque(roots.items())
    while waiting:
        path, value = waiting.popleft()
        if id(value) in seen or type(value) in (int, str, float, bytes, bool, complex, type(None)):
            continue
        seen[id(value)] = value
        if why := judge.judge(value):
            yield f"{path}: {why}"
            continue
        if path.count(".") < 8 and len(seen) < 20_000:
            waiting += [(f"{path}{step}", one) for step, one in _find_parts(value)]


def _find_parts(value: object) -> Iterator[tuple[str, object]]:
    names = {*dir(value), *dir(type(value)), *(dir(type(type(value))) if isinstance(value, type) else ())}
    for name in sorted(names):
        if _is_readable(name):
            try:
                yield f".{name}", get_type(value) if name == "__class__" else getattr(value, name)
            except (Exception, Refused):  # noqa: BLE001, S112 - a property can raise anything
                continue
    if isinstance(value, dict | types.MappingProxyType):
        yield from ((f"[{key!r:.20}]", one) for key, one in list(value.items())[:200])
        yield from (("{key}", key) for key in list(value)[:200])
    elif isinstance(value, list | tuple | set | frozenset | deque):
        yield from (("[]", one) for one in list(value)[:200])


@cache
def _is_readable(name: str) -> bool:
    try:
        admit(f"x.{name}", POLICY)
    except Refused:
        return False
    return name != "format"  # the run refuses it for texts, and nothing else has a method of this name


if __name__ == "__main__":
    zygote.serve(run)
