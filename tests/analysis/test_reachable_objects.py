"""Code that the gate admits cannot reach an object outside the facades.

Programs are generated from the admitted grammar: names of facades and builtins, attributes, calls, subscripts, classes,
decorators, patterns and stores. Each runs in the sandbox's jail, where `walking.py` looks at every value that a program
could name afterwards.
"""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from quilt_mcp.analysis.gate.admit import admit
from quilt_mcp.analysis.gate.facades import make_facade
from quilt_mcp.analysis.gate.rules import Refused
from quilt_mcp.analysis.policy import ALLOWED_MODULES, PERMITTED_BUILTINS, Policy
from quilt_mcp.analysis.sandbox import Sandbox
from tests.analysis.sandboxes import ask, running, script
from tests.analysis.walking import UNCHECKED
from tests.support.settings import Settings

POLICY = Policy()
ENDLESS = {"count", "cycle", "repeat", "iter", "input", "print", "purge"}
SHOWN = sorted(
    f"{module}.{name}"
    for module in ALLOWED_MODULES
    for name in vars(make_facade(module))
    if not name.startswith("__") and name not in ENDLESS
)
BUILTINS = sorted(set(PERMITTED_BUILTINS) - ENDLESS - {"type", "__name__"})
VARIABLES = [f"v{number}" for number in range(12)]
# Attributes of the values above, and those by which code has left other sandboxes
ATTRIBUTES = sorted(
    {
        name
        for shown in (make_facade(one) for one in ALLOWED_MODULES)
        for value in vars(shown).values()
        for name in dir(value)
    }
    | {"gi_frame", "f_back", "f_globals", "tb_frame", "__class__", "__dict__", "_convert_", "_member_map_", "_inst"}
    | {"obj", "value", "args", "name", "cache_info", "func", "keywords", "lock", "attrname", "groupindex", "pattern"}
)
FIELDS = ["x", "y", "gi_frame", "f_globals", "format", "_is_protocol", "_convert_", "items", "name", "__getattr__"]

CONSTANTS = """
0|1|-1|'x'|'x y'|b'a'|1.5|()|[]|{}|{1}|None|'{0.a}'|'gi_frame'|'builtins'|'os'|lambda *a: a|{'x': 1}|[('x', int)]
(lambda *a, **k: len)|[len, 1]|(i for i in ())
"""
constants = st.sampled_from(CONSTANTS.strip().replace("\n", "|").split("|"))
names = st.one_of(st.sampled_from(SHOWN), st.sampled_from(BUILTINS), st.sampled_from(VARIABLES))
values = st.one_of(names, names, constants)


@st.composite
def expressions(draw: st.DrawFn) -> str:
    text = draw(values)
    for _ in range(draw(st.integers(0, 3))):
        match draw(st.sampled_from("acckis")):
            case "a":
                text = f"({text}).{draw(st.sampled_from(ATTRIBUTES))}"
            case "c":
                text = f"({text})({', '.join(draw(st.lists(values, max_size=3)))})"
            case "k":
                text = f"({text})({draw(values)}, {draw(st.sampled_from(FIELDS))}={draw(values)})"
            case "i":
                text = f"({text})[{draw(values)}]"
            case "s":
                text = f"list(itertools.islice({text}, 5))"
    return text


@st.composite
def statements(draw: st.DrawFn) -> str:
    variable, value = draw(st.sampled_from(VARIABLES)), draw(expressions())
    field, other = draw(st.sampled_from(FIELDS)), draw(values)
    return draw(
        st.sampled_from(
            [
                f"{variable} = {value}",
                f"{variable} = {value}",
                f"{variable} = {value}",
                f"({value}).{field} = {other}",
                f"for ({value}).{field} in ({other},): pass",
                f"{variable} = [*({value})][:9]",
                f"try:\n    {value}\nexcept Exception as {variable}_:\n    {variable} = {variable}_",
                f"match {value}:\n    case {other}({field}={variable}): pass",
                f"match {value}:\n    case {other}({variable}): pass",
                f"class {variable}({value}):\n    {field}: {other} = {draw(values)}\n    y: int",
                f"@{value}\nclass {variable}({other}):\n    {field}: int\n    def y(self, *a): return a",
                f"@{value}\ndef {variable}(x: {other}, *rest): return rest",
                f"with {value} as {variable}: pass",
                f"{variable} = ({value}, {other}, lambda: {variable})",
            ]
        )
    )


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    """Return a runner. The sandbox keeps its loop."""
    with asyncio.Runner() as one:
        yield one


@pytest.fixture(scope="module")
def sandbox(runner: asyncio.Runner) -> Iterator[Sandbox]:
    """Return a sandbox that walks."""
    opened = running(script("walking.py"), Settings(analysis_concurrency=1, analysis_memory_limit_mb=1024))
    yield runner.run(opened.__aenter__())
    runner.run(opened.__aexit__(None, None, None))


def _is_admitted(statement: str) -> bool:
    try:
        admit(statement, POLICY)
    except Refused:
        return False
    return True


def _walk(runner: asyncio.Runner, sandbox: Sandbox, program: list[str]) -> dict[str, Any]:
    return runner.run(ask(sandbox, json.dumps(program), seconds=60))


def test_facades_and_builtins_reach_nothing_else(runner: asyncio.Runner, sandbox: Sandbox) -> None:
    answer = _walk(runner, sandbox, ["x = 1"])
    assert json.loads(answer["value"]) == [1, []]


UNGATED = {
    "a": ("a = eval", "builtin"),
    "b": ("import json\nb = json.dumps.__globals__", "names of a module"),
    "c": ("import sys as c", "a module"),
    "d": ("x = (i for i in ())\nd = [x.gi_frame]", "part of the interpreter"),
    "e": ("import json\ne = json.JSONEncoder.__class__", "a metaclass"),
    "f": ("import re\nf = re.RegexFlag._member_map_", "data that others use"),
    "g": ("import quilt_mcp.analysis.policy as p\ng = [p.Policy()]", "of the module quilt_mcp"),
}
"""Statements that the gate refuses, and what they let a name reach."""


def test_walk_finds_what_the_gate_would_let_through(runner: asyncio.Runner, sandbox: Sandbox) -> None:
    answer = _walk(runner, sandbox, [f"{UNCHECKED}{statement}" for statement, _ in UNGATED.values()])
    ran, outside = json.loads(answer["value"])
    assert ran == len(UNGATED)
    wrong = [name for name, (_, found) in UNGATED.items() if not _is_in(outside, name, found)]
    assert wrong == [], outside


def _is_in(outside: list[str], name: str, found: str) -> bool:
    return any(one.partition(":")[0].rstrip("[]") == name and found in one for one in outside)


@pytest.mark.soak
@settings(
    max_examples=20, deadline=None, suppress_health_check=list(HealthCheck), phases=(Phase.explicit, Phase.generate)
)
@given(program=st.lists(statements().filter(_is_admitted), min_size=15, max_size=40))
def test_admitted_programs_reach_nothing_outside_the_facades(
    runner: asyncio.Runner, sandbox: Sandbox, program: list[str]
) -> None:
    answer = _walk(runner, sandbox, program)
    if answer["status"] == "ran":  # else it needed too much time or memory
        assert json.loads(answer["value"])[1] == []
