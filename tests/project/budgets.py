"""The size of each folder, compared with its budget: `python -m tests.project.budgets`, a part of `make check`.

The numbers in budgets.csv only shrink. A folder that needs more has a decision in docs that says why.
`python -m tests.project.budgets --shrink` writes the present sizes where they are smaller.
"""

import csv
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
TABLE = Path(__file__).with_suffix(".csv")
WHOLE = ("src/quilt_mcp", "tests", "mcp-parity/src", "mcp-parity/tests")


class Size(NamedTuple):
    """The lines and the number of Python modules of a folder, with all that is below it."""

    lines: int
    modules: int


def measure(root: Path = ROOT) -> dict[str, Size]:
    """Return the size of each folder that has a budget: the whole trees, and the folders at their top."""
    folders = [root / one for one in WHOLE]
    folders += [one for tree in folders[:2] for one in tree.iterdir() if one.is_dir() and one.name != "__pycache__"]
    sizes = {str(one.relative_to(root)): measure_folder(one.rglob("*.py")) for one in folders}
    return {name: size for name, size in sorted(sizes.items()) if size.modules}


def measure_folder(modules: Iterable[Path]) -> Size:
    """Return the size of these modules."""
    lengths = [path.read_bytes().count(b"\n") for path in modules]
    return Size(sum(lengths), len(lengths))


def read_budgets(table: Path = TABLE) -> dict[str, Size]:
    """Return the budgets."""
    with table.open(encoding="utf-8", newline="") as file:
        return {row["folder"]: Size(int(row["lines"]), int(row["modules"])) for row in csv.DictReader(file)}


def find_excess(sizes: Mapping[str, Size], budgets: Mapping[str, Size]) -> list[str]:
    """Return what is wrong: a folder that exceeds its budget, that has none, or that does not exist."""
    found = [f"{name}: no budget" for name in sizes.keys() - budgets.keys()]
    found += [f"{name}: a budget, but no folder" for name in budgets.keys() - sizes.keys()]
    for name in sizes.keys() & budgets.keys():
        size, budget = sizes[name], budgets[name]
        if size.lines > budget.lines or size.modules > budget.modules:
            found.append(
                f"{name}: {size.lines:,} lines in {size.modules} modules; "
                f"the budget is {budget.lines:,} in {budget.modules}"
            )
    return sorted(found)


def shrink(sizes: Mapping[str, Size], budgets: Mapping[str, Size], table: Path = TABLE) -> None:
    """Write the budgets again, each at most the present size."""
    with table.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["folder", "lines", "modules"])
        for name, size in sizes.items():
            budget = budgets.get(name, size)
            writer.writerow([name, min(size.lines, budget.lines), min(size.modules, budget.modules)])


def main(arguments: list[str]) -> int:
    """Print the table; return 1 if a folder exceeds its budget."""
    sizes, budgets = measure(), read_budgets()
    if arguments == ["--shrink"]:
        shrink(sizes, budgets)
        budgets = read_budgets()
    width = max(map(len, sizes))
    for name, size in sizes.items():
        budget = budgets.get(name, Size(0, 0))
        lines, modules = (
            f"{size.lines:7,} of {budget.lines:7,} lines",
            f"{size.modules:4} of {budget.modules:4} modules",
        )
        sys.stdout.write(f"{name:{width}} {lines} {modules}\n")
    excess = find_excess(sizes, budgets)
    sys.stdout.writelines(f"{one}\n" for one in excess)
    return 1 if excess else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
