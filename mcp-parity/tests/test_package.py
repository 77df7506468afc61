"""The size of modules, and what the package knows."""

import ast
import re
from pathlib import Path

import mcp_parity

SOURCE = Path(__file__).parent.parent / "src" / "mcp_parity"


def test_it_knows_no_particular_server() -> None:
    assert [path.name for path in SOURCE.rglob("*.py") if "quilt" in path.read_text(encoding="utf-8").lower()] == []


def test_modules_and_functions_stay_short() -> None:
    for path in SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert len(text.splitlines()) <= 500, path.name
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert (node.end_lineno or 0) - node.lineno < 50, f"{path.name}: {node.name}"


def test_the_tests_of_the_server_beside_it_use_only_public_names() -> None:
    imports = re.compile(r"^\s*(?:from|import) (mcp_parity\.\w+)", re.MULTILINE)
    tests = (SOURCE.parents[2] / "tests").rglob("*.py")
    assert {name for path in tests for name in imports.findall(path.read_text("utf-8"))} <= {"mcp_parity.contract"}
    assert all(hasattr(mcp_parity, name) for name in mcp_parity.__all__)
