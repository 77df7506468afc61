"""Rules that keep the package readable, and the frames that a read passes."""

import ast
import asyncio
import inspect
import re
import threading
import tomllib
import traceback
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import TopologicalSorter
from itertools import takewhile
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import grimp
import pytest
from fastmcp import Client

import quilt_mcp
from quilt_mcp.app.domain import Domain
from quilt_mcp.app.pools import Pool
from quilt_mcp.core.answers import GetResourceSuccess
from quilt_mcp.core.surfaces import make_tool_result
from quilt_mcp.server import create_server
from tests.project.sizes import list_called_once, measure
from tests.support.settings import Settings
from tests.support.sources import list_modules, read
from tests.support.toys import toy, toy_manager

PACKAGE = Path(quilt_mcp.__file__).parent
CORE = PACKAGE / "core"
TESTS = Path(__file__).parents[1]
TERMS = re.compile(
    r"quilt(?!_mcp)|\baws\b|athena|\bs3\b|boto|\bstack\b|tabulator|\bbuckets?\b|\brequirements?\b", re.IGNORECASE
)


def modules() -> tuple[Path, ...]:
    return list_modules(PACKAGE)


class Function(NamedTuple):
    name: str
    lines: int
    rebinds: bool
    """Whether it has a `global` statement."""


