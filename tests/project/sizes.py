"""What the tree consists of: `python -m tests.project.sizes`, a part of `make check`. A report, which fails nothing.

For each folder: lines and modules. For the package: which imports its modules have, and the private functions that
one place calls.
"""

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import grimp

from tests.support.sources import list_modules, read

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src/quilt_mcp"
TREES = (PACKAGE, ROOT / "tests", ROOT / "mcp-parity/src", ROOT / "mcp-parity/tests")


class Size(NamedTuple):
    """The lines and the number of Python modules of a folder, with all that is below it."""

    lines: int
    modules: int


def measure() -> dict[str, Size]:
    """Return the size of the whole trees, and of the folders at the top of the first two."""
    folders = [*TREES, *(path for tree in TREES[:2] for path in tree.iterdir() if path.is_dir())]
    sizes = {str(path.relative_to(ROOT)): measure_folder(path.rglob("*.py")) for path in folders}
    return {name: size for name, size in sorted(sizes.items()) if size.modules}


def measure_folder(modules: Iterable[Path]) -> Size:
    """Return the size of these modules."""
    lengths = [path.read_bytes().count(b"\n") for path in modules]
    return Size(sum(lengths), len(lengths))


def count_imports() -> int:
    """Return how many pairs of modules of the package there are of which one imports the other."""
    graph = grimp.build_graph("quilt_mcp", exclude_type_checking_imports=False, cache_dir=None)
    return sum(len(graph.find_modules_directly_imported_by(module)) for module in graph.modules)


def list_called_once(package: Path = PACKAGE) -> tuple[list[str], int]:
    """Return the private functions whose name occurs once beside their definition, and the number of all functions."""
    texts = {path: read(path) for path in list_modules(package)}
    words = Counter(word for text in texts.values() for word in re.findall(r"\w+", text))
    functions = [
        (path, node.name)
        for path, text in texts.items()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    private = [(path, name) for path, name in functions if re.match(r"_[a-z]", name)]
    return [f"{path.relative_to(package)}:{name}" for path, name in private if words[name] == 2], len(functions)


def main() -> None:
    """Print the report."""
    sizes = measure()
    width = max(map(len, sizes))
    for name, size in sizes.items():
        sys.stdout.write(f"{name:{width}} {size.lines:7,} lines {size.modules:4} modules\n")
    once, functions = list_called_once()
    sys.stdout.write(
        f"src/quilt_mcp: {count_imports()} imports between modules; {functions:,} functions, "
        f"of which {len(once)} are private and named in one other place\n"
    )


if __name__ == "__main__":
    main()
