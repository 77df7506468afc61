"""Rules for tests: they wait for events, and limit only what is silent. CONTRIBUTING.md has all rules."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.sources import list_modules, read

ROOT = Path(__file__).parents[2]
LONGEST_PAUSE = 0.05
"""Longer pauses slow the suite. A pause after which a test expects something is a race on a slow machine."""
FOREVER = 30
"""What sleeps longer is silent: a test ends it."""
ENOUGH = 5
"""A shorter time limit is only for what never answers. Whoever must answer in it can be late on a slow machine."""
NO_LIMITS = {"retry_after_seconds", "waited_seconds"}
"""Values in answers."""


def find_pauses(tree: ast.Module) -> Iterator[tuple[int, float]]:
    """Return the lines and seconds of sleeps that are not the pause of a loop, which waits for an event."""
    for node in _outside_of_loops(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == "sleep":
            match node.args:
                case [ast.Constant(value=int() | float() as seconds)] if LONGEST_PAUSE < seconds < FOREVER:
                    yield node.lineno, seconds


def find_limits(tree: ast.Module) -> Iterator[tuple[int, float]]:
    """Return the lines and seconds of short time limits: in arguments, and in settings of the environment."""
    given: list[tuple[ast.expr | ast.keyword, str, object]]
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Attribute(attr="setenv"), args=[variable, ast.Constant(value=str() as seconds) as constant]
            ):
                given = [(constant, ast.unparse(variable).strip("f'").lower(), seconds)]
            case ast.Call(func=func, keywords=keywords) if getattr(func, "id", "") != "timedelta":
                given = [(one, one.arg or "", getattr(one.value, "value", None)) for one in keywords]
            case _:
                continue
        for at, name, value in given:
            if not name.endswith("seconds") or name in NO_LIMITS or not isinstance(value, str | int | float):
                continue
            if 0 < float(value) < ENOUGH:
                yield at.lineno, float(value)


def _outside_of_loops(tree: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(tree):
        yield child
        if not isinstance(child, ast.While | ast.For | ast.AsyncFor):
            yield from _outside_of_loops(child)


def test_pauses_are_found() -> None:
    text = """
async def test() -> None:
    time.sleep(1)
    await asyncio.sleep(0.2)
    await asyncio.sleep(0)
    await asyncio.sleep(600)
    while not done():
        time.sleep(0.1)
    sleep(seconds)
"""
    assert list(find_pauses(ast.parse(text))) == [(3, 1), (4, 0.2)]


def test_short_limits_are_found() -> None:
    text = """
serve(read_timeout_seconds=0.2, connect_timeout_seconds=30)
monkeypatch.setenv("QUILT_MCP_PROBE_SECONDS", "0.5")
monkeypatch.setenv(f"QUILT_MCP_{limit}_SECONDS", "2")
monkeypatch.setenv("QUILT_MCP_PROBE_SECONDS", "60")
clock.shift(timedelta(seconds=3))
TooManyRequests("", retry_after_seconds=1)
collect(collect_seconds=0.0)
"""
    assert list(find_limits(ast.parse(text))) == [(2, 0.2), (3, 0.5), (4, 2)]


@pytest.mark.parametrize("directory", ["tests", "mcp-parity/tests"])
def test_tests_wait_for_events_and_a_pause_or_a_short_limit_has_a_reason(directory: str) -> None:
    found = []
    for path in list_modules(ROOT / directory):
        if "bench" in path.parts:  # measures
            continue
        text = read(path)
        if not re.search(r"sleep\(|seconds", text, re.IGNORECASE):
            continue
        lines, tree = text.splitlines(), ast.parse(text)
        found += [
            f"{path.relative_to(ROOT)}:{line}: {seconds} s"
            for line, seconds in (*find_pauses(tree), *find_limits(tree))
            if "#" not in lines[line - 1]
        ]
    assert found == [], (
        "wait for an event (tests/support/waiting.py) and limit only what never answers, or say beside the pause or "
        "the limit why it cannot fail on a slow machine"
    )


def test_one_module_makes_the_registries_of_tests() -> None:
    found = [
        str(path.relative_to(ROOT / "tests"))
        for path in list_modules(ROOT / "tests")
        if "bench" not in path.parts and re.search(r"\bResourceManager\(", read(path))
    ]
    # The seeds show how a user makes one.
    assert sorted(set(found) - {"project/test_rules_of_tests.py"}) == ["project/test_seeds.py", "support/toys.py"]


def test_one_module_starts_the_server_in_a_process() -> None:
    command = re.compile(r"(?:Popen|create_subprocess_exec)\(.{,200}[\"']serve[\"']", re.DOTALL)
    found = [
        str(path.relative_to(ROOT / "tests"))
        for path in list_modules(ROOT / "tests")
        if "bench" not in path.parts and command.search(read(path))
    ]
    # The test of serve gives it streams of its own.
    assert sorted(found) == ["commands/test_stdio.py", "support/server_process.py"]
