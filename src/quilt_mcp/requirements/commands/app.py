"""`quilt-mcp requirements`: import, export, migrate and status of the requirements database."""

import re
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

from cyclopts import App, Parameter
from rich.table import Table

from quilt_mcp.console.logs import configure_logging
from quilt_mcp.console.output import complain, show, show_json, waiting
from quilt_mcp.console.parser import AsJSON
from quilt_mcp.console.process import Misuse, is_of_stdout, run_stoppable
from quilt_mcp.core.errors import ResourceFailure
from quilt_mcp.requirements.commands.report import (
    Imported,
    describe_report,
    list_counts,
    show_report,
    watch,
    watch_export,
)
from quilt_mcp.requirements.failures import CHECK_STATUS

if TYPE_CHECKING:
    from quilt_mcp.app.database.engines import Schema
    from quilt_mcp.requirements.commands.work import Status

_DEFAULT = "Default: csv or reqif for files that end in .csv or .reqif, otherwise jsonl."
_ARCHIVE = ".reqifz"
"""A ZIP archive with ReqIF."""
Format = Annotated[Literal["jsonl", "csv", "reqif"] | None, Parameter(help=f"jsonl, csv or reqif. {_DEFAULT}")]
Flag = Annotated[bool, Parameter(negative=())]
_PAIRS = re.compile(r",(?=\s*\w+\s*=)")
"""What separates two pairs of --map: an attribute can have a comma too."""
T = TypeVar("T")

app = App(name="requirements", help="Import, export, migrate and inspect the requirements database.")


@app.command(name="import")
def import_(
    file: Path,
    /,
    *,
    format: Format = None,  # noqa: A002 - the option's name
    update: Flag = False,
    delete_missing: Flag = False,
    dry_run: Flag = False,
    ours: Flag = False,
    theirs: Flag = False,
    decisions: Path | None = None,
    creator: str | None = None,
    map: list[str] | None = None,  # noqa: A002 - the option's name
    ignore_columns: Flag = False,
    as_json: AsJSON = False,
) -> int:
    """Import records from a file: all of them, or none if any is rejected.

    Args:
        file: JSON Lines or CSV, in UTF-8, or ReqIF. See an export for the fields.
        format: the format of the file.
        update: change records that the database has. A record changes only the fields that it has. Without this option,
            epics, user stories, acceptance criteria, requirements and relationships that exist are rejected.
        delete_missing: with --update, delete what the file does not have, of each kind that it has; if it has projects,
            only of these. Users, projects and types are never deleted.
        dry_run: check everything and show what would change, but write nothing.
        ours: keep the values of the database that the file has changed too since the last import of its source.
        theirs: take the values of the file there.
        decisions: a CSV file that decides each of these values. With --dry-run, a file that does not exist is written,
            with the values that are not decided.
        creator: the author of records without one: a username or user ID. Default in an SQLite database without other
            users: the user `local`, who is created.
        map: for ReqIF of other tools, the attributes of fields: `text=RichText,status=State`. The fields are title,
            text, status, priority and assignee. --dry-run shows what was found, and the next file of the source is
            read in the same way.
            For CSV, the columns: `title=Summary`.
        ignore_columns: leave out the columns of a CSV file that are unknown, and count their values.
        as_json: print the report as JSON.
    """
    given = _parse_map(map or [])
    if delete_missing and not update:
        raise Misuse("--delete-missing needs --update.")
    if (ours or theirs or decisions) and (not update or (ours and theirs)):
        raise Misuse("--ours, --theirs and --decisions need --update, and one excludes the other of the first two.")
    form = _choose_format(format, file)
    with watch(file, is_quiet=as_json) as shown:
        work = _import_work()
        side: Literal["ours", "theirs"] | None = "ours" if ours else "theirs" if theirs else None
        mode = work.Mode(updates=update, deletes=delete_missing, is_trial=dry_run)
        result: Imported | None = run_or_complain(
            lambda: work.import_file(
                file,
                form,
                mode,
                shown.progress,
                shown.announce,
                creator=creator,
                given=given,
                decided=(side, decisions),
                ignores=ignore_columns,
            )
        )
    if result is None:
        return 1
    if as_json:
        show_json(describe_report(file, result))
    else:
        show_report(file, result, is_trial=dry_run)
    return 1 if result.report.rejected_count else 0