def _count_docstring(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return node.body[0].end_lineno - node.body[0].lineno + 1 if ast.get_docstring(node) else 0  # type: ignore[operator]  # parsed code has lines


@cache
def functions() -> list[Function]:
    """Return all functions of the package. The syntax trees are not kept."""
    return [
        Function(
            f"{path.relative_to(PACKAGE)}:{node.name}",
            (node.end_lineno or 0) - node.lineno - _count_docstring(node),
            "global" in read(path) and any(isinstance(inner, ast.Global) for inner in ast.walk(node)),
        )
        for path in modules()
        for node in ast.walk(ast.parse(read(path)))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def test_the_core_has_no_terms_of_a_domain() -> None:
    found = [
        f"{path.name}:{number}: {line.strip()}"
        for path in list_modules(CORE)
        for number, line in enumerate(read(path).splitlines(), 1)
        if TERMS.search(line)
    ]
    assert found == []


def test_the_report_of_sizes_has_each_folder_and_the_functions_that_one_place_calls(tmp_path: Path) -> None:
    sizes = measure()
    assert {f"src/quilt_mcp/{path.name}" for path in PACKAGE.iterdir() if list_modules(path)} <= sizes.keys()
    assert sizes["src/quilt_mcp"].modules == len(modules())
    (tmp_path / "one.py").write_text(
        "def _once(): ...\ndef _twice(): ...\ndef __init__(): ...\n_once(_twice(_twice()))\n"
    )
    assert list_called_once(tmp_path) == (["one.py:_once"], 3)


def test_the_top_of_the_package_shows_the_architecture() -> None:
    entries = {path.name for path in PACKAGE.iterdir()} - {"__init__.py", "__main__.py", "__pycache__", "py.typed"}
    assert len(entries) <= 19, sorted(entries)


def test_modules_and_functions_are_short() -> None:
    assert max(len(read(path).splitlines()) for path in modules()) <= 700
    long = [function.name for function in functions() if function.lines >= 50]
    assert set(long) - {"tools/resource_access.py:get_resource"} == set()


def test_any_is_rare() -> None:
    """It is what a library, JSON or the analysed code has no type for."""
    lines = [line for path in modules() for line in read(path).splitlines()]
    uses = [line for line in lines if not line.lstrip().startswith(("from ", "import "))]
    assert sum(len(re.findall(r"\bAny\b", line)) for line in uses) <= 140


def test_no_module_rebinds_its_globals() -> None:
    assert [function.name for function in functions() if function.rebinds] == []


PLACE = re.compile(r"(quilt_mcp(?:\.\w+)+)(?::\w+)?")
"""A module in a text, which is imported by its name, and what it has."""


@cache
def find_imports() -> dict[str, set[str]]:
    """Return what each module imports: also in functions, for the type checker only, and by a name in a text."""
    graph = grimp.build_graph("quilt_mcp", exclude_type_checking_imports=False, cache_dir=None)
    imported = {module: {*graph.find_modules_directly_imported_by(module)} for module in graph.modules}
    for path in modules():
        parts = ("quilt_mcp", *path.relative_to(PACKAGE).with_suffix("").parts)
        texts = [node.value for node in ast.walk(ast.parse(read(path))) if isinstance(node, ast.Constant)]
        places = {found[1] for one in texts if isinstance(one, str) and (found := PLACE.fullmatch(one))}
        module = ".".join(parts).removesuffix(".__init__")
        imported[module] |= places & imported.keys() - {module}
    return imported


def test_no_modules_import_each_other() -> None:
    """Also not through others, and not at a call."""
    imported = find_imports()
    assert len(imported) == len(modules())
    assert "quilt_mcp.commands.stdio" in imported["quilt_mcp.commands.cli"]
    TopologicalSorter(imported).prepare()  # the error names the modules


def test_imports_run_downwards_also_at_a_call() -> None:
    [contract] = [
        one
        for one in tomllib.loads(read(PACKAGE.parents[1] / "pyproject.toml"))["tool"]["importlinter"]["contracts"]
        if one["name"] == "Imports run downwards"
    ]
    levels = {name: level for level, names in enumerate(contract["layers"]) for name in re.findall(r"\w+", names)}
    rising = [
        f"{module} imports {other}"
        for module, others in find_imports().items()
        for other in others
        if "." in module and levels[module.split(".")[1]] > levels[other.split(".")[1]]
    ]
    assert rising == []


CONSTANT = re.compile(r"quilt_mcp\..*\b_*[A-Z][A-Z0-9_]+")
PATCHES = {"setattr", "patch", "object"}
"""The names of functions that patch; the last is of `patch.object`."""


def find_patched(text: str) -> list[str]:
    """Return the constants of our modules that a test replaces."""
    nodes = list(ast.walk(ast.parse(text)))
    names: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {one.asname or one.name: one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    found = [find_target(call, names) for call in calls if getattr(call.func, "attr", None) in PATCHES]
    found += [find_target(call, names) for call in calls if getattr(call.func, "id", None) in PATCHES]
    return [target for target in found if CONSTANT.fullmatch(target)]


def find_target(call: ast.Call, names: Mapping[str, str]) -> str:
    """Return the full name of what a call patches. It is in the first argument, or the second is its last part."""
    match call.args:
        case [ast.Constant(value=str(target)), *_]:
            return target
        case [owner, ast.Constant(value=str(name)), *_]:
            first, *rest = ast.unparse(owner).split(".")
            return ".".join([names.get(first, first), *rest, name])
        case _:
            return ""


def test_patched_constants_are_found() -> None:
    text = """
import quilt_mcp.http.direct
from quilt_mcp.http import direct as road, tokens
from quilt_mcp.http.tokens import JWTVerifier
import other
monkeypatch.setattr(road, "TESTED", 1)
monkeypatch.setattr("quilt_mcp.http.tokens._LEEWAY", 1)
monkeypatch.setattr(quilt_mcp.http.direct, "TOOL", 1)
with patch.object(tokens, "FETCH_SECONDS", 1), patch("quilt_mcp.http.tokens.MAX_AGE", 1):
    monkeypatch.setattr(JWTVerifier, "limits", 1)
    monkeypatch.setattr(tokens, "Verifier", 1)
    monkeypatch.setattr(other, "LIMIT", 1)
"""
    assert sorted(find_patched(text)) == [
        "quilt_mcp.http.direct.TESTED",
        "quilt_mcp.http.direct.TOOL",
        "quilt_mcp.http.tokens.FETCH_SECONDS",
        "quilt_mcp.http.tokens.MAX_AGE",
        "quilt_mcp.http.tokens._LEEWAY",
    ]


def test_tests_give_other_limits_as_arguments() -> None:
    found = {
        str(path.relative_to(TESTS)): patched
        for path in list_modules(TESTS)
        if re.search(r"setattr\(|patch", text := read(path)) and (patched := find_patched(text))
    }
    assert found == {}, "make the constant the default of a parameter"


def test_tests_access_few_private_names() -> None:
    """Ruff finds them. Each exception gives its reason."""
    lines = [line for path in list_modules(TESTS) for line in read(path).splitlines()]
    private = [line for line in lines if re.search(r"#\snoqa: .*SLF001", line)]
    assert len(private) <= 5, private
    assert all(re.search(r"SLF001 - \S", line) for line in private)


def list_frames(loop: asyncio.AbstractEventLoop) -> list[str]:
    """Return our functions between the surface and the caller, the innermost first.

    If the caller runs in a thread of its own, those follow that wait for this thread.
    """
    frames = [frame for frame, _ in traceback.walk_stack(inspect.currentframe())]
    if threading.current_thread() is not threading.main_thread():
        chains = [list(walk_awaits(task.get_coro())) for task in asyncio.all_tasks(loop)]
        [waiting] = [chain for chain in chains if any(map(is_surface, chain))]
        frames += reversed(waiting)
    above = takewhile(lambda frame: not is_surface(frame), frames)
    return [frame.f_code.co_qualname for frame in above if frame.f_globals["__name__"].startswith("quilt_mcp.")]


def walk_awaits(waiting: object) -> Iterator[FrameType]:
    while inspect.iscoroutine(waiting) and waiting.cr_frame:
        yield waiting.cr_frame
        waiting = waiting.cr_await


def is_surface(frame: FrameType) -> bool:
    return str(frame.f_globals["__name__"]) == "quilt_mcp.core.surfaces"


@pytest.mark.parametrize("surface", ["resource", "tool"])
@pytest.mark.parametrize("pool", ["local", "stack"])
@pytest.mark.parametrize("uri", ["toy://async", "toy://thread"])
async def test_a_read_passes_at_most_five_frames_between_surface_and_service(
    uri: str, pool: Pool, surface: str, tmp_path: Path
) -> None:
    passed: list[str] = []
    loop = asyncio.get_running_loop()

    async def in_loop() -> dict[str, str]:
        passed.extend(list_frames(loop))
        return {}

    def in_thread() -> dict[str, str]:
        passed.extend(list_frames(loop))
        return {}

    rows = (toy("toy://async", in_loop), toy("toy://thread", in_thread))
    domain = Domain(name="toy", resources=rows, pools={"toy": pool})
    async with Client(create_server(Settings(data_dir=tmp_path), domains=[domain])) as client:
        if surface == "tool":
            await client.call_tool("get_resource", {"uri": uri})
        else:
            await client.read_resource(uri)
    assert 0 < len(passed) <= 5, passed


async def test_an_answer_is_not_converted_on_its_way() -> None:
    """The tool sends the objects that the service function made, and its JSON text is written once."""
    inner = {"numbers": [1, 2, 3]}
    manager = toy_manager(toy("toy://data", lambda: {"inner": inner}))
    answer = await manager.respond("toy://data", surface="tool")
    assert isinstance(answer, GetResourceSuccess)
    assert answer.body()["data"]["inner"] is inner
    assert answer.data_json is answer.data_json
    result = make_tool_result(answer)
    assert result.structured_content is not None
    assert result.structured_content["data"]["inner"] is inner
