"""The size of the package, and what it knows."""

import ast
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "mcp_parity"


def test_the_package_stays_small() -> None:
    modules = [path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py")]
    assert len(modules) <= 16
    assert sum(len(text.splitlines()) for text in modules) <= 3_550


def test_it_knows_no_particular_server() -> None:
    assert [path.name for path in SOURCE.rglob("*.py") if "quilt" in path.read_text(encoding="utf-8").lower()] == []


def test_modules_and_functions_stay_short() -> None:
    for path in SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert len(text.splitlines()) <= 500, path.name
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert (node.end_lineno or 0) - node.lineno < 50, f"{path.name}: {node.name}"
