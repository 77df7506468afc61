"""The size of the package, and what it knows."""

import ast
import io
import tokenize
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "mcp_parity"
_NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def count_code(path: Path) -> int:
    """Count the lines that are neither blank nor comments nor docstrings."""
    text = path.read_text(encoding="utf-8")
    tokens = [one for one in tokenize.generate_tokens(io.StringIO(text).readline) if one.type not in _NO_CODE]
    lines = {line for one in tokens for line in range(one.start[0], one.end[0] + 1)}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def test_the_package_stays_small() -> None:
    assert sum(map(count_code, SOURCE.rglob("*.py"))) <= 2000


def test_it_knows_no_particular_server() -> None:
    assert [path.name for path in SOURCE.rglob("*.py") if "quilt" in path.read_text(encoding="utf-8").lower()] == []


def test_modules_and_functions_stay_short() -> None:
    for path in SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert len(text.splitlines()) <= 290, path.name
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert (node.end_lineno or 0) - node.lineno < 50, f"{path.name}: {node.name}"
