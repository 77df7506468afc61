"""`make bench-docs`, or `python -m tests.bench.document [RESULTS]`: write the figures of one run into the documents.

The tables of docs/performance.md come from the results of the run. The plots are drawn from the tables.
"""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.bench import bar_chart, rendering
from tests.bench.__main__ import BENCHMARKS, FOLDER
from tests.bench.outcome import Table, Target
from tests.bench.processes import ROOT
from tests.support.docs import with_sections

PAGE = ROOT / "docs" / "performance.md"
SECTION = "benchmark-run"
DETAILS = ("peers", "start")
"""The benchmarks that are shown with tables, not only with targets."""
FACTS = ("revision", "date", "processor", "memory", "system", "software", "load before")
_PLOTTED = re.compile(r"\*\*(?P<size>1 [KM]B) over HTTP\*\*\n\n(?P<table>(?:\|.*\n?)+)")
_VALUE = re.compile(r"([\d,]+) µs")
_SURFACES = {"newest protocol, tool": "tool", "newest protocol, read": "read"}


def main(arguments: Sequence[str]) -> int:
    """Write the page and the plots."""
    file = Path(arguments[0]) if arguments else FOLDER / "results.json"
    results = json.loads(file.read_text(encoding="utf-8"))
    page = with_sections(PAGE.read_text(encoding="utf-8"), {SECTION: lambda: section(results)})
    PAGE.write_text(page, encoding="utf-8")
    for name, content in plots(page).items():
        (PAGE.parent / name).write_text(content, encoding="utf-8")
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
            pictures = [_picture(file) for file in plots("\n\n".join(tables)) if file.endswith("-light.svg")]
            parts += [f"{BENCHMARKS[name].capitalize()}:", *tables, *pictures]
    return "\n\n".join(parts)


def _render(found: Mapping[str, Any]) -> str:
    return rendering.render_table(Table(**found)).rstrip("\n")


def _picture(light: str) -> str:
    dark = light.replace("light", "dark")
    return (
        f'<picture><source media="(prefers-color-scheme: dark)" srcset="{dark}">'
        f'<img src="{light}" alt="Processor time of the servers, as in the table above"></picture>'
    )


def plots(page: str) -> dict[str, str]:
    """Return the plots of the page's tables about servers over HTTP, by the names of their files."""
    drawn = {}
    for found in _PLOTTED.finditer(page):
        bars = read_bars(found["table"])
        size = found["size"]
        title = f"Processor time for an answer of {size} over HTTP, newest protocol"
        for theme, colours in bar_chart.THEMES.items():
            name = f"peers-{size.replace(' ', '').lower()}-{theme}.svg"
            drawn[name] = bar_chart.svg(title, "µs", bars, colours)
    return drawn


def read_bars(table: str) -> dict[str, dict[str, float]]:
    """Return the processor times in a table: by server, by kind of request."""
    heading, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in table.strip().splitlines())
    bars: dict[str, dict[str, float]] = {}
    for server, *cells in rows:
        values = {name: _VALUE.match(cell) for name, cell in zip(heading[1:], cells, strict=True)}
        bars[server] = {
            short: float(found[1].replace(",", "")) for name, short in _SURFACES.items() if (found := values.get(name))
        }
    return bars


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
