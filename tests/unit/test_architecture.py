"""Budgets that keep the package readable, and the frames that a read passes."""

import ast
import inspect
import re
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path
from statistics import median

import grimp
import pytest
from fastmcp import Client, FastMCP

import quilt_mcp
from quilt_mcp.core.manager import ResourceManager
from quilt_mcp.core.registry import build_registry, define
from quilt_mcp.core.surfaces import add_surfaces

PACKAGE = Path(quilt_mcp.__file__).parent
CORE = PACKAGE / "core"
TERMS = re.compile(
    r"quilt(?!_mcp)|\baws\b|athena|\bs3\b|boto|\bstack\b|tabulator|\bbuckets?\b|\brequirements?\b", re.IGNORECASE
)


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def functions() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{path.relative_to(PACKAGE)}:{node.name}", node


def test_the_core_has_no_terms_of_a_domain() -> None:
    found = [
        f"{path.name}:{number}: {line.strip()}"
        for path in CORE.rglob("*.py")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if TERMS.search(line)
    ]
    assert found == []


def test_the_core_can_be_read_in_one_sitting() -> None:
    assert sum(len(path.read_text(encoding="utf-8").splitlines()) for path in CORE.rglob("*.py")) <= 1800


def test_the_top_of_the_package_shows_the_architecture() -> None:
    entries = {path.name for path in PACKAGE.iterdir()} - {"__init__.py", "__pycache__", "py.typed"}
    assert len(entries) <= 14, sorted(entries)


def test_modules_and_functions_are_short() -> None:
    lengths = [len(path.read_text(encoding="utf-8").splitlines()) for path in modules()]
    assert median(lengths) <= 120
    assert max(lengths) <= 300
    long = [
        name
        for name, function in functions()
        if (function.end_lineno or 0) - function.lineno >= 50 and name != "tools/resource_access.py:get_resource"
    ]
    assert long == []


def test_any_is_rare() -> None:
    lines = [line for path in modules() for line in path.read_text(encoding="utf-8").splitlines()]
    uses = [line for line in lines if not line.lstrip().startswith(("from ", "import "))]
    assert sum(len(re.findall(r"\bAny\b", line)) for line in uses) <= 200


def test_no_module_rebinds_its_globals() -> None:
    found = [name for name, function in functions() if any(isinstance(node, ast.Global) for node in ast.walk(function))]
    assert found == []


def test_no_modules_import_each_other() -> None:
    """Also not through others, and not for the type checker only."""
    graph = grimp.build_graph("quilt_mcp", exclude_type_checking_imports=False, cache_dir=None)
    imported = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert len(imported) == len(modules())
    TopologicalSorter(imported).prepare()  # the error names the modules


@pytest.mark.parametrize("surface", ["resource", "tool"])
async def test_a_read_passes_at_most_five_frames_between_surface_and_service(surface: str) -> None:
    passed: list[str] = []

    async def look_around() -> dict[str, str]:
        """Look at the stack."""
        frame = inspect.stack(0)[1].frame
        while frame.f_code.co_name not in {"read", "run"} or frame.f_globals["__name__"] != "quilt_mcp.core.surfaces":
            if frame.f_globals["__name__"].startswith("quilt_mcp"):
                passed.append(frame.f_code.co_name)
            frame = frame.f_back  # type: ignore[assignment]  # a surface is always above
        return {}

    server: FastMCP = FastMCP("toy")
    add_surfaces(server, ResourceManager(build_registry([define("toy://stack", look_around, name="Stack")])))
    async with Client(server) as client:
        if surface == "tool":
            await client.call_tool("get_resource", {"uri": "toy://stack"})
        else:
            await client.read_resource("toy://stack")
    assert 0 < len(passed) <= 5, passed
