"""The judge of the soundness table: plain Python runs each witness, without the analyser."""

import ast
import copy
import inspect
import textwrap
from types import FunctionType, SimpleNamespace
from typing import Any

from tests.analysis.programs import PROGRAMS, Program

WITNESSED = [
    (tool, program) for tool, programs in PROGRAMS.items() for program in programs if program.witness is not None
]


def load(program: Program) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": __name__}  # of a module that exists: dataclasses look texts of types up in it
    exec(compile(program.code, "<program>", "exec", dont_inherit=True), names)  # noqa: S102 - a program of the table
    return names


def find_clauses(function: FunctionType | type, kind: str) -> list[str]:
    lines = (function.__doc__ or "").splitlines()
    return [line.split(":", 1)[1].strip() for line in lines if line.strip().startswith(f"{kind}:")]


def keeps_invariants(value: object) -> bool:
    """Return whether the invariants of an argument, of the items of a list, and of attributes hold."""
    if isinstance(value, list):
        return all(map(keeps_invariants, value))
    attributes = getattr(value, "__dict__", {}) if type(value).__module__ == __name__ else {}
    if not all(map(keeps_invariants, attributes.values())):
        return False
    clauses = [clause for cls in type(value).__mro__ for clause in find_clauses(cls, "inv")]
    return all(holds(clause, {"self": value}) for clause in clauses)


def holds(clause: str, values: dict[str, Any]) -> bool:
    """Return whether a clause is true. One that raises is not."""
    try:
        return bool(eval(clause, values))  # noqa: S307 - a clause of the table
    except Exception:  # noqa: BLE001 - the same
        return False


def violates_contract(names: dict[str, Any], witness: str) -> bool:
    """Run the call, and return whether its preconditions hold and a postcondition does not."""
    call = ast.parse(witness, mode="eval").body
    assert isinstance(call, ast.Call)
    function = eval(ast.unparse(call.func), names)  # noqa: S307 - a call of the table
    positional = [eval(ast.unparse(one), names) for one in call.args]  # noqa: S307 - a call of the table
    keyword = {one.arg or "": eval(ast.unparse(one.value), names) for one in call.keywords}  # noqa: S307 - the same
    bound = inspect.signature(function).bind(*positional, **keyword)
    bound.apply_defaults()
    old = {"__old__": SimpleNamespace(**copy.deepcopy(bound.arguments))}
    judged = copy.deepcopy(bound.arguments)  # a clause can change them, and a caller calls no clause
    if not all(holds(clause, names | judged | old) for clause in find_clauses(function, "pre")):
        return False
    if not all(map(keeps_invariants, copy.deepcopy(bound.arguments).values())):
        return False
    try:
        result = function(*positional, **keyword)
    except Exception as error:  # noqa: BLE001 - any exception violates a contract that does not declare it
        return type(error).__name__ not in find_clauses(function, "raises")
    if not all(map(keeps_invariants, copy.deepcopy(bound.arguments).values())):
        return True
    values = names | bound.arguments | old | {"_": result, "__return__": result}
    return not all(holds(clause, values) for clause in find_clauses(function, "post"))


def observe(names: dict[str, Any], call: str) -> str:
    """Return the result of a call and the state of its arguments, as text."""
    parsed = ast.parse(call, mode="eval")
    inner = next(node for node in ast.walk(parsed) if isinstance(node, ast.Call) and ast.unparse(node.func) in "ab")
    names["arguments"] = [eval(ast.unparse(one), names) for one in inner.args]  # noqa: S307 - the same
    inner.args = [ast.parse(f"arguments[{number}]", mode="eval").body for number in range(len(inner.args))]
    try:
        outcome = repr(eval(compile(ast.fix_missing_locations(parsed), "<call>", "eval"), names))  # noqa: S307 - the same
    except Exception as error:  # noqa: BLE001 - any exception is an outcome
        outcome = f"raises {type(error).__name__}"
    return f"{outcome} {names['arguments']!r}"


def refutes(tool: str, program: Program, witness: str) -> bool:
    """Run the witness, and return whether it shows that the claim is wrong."""
    names = load(program)
    if tool == "symbolic_check":
        return violates_contract(names, witness)
    if tool == "find_path_to_exception":
        try:
            eval(witness, names)  # noqa: S307 - a call of the table
        except Exception as error:  # noqa: BLE001 - the judged one is an outcome
            return isinstance(error, eval(program.arguments["exception_type"], names))  # noqa: S307 - a name of the table
        return False
    other = load(program) | {"a": None}
    other["a"] = other["b"]
    return observe(names, witness) != observe(other, witness)


def test_each_witness_refutes_the_claim() -> None:
    wrong = [f"{tool}: {one.name}" for tool, one in WITNESSED if not refutes(tool, one, one.witness or "")]
    assert wrong == []


def test_table_has_enough_programs_with_and_without_witness() -> None:
    programs = [program for programs in PROGRAMS.values() for program in programs]
    assert len(programs) >= 400
    assert len(WITNESSED) >= 200
    claims = [one for one in programs if one.right & {"verified", "equivalent", "unreachable"}]
    assert len(claims) >= 100


def test_programs_are_formatted() -> None:
    assert all(program.code == textwrap.dedent(program.code) for _, program in WITNESSED)
