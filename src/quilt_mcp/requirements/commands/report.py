"""What an import prints: its progress, its problems, and what it changes. The progress of an export."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rich.progress import DownloadColumn, MofNCompleteColumn, Progress, ProgressColumn, Task
from rich.text import Text

from quilt_mcp.console.output import VISIBLE, complain, console_on, show

if TYPE_CHECKING:
    from quilt_mcp.requirements.transfer.importing import Report
    from quilt_mcp.requirements.transfer.records import Rejection
    from quilt_mcp.requirements.transfer.reqif.mapping import Mapped
    from quilt_mcp.requirements.transfer.updating import Change, Changes

SHOWN = 50
"""Maximum number of problems, of changed records, and of skipped things, that an import prints without --json."""
READING = "Reading"
"""The part of an import with its progress in bytes."""
EXPORTING = "Exporting"
"""The only part of an export, with its progress in rows."""
_MOST_CHARACTERS = 60
_IRREGULAR = {
    "user_story": ("user story", "user stories"),
    "acceptance_criteria": ("acceptance criterion", "acceptance criteria"),
}
"""The singular and the plural of the names of some kinds."""


class Imported(NamedTuple):
    """The result of an import.

    Attributes:
        report: what was imported, or why nothing was.
        skipped: how often each part of the file was skipped, by name.
        may_be_cut: whether the last row of a CSV file has no line break, so that its last cell can be incomplete.
        mapped: the attributes of each type of a ReqIF file that have the fields of records.
        encoding: of a CSV file with characters beyond ASCII.
    """

    report: "Report"
    skipped: Mapping[str, int]
    may_be_cut: bool
    mapped: Sequence["Mapped"] = ()
    encoding: str | None = None


def describe_report(file: Path, imported: Imported) -> dict[str, object]:
    """Return what `--json` prints."""
    report, skipped, may_be_cut, mapped, encoding = imported
    rejected = [
        {"file": str(file), "line": line, "field": field, "reason": reason} for line, field, reason in report.rejected
    ]
    described: dict[str, object] = {
        "imported": dict(report.imported),
        "author": report.author,
        "rejected": rejected,
        "rejected_count": report.rejected_count,
        "skipped": dict(skipped),
        "may_be_cut": may_be_cut,
        "encoding": encoding,
    }
    if report.conflicts:
        described["conflicts"] = [one._asdict() for one in report.conflicts]
    if mapped:
        described["mapping"] = [asdict(one) for one in mapped]
    if changes := report.changes:
        described["kept"] = report.kept
        described |= {
            **{verb: dict(counts) for verb, counts in _name_counts(changes)},
            "changes": [_describe_change(one) for one in changes.first],
            "change_count": changes.count,
        }
    return described


def show_report(file: Path, imported: Imported, *, is_trial: bool) -> None:
    report, skipped, may_be_cut, mapped, encoding = imported
    _show_skipped(skipped)
    if encoding == "cp1252":
        complain(f"{file} is not in UTF-8. It was read as Windows-1252.")
    if is_trial:
        _show_mapping(mapped)
    if report.rejected_count:
        hidden = report.rejected_count - min(report.rejected_count, SHOWN)
        more = f" {hidden} more are not shown; --json shows more." if hidden else ""
        problems = "1 problem" if report.rejected_count == 1 else f"{report.rejected_count} problems"
        complain(f"Nothing was imported: {problems}.{more}")
        return
    if report.changes:
        _show_changes(file, report.changes)
        done = ", ".join(f"{verb} {list_counts(counts)}" for verb, counts in _name_counts(report.changes) if counts)
        show(f"{'Dry run, nothing was written' if is_trial else 'Done'}: {done or 'the file is empty'}.")
    else:
        counts = list_counts(report.imported) or "nothing, because the file is empty"
        show(f"{'Dry run, nothing was written. It would import' if is_trial else 'Imported'}: {counts}.")
    if report.kept:
        values = "1 value" if report.kept == 1 else f"{report.kept} values"
        show(f"Kept: {values} that only the database has changed since the last import.")
    if report.author:
        show(f"The author of the records without one is {report.author}.")
    if may_be_cut:
        complain(
            f"The last row of {file} has no line break. If the file was cut off there, its last cell is incomplete."
        )


def _show_skipped(skipped: Mapping[str, int]) -> None:
    for name, count in list(skipped.items())[:SHOWN]:
        complain(f"Skipped: {name} ({count})")
    if len(skipped) > SHOWN:
        complain(f"{len(skipped) - SHOWN} more were skipped; --json shows them.")


def _show_mapping(mapped: Sequence["Mapped"]) -> None:
    """Show in which attributes the fields are, and what the first titles are."""
    for one in mapped[:SHOWN]:
        fields = ", ".join(f"{name} = {attribute}" for name, attribute in one.fields.items()) or "no attribute is used"
        shown = f"Type {one.name} ({one.count}): {fields}. For example: {' | '.join(one.examples)}"
        show(shown.translate(VISIBLE))
    if mapped:
        show("To change this: --map text=ATTRIBUTE, also of title, status, priority and assignee.")


def _show_changes(file: Path, changes: "Changes") -> None:
    for action, line, kind, name, fields in changes.first[:SHOWN]:
        place = f"{file}:{line}: " if line else ""
        values = "; ".join(f"{field}: {_shorten(before)} → {_shorten(after)}" for field, before, after in fields)
        show(f"{place}{action} {kind} {name}{f': {values}' if values else ''}".translate(VISIBLE))
    if changes.count > SHOWN:
        show(f"{changes.count - SHOWN} more changes are not shown; --json shows up to 1000.")


def _name_counts(changes: "Changes") -> list[tuple[str, Counter[str]]]:
    return [(verb, getattr(changes, verb)) for verb in ("created", "updated", "deleted", "unchanged")]


def list_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {_name_kind(kind, count)}" for kind, count in counts.items())


def _name_kind(kind: str, count: int) -> str:
    one, several = _IRREGULAR.get(kind, (kind.replace("_", " "), f"{kind.replace('_', ' ')}s"))
    return one if count == 1 else several


def _describe_change(change: "Change") -> dict[str, object]:
    fields = {name: {"before": before, "after": after} for name, before, after in change.fields}
    return {
        "action": change.action,
        "line": change.line or None,
        "kind": change.kind,
        "name": change.name,
        "fields": fields,
    }


def _shorten(value: object) -> str:
    if value is None:
        return "nothing"
    text = repr(value)
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}…"


def _show_part(bar: Progress, doing: str, done: int, total: int) -> None:
    """Show how far a part of the work is, instead of the part before."""
    known = total or None  # the size of a pipe is 0
    shown = next(iter(bar.tasks), None)
    if shown and shown.description == doing:
        bar.update(shown.id, completed=done, total=known)
        return
    if shown:
        bar.remove_task(shown.id)
    bar.add_task(doing, completed=done, total=known)


class Watch:
    """Shows what an import does."""

    def __init__(self, file: Path, bar: Progress, *, is_quiet: bool) -> None:
        self._file = file
        self._bar = bar
        self._left = 0 if is_quiet else SHOWN
        self.progress = partial(_show_part, bar)

    def announce(self, rejection: "Rejection") -> None:
        if self._left:
            self._left -= 1
            place = f"{self._file}:{rejection.line}" if rejection.line else str(self._file)
            field = f"{rejection.field}: " if rejection.field else ""
            self._bar.console.print(f"{place}: {field}{rejection.reason}", soft_wrap=True)


@contextmanager
def watch(file: Path, *, is_quiet: bool) -> Iterator[Watch]:
    """Show the progress if stderr is a terminal, and rejections if not quiet."""
    with _open_bar() as bar:
        yield Watch(file, bar, is_quiet=is_quiet)


@contextmanager
def watch_export(*, to_stdout: bool) -> Iterator[Callable[[str, int, int], None]]:
    """Show the progress if stderr is a terminal and the records do not go to the same one."""
    with _open_bar(is_hidden=to_stdout and sys.stdout.isatty()) as bar:
        yield partial(_show_part, bar)


def _open_bar(*, is_hidden: bool = False) -> Progress:
    console = console_on(sys.stderr)
    columns = (*Progress.get_default_columns(), _Amount())
    return Progress(
        *columns,
        console=console,
        transient=True,
        disable=is_hidden or not console.is_terminal,
        redirect_stdout=False,  # Rich would show the records of an export on the terminal instead
        redirect_stderr=False,
    )


class _Amount(ProgressColumn):
    """What is done: bytes of the file while it is read, records or rows otherwise."""

    _bytes, _records = DownloadColumn(), MofNCompleteColumn()

    def render(self, task: Task) -> Text:
        if task.description == EXPORTING:
            return Text(f"{task.completed:,.0f} of {task.total or 0:,.0f} rows", style="progress.download")
        return (self._bytes if task.description == READING else self._records).render(task)
