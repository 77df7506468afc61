"""`quilt-mcp requirements`: import, export, migrate and status of the requirements database."""

import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import anyio
from cyclopts import App, CycloptsError, Parameter
from rich.progress import Progress
from rich.table import Table

from quilt_mcp.commands.options import AsJSON
from quilt_mcp.commands.output import complain, console_on, show, show_json, waiting
from quilt_mcp.commands.process import logging_from, run_stoppable
from quilt_mcp.errors import ResourceFailure
from quilt_mcp.requirements.failures import CHECK_STATUS

SHOWN = 50
"""How many rejected records are told; with --json, all are."""

Format = Annotated[
    Literal["jsonl", "csv"] | None,
    Parameter(help="jsonl or csv; by default csv for files whose name ends so, else jsonl."),
]
T = TypeVar("T")

app = App(name="requirements", help="Import, export, migrate and inspect the requirements database.")


@app.command(name="import")
def import_(file: Path, /, *, format: Format = None, creator: str | None = None, as_json: AsJSON = False) -> int:  # noqa: A002 - the option's name
    """Import records from a file: all of them, or none if any is rejected.

    Args:
        file: JSON Lines or CSV, in UTF-8. What it may hold, an export shows.
        format: how it is written.
        creator: the user who made what names nobody; a username or an id.
        as_json: print the report as JSON, for programs.
    """
    with _progress() as progress:
        work = _work()
        report = _run(lambda: work.import_file(file, _format(format, file), creator, progress))
    if report is None:
        return 1
    if as_json:
        rejected = [{"line": line, "reason": reason} for line, reason in report.rejected]
        show_json({"imported": dict(report.imported), "rejected": rejected})
    elif report.rejected:
        complain(*_rejections(report.rejected))
    else:
        counts = ", ".join(f"{count} {kind}" for kind, count in report.imported.items())
        show(f"Imported: {counts or 'nothing, the file is empty'}.")
    return 1 if report.rejected else 0


@app.command
def export(file: Path | None = None, /, *, format: Format = None) -> int:  # noqa: A002 - the option's name
    """Export everything as records, which `import` reads.

    Args:
        file: the file to write; without one, stdout.
        format: how it is written.
    """
    work = _work()
    with waiting("Exporting"):
        count = _run(lambda: work.export_file(file, _format(format, file)))
    if count is not None and file:
        show(f"Exported {count} records to {file}.")
    return 1 if count is None else 0


@app.command
def migrate() -> int:
    """Create the tables in an empty database, or bring those of an older version up to date."""
    work = _work()
    with waiting("Migrating"):
        schemas = _run(work.migrate)
    if schemas is None:
        return 1
    before, after = schemas
    done = "is up to date" if before == after else f"was migrated from {before.revision or 'nothing'}"
    show(f"The requirements database {done}; its schema is {after.revision}.")
    return 0


@app.command
def status(*, as_json: AsJSON = False) -> int:
    """Show where the database is and what it holds; the status is 0 if it can be read.

    Args:
        as_json: print JSON, for programs.
    """
    work = _work()
    with waiting("Looking"):
        found = _run(work.status, left_out=CHECK_STATUS)  # which is this very command
    if found is None:
        return 1
    if as_json:
        show_json(found)
    else:
        table = Table.grid(padding=(0, 2))
        for name in ("database", "state", "revision", "problem"):
            table.add_row(name, str(found[name] or "-"))
        for name, count in found["rows"].items():
            table.add_row(name, str(count))
        show(table)
    return 0 if found["rows"] else 1


def _work() -> Any:
    """The module that does it.

    Raises:
        CycloptsError: SQLAlchemy and its drivers are not installed.
    """
    try:
        return import_module("quilt_mcp.commands.requirements_work")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"sqlalchemy", "aiosqlite", "alembic", "greenlet"}:
            raise
        raise CycloptsError(
            msg="What this needs is not installed: run `make install EXTRAS=requirements` in the source directory"
        ) from error


def _run(call: Callable[[], Awaitable[T]], *, left_out: str | None = None) -> T | None:
    """What a call answers; None after telling why it could not.

    Args:
        call: what is to be done.
        left_out: an action that is not to be suggested.
    """
    try:
        with logging_from("WARNING"):
            return run_stoppable(lambda: anyio.run(call))
    except ResourceFailure as failure:
        details = [f"  {failure.details}"] if failure.details else []
        actions = [f"  - {action}" for action in failure.suggested_actions if action != left_out]
        complain(failure.message, *details, *actions)
    except BrokenPipeError:  # who reads stdout has enough
        raise
    except OSError as error:
        complain(f"{error.filename or 'stdout'}: {error.strerror}.")
    return None


def _format(given: Format, file: Path | None) -> Literal["jsonl", "csv"]:
    return given or ("csv" if file and file.suffix.lower() == ".csv" else "jsonl")


def _rejections(rejected: list[tuple[int, str]]) -> Iterator[str]:
    yield f"Nothing was imported: {len(rejected)} rejected."
    for line, reason in rejected[:SHOWN]:
        yield f"  line {line}: {reason}" if line else f"  {reason}"
    if len(rejected) > SHOWN:
        yield f"  and {len(rejected) - SHOWN} more; --json tells all."


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None]]:
    """A progress bar on stderr, if that is a terminal; called with the numbers of records done and in all."""
    console = console_on(sys.stderr)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("Importing", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
