"""`make bench-docs`, or `python -m tests.bench.document [RESULTS]`: write the figures of one run into the documents.

The tables of docs/performance.md come from the results of the run.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.bench import rendering
from tests.bench.__main__ import BENCHMARKS, FOLDER
from tests.bench.outcome import Table, Target
from tests.bench.processes import ROOT
from tests.support.docs import with_sections

PAGE = ROOT / "docs" / "performance.md"
SECTION = "benchmark-run"
DETAILS = ("peers", "start")
"""The benchmarks that are shown with tables, not only with targets."""
FACTS = ("revision", "date", "processor", "memory", "system", "software", "load before")


def main(arguments: Sequence[str]) -> int:
    """Write the page."""
    file = Path(arguments[0]) if arguments else FOLDER / "results.json"
    results = json.loads(file.read_text(encoding="utf-8"))
    page = with_sections(PAGE.read_text(encoding="utf-8"), {SECTION: lambda: section(results)})
    PAGE.write_text(page, encoding="utf-8")
    return 0


def section(results: Mapping[str, Any]) -> str:
    """Return the section about a run: the machine, the targets, and the tables."""
    machine, benchmarks = results["machine"], results["benchmarks"]
    facts = ", ".join(f"{name} {machine[name]}" for name in FACTS)
    found = [Target(**one) for benchmark in benchmarks.values() for one in benchmark["targets"]]
    parts = [
        f'One run of `make bench NAMES="{" ".join(benchmarks)}"`: {facts}.',
        rendering.targets(found),
    ]
    for name in DETAILS:
        if name in benchmarks:
            tables = [_render(table) for table in benchmarks[name]["tables"]]
            parts += [f"{BENCHMARKS[name].capitalize()}:", *tables]
    return "\n\n".join(parts)


def _render(found: Mapping[str, Any]) -> str:
    return rendering.render_table(Table(**found)).rstrip("\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
