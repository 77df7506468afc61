"""Formats outcomes as Markdown tables that are also readable in a terminal."""

from collections.abc import Iterable, Mapping, Sequence

from tests.bench.outcome import Outcome, Table, Target


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; all columns but the first are aligned to the right."""
    cells = [list(columns), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]

    def line(row: Sequence[str]) -> str:
        first, *others = row
        padded = [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))]
        return f"| {' | '.join(padded)} |"

    rule = ["-" * widths[0], *(f"{'-' * (width - 1)}:" for width in widths[1:])]
    return "\n".join([line(cells[0]), f"| {' | '.join(rule)} |", *map(line, cells[1:])])


def render_table(one: Table) -> str:
    """A table with its title and its note."""
    note = f"\n\n{one.note}" if one.note else ""
    return f"**{one.title}**\n\n{table(one.columns, one.rows)}{note}\n"


def targets(found: Iterable[Target]) -> str:
    """The targets as a table."""
    return table(
        ("target", "measured", ""), [(t.text, t.measured, "reached" if t.reached else "MISSED") for t in found]
    )


def summary(machine: Mapping[str, str], outcomes: Mapping[str, Outcome]) -> str:
    """All outcomes on one page: the machine, the targets, then every table."""
    facts = "\n".join(f"- {name}: {value}" for name, value in machine.items())
    found = [target for outcome in outcomes.values() for target in outcome.targets]
    parts = ["# Benchmarks", facts, "## Targets", targets(found)]
    for name, outcome in outcomes.items():
        parts += [f"## {name}", *map(render_table, outcome.tables)]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"