@app.command
def export(
    file: Path | None = None,
    /,
    *,
    format: Format = None,  # noqa: A002 - the option's name
    project: list[str] | None = None,
    with_users: Annotated[bool | None, Parameter(negative="--without-users")] = None,
) -> int:
    """Export records that `import` can read.

    Args:
        file: the file to write. Default: stdout.
        format: the format of the file.
        project: the name of a project to export, with what belongs to it. Can be repeated. Default: everything.
        with_users: with users, memberships, authors and assignees, or without. Default: with them in JSON Lines, which
            is a backup; without them in CSV and ReqIF, which others read.
    """
    if file and file.suffix.lower() == _ARCHIVE:
        raise Misuse(f"A {_ARCHIVE} file is an archive, which is not written. Export to a .reqif file.")
    work = _import_work()
    with watch_export(to_stdout=file is None) as progress:
        form = _choose_format(format, file)
        part = work.Part(projects=project or (), has_users=form == "jsonl" if with_users is None else with_users)
        counts: Counter[str] | None = run_or_complain(lambda: work.export_file(file, form, progress, part))
    if counts is not None and file:
        show(f"Exported {counts.total()} records to {file}: {list_counts(counts) or 'none'}.")
        show(
            f"It has {'usernames and e-mail addresses' if counts['user'] else 'no usernames and no e-mail addresses'}."
        )
    return 1 if counts is None else 0


@app.command
def migrate() -> int:
    """Create the tables in an empty database, or migrate those of an older version."""
    work = _import_work()
    with waiting("Migrating"):
        schemas: tuple[Schema, Schema] | None = run_or_complain(work.migrate)
    if schemas is None:
        return 1
    before, after = schemas
    done = "is up to date" if before == after else f"was migrated from {before.revision or 'nothing'}"
    show(f"The requirements database {done}; its schema is {after.revision}.")
    return 0


@app.command
def status(*, as_json: AsJSON = False) -> int:
    """Show where the database is and what it contains. The exit status is 0 if it can be read.

    Args:
        as_json: print JSON.
    """
    work = _import_work()
    with waiting("Reading"):
        found: Status | None = run_or_complain(work.read_status, left_out=CHECK_STATUS)  # which suggests this command
    if found is None:
        return 1
    if as_json:
        show_json({**found})
    else:
        table = Table.grid(padding=(0, 2))
        table.add_row("database", found["database"])
        table.add_row("state", found["state"])
        table.add_row("revision", found["revision"] or "-")
        table.add_row("problem", found["problem"] or "-")
        table.add_row("next step", "\n".join(found["next_steps"]) or "-")
        for name, count in found["rows"].items():
            table.add_row(name, "may not be read" if count is None else str(count))
        show(table)
    return 0 if found["rows"] else 1


def _import_work() -> ModuleType:
    """Import the module that works on the database. It is not imported at the top because it imports SQLAlchemy."""
    return import_module("quilt_mcp.requirements.commands.work")


def _parse_map(options: list[str]) -> dict[str, str]:
    """Return the attribute or column of each field that the options name."""
    given: dict[str, str] = {}
    for one in (part for option in options for part in _PAIRS.split(option)):
        name, separator, attribute = (part.strip() for part in one.partition("="))
        if not (name and separator and attribute):
            raise Misuse(f"--map needs pairs such as text=RichText, separated by commas. It was {one!r}.")
        given[name] = attribute
    return given


def _choose_format(given: Format, file: Path | None) -> Literal["jsonl", "csv", "reqif"]:
    if given:
        return given
    suffix = file.suffix.lower() if file else ""
    return "csv" if suffix == ".csv" else "reqif" if suffix in {".reqif", _ARCHIVE} else "jsonl"


def run_or_complain(call: Callable[[], T], *, left_out: str | None = None) -> T | None:
    """Return the result of a call, or None after printing why it failed.

    Args:
        call: the work.
        left_out: a suggested action that is not printed.
    """
    try:
        with configure_logging("WARNING"):
            return run_stoppable(call)
    except ResourceFailure as failure:
        details = [f"  {failure.details}"] if failure.details else []
        actions = [f"  - {action}" for action in failure.suggested_actions if action != left_out]
        complain(failure.message, *details, *actions)
    except OSError as error:
        if isinstance(error, BrokenPipeError) or is_of_stdout(error):  # which ends the command
            raise
        complain(f"{error.filename}: {error.strerror}." if error.filename else f"{error.strerror}.")
    return None
