"""The database work of `quilt-mcp requirements`. A separate module, so that the command line starts fast."""

import os
import secrets
import stat
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, TextIO, TypedDict

from sqlalchemy import Connection, func, select

from quilt_mcp.app import current_app
from quilt_mcp.app.database.engines import Schema, State
from quilt_mcp.core.errors import ResourceExecutionError
from quilt_mcp.requirements.commands.report import EXPORTING, READING, Imported
from quilt_mcp.requirements.database import CREATED_BY_USE, Database, open_database, require_readable
from quilt_mcp.requirements.model import TABLES
from quilt_mcp.requirements.settings import RequirementsSettings
from quilt_mcp.requirements.tables import metadata
from quilt_mcp.requirements.transfer.exporting import BATCH, EVERYTHING, Part, export_records
from quilt_mcp.requirements.transfer.files import Format, Numbered, RecordReader, Refused, Writer
from quilt_mcp.requirements.transfer.importing import Mode, Progress, import_records
from quilt_mcp.requirements.transfer.issues import IssueReader, find_tracker
from quilt_mcp.requirements.transfer.merging import Decisions, Side, read_decisions, write_decisions
from quilt_mcp.requirements.transfer.records import Rejection, parse_change, parse_record
from quilt_mcp.requirements.transfer.reqif.reader import ReqifReader
from quilt_mcp.requirements.transfer.reqif.writer import ReqifWriter
from quilt_mcp.requirements.transfer.sources import Memory

AnyFormat = Format | Literal["reqif"]

_SHOWN_BYTES = 100_000
_OPEN_END = (
    "The last row has no line break, so the file can be cut off. --delete-missing would delete what is "
    "missing. Add a line break at the end of the file if it is complete."
)
_NOT_IN_EXISTING = {"projects", "project_members"}


class Status(TypedDict):
    """What `quilt-mcp requirements status --json` prints."""

    database: str
    """The file, or the address without user and password."""
    state: State
    """`current`, `outdated`, `newer`, `empty`, `existing` (the earlier requirements system) or `unknown`."""
    revision: str | None
    """The revision of the tables; null if they are not ours."""
    problem: str | None
    """Why the state is `unknown`; null otherwise."""
    next_steps: list[str]
    """What to do so that the database can be read; empty if it can be."""
    rows: dict[str, int | None]
    """The number of rows by table, null for a table that the login may not read; empty if no table can be read."""


def import_file(
    path: Path,
    form: AnyFormat,
    mode: Mode,
    progress: Progress,
    announce: Callable[[Rejection], object],
    *,
    creator: str | None = None,
    given: Mapping[str, str] | None = None,
    decided: tuple[Side | None, Path | None] = (None, None),
    ignores: bool = False,
) -> Imported:
    """Import a file into the database; see `import_records`. While it reads, the progress is in bytes.

    Args:
        path: the file.
        form: its format.
        mode: what the import may do.
        progress: called with what is done.
        announce: called with each of the first problems.
        creator: the author of records without one.
        given: the attributes of fields that the user names.
        ignores: whether unknown columns are left out and counted.
        decided: the side of conflicts, and a file with the sides of some. A trial writes it if it does not exist.
    """
    skipped: Counter[str] = Counter()
    side, decisions = decided
    is_asked = mode.is_trial and decisions is not None and not decisions.exists()
    mode = replace(mode, decisions=read_decisions(decisions, side) if decisions and not is_asked else Decisions(side))
    with _open(is_trial=mode.is_trial) as database, path.open("rb") as file:
        parse = parse_change if mode.updates else parse_record
        source: ReqifReader | RecordReader | IssueReader
        if form == "reqif":
            source = ReqifReader(file, skipped, parse=parse, given=given, memory=Memory(database))
        elif form == "csv" and (tracker := find_tracker(file)):
            source = IssueReader(file, tracker, skipped, parse=parse, given=given, memory=Memory(database))
        else:
            source = RecordReader(file, form, parse=parse, given=given, skipped=skipped if ignores else None)
        records = _follow(source, os.fstat(file.fileno()).st_size, progress, must_end=mode.deletes)
        report = import_records(
            database,
            records,
            creator=creator,
            mode=mode,
            progress=progress,
            announce=announce,
            skipped=skipped,
            origin=source,
        )
    if decisions and is_asked and report.conflicts:
        write_decisions(decisions, report.conflicts)
    return Imported(report, skipped, source.may_be_cut, source.mapped, source.encoding)


def _follow(
    reader: RecordReader | ReqifReader | IssueReader, size: int, progress: Progress, *, must_end: bool
) -> Iterator[Numbered | Refused]:
    progress(READING, 0, size)
    shown = 0
    for record in reader:
        if reader.bytes_read - shown >= _SHOWN_BYTES:
            shown = reader.bytes_read
            progress(READING, shown, size)
        yield record
    if must_end and reader.may_be_cut:  # records that were cut off would be deleted
        yield Refused([Rejection(0, None, _OPEN_END)], None, ends_file=True)


def export_file(
    path: Path | None,
    form: AnyFormat,
    progress: Progress,
    part: Part = EVERYTHING,
    *,
    batch: int = BATCH,
) -> Counter[str]:
    """Export to a file or to stdout. Return the number of records of each kind. The file appears when it is complete.

    Args:
        path: the file; None for stdout.
        form: the format of the file.
        progress: called with what is being done, the number of rows that were read, and the number of all rows.
        part: what to export.
        batch: the number of rows that are read together.

    Raises:
        ResourceExecutionError: the file is a database, or the database cannot be read.
        ResourceFailure: as `export_records`.
        OSError: the file cannot be written.
    """
    counts: Counter[str] = Counter()
    with (
        _open() as database,
        closing(export_records(database, part, batch=batch, progress=partial(progress, EXPORTING))) as records,
    ):
        if path:
            refuse_database(path, database.storage.file)
        with open_target(path) as file:
            writer = ReqifWriter(file) if form == "reqif" else Writer(file, form)
            for record in records:
                writer.write(record)
                counts[str(record["kind"])] += 1
            writer.finish()
    return counts


def migrate() -> tuple[Schema, Schema]:
    """Migrate the tables to the newest revision. Return their state before and after."""
    with _open() as database:
        before = database.upgrade()
        return before, database.schema()


def read_status() -> Status:
    """Return where the database is, its state, and the number of rows of its tables."""
    with _open() as database:
        schema = database.schema()
        status: Status = {
            "database": _describe_address(database),
            "state": schema.state,
            "revision": schema.revision,
            "problem": schema.problem,
            "next_steps": [],
            "rows": {},
        }
        try:
            require_readable(schema)
        except ResourceExecutionError as failure:
            is_new = schema.state == "empty" and database.dialect == "sqlite"
            status["next_steps"] = [CREATED_BY_USE] if is_new else list(failure.suggested_actions)
            return status
        with database.reading() as connection:
            left_out = _NOT_IN_EXISTING if database.is_existing else set()
            for name in TABLES.values():
                if name not in left_out:
                    status["rows"][name] = _count_rows(connection, name)
        return status


def _count_rows(connection: Connection, table: str) -> int | None:
    """Return the number of rows; None if the login may not read the table, which not every answer needs."""
    if connection.dialect.name == "postgresql":
        may_read = connection.scalar(select(func.has_table_privilege(table, "SELECT")))
        if not may_read:
            return None
    count = select(func.count()).select_from(metadata.tables[table])
    return connection.execute(count).scalar_one()


@contextmanager
def _open(*, is_trial: bool = False) -> Iterator[Database]:
    """Open the database. A trial does not create an SQLite file: it uses a temporary one."""
    settings = current_app().settings_as(RequirementsSettings)
    with ExitStack() as stack:
        database = open_database(settings, patient=True)
        file = database.storage.file
        if is_trial and file and not file.exists():
            folder = Path(stack.enter_context(TemporaryDirectory()))
            temporary = settings.model_copy(update={"database_url": None, "data_dir": folder})
            database = open_database(temporary, patient=True)
        try:
            yield database
        finally:
            database.close()


def _describe_address(database: Database) -> str:
    url = database.storage.engine.url
    if database.dialect == "sqlite":
        return str(url.database)
    host = url.host or url.query.get("host", "localhost")
    return f"postgresql://{host}{f':{url.port}' if url.port else ''}/{url.database}"


_SQLITE_START = b"SQLite format 3\0"


@contextmanager
def open_target(path: Path | None) -> Iterator[TextIO]:
    """Open a file that appears when it is complete, or stdout. A pipe or a device is written directly."""
    if path is None:
        if isinstance(sys.stdout, TextIOWrapper):  # with the encoding of the terminal
            sys.stdout.reconfigure(encoding="utf-8", newline="")
        yield sys.stdout
        sys.stdout.flush()
        return
    path = path.resolve()  # a link stays a link
    if path.exists() and not path.is_file():
        with path.open("w", encoding="utf-8", newline="") as device:
            yield device
        return
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        before = stat.S_IMODE(path.stat().st_mode) if path.exists() else None
        # the umask limits the mode of a new file only
        handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if before is None else 0o600)
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            if before is not None:
                unfinished.chmod(before)
            yield file
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except OSError as error:
        error.filename = str(path)  # the user does not know the name of the unfinished file
        raise
    finally:
        with suppress(FileNotFoundError, NotADirectoryError):  # the second one if a parent is a file
            unfinished.unlink()


def refuse_database(path: Path, own: Path | None) -> None:
    """Refuse a file of an SQLite database: itself, or its log, which an export must not replace.

    Raises:
        ResourceExecutionError: it is one.
    """
    name, dash, ending = path.resolve().name.rpartition("-")
    is_beside = bool(dash) and ending in {"wal", "shm", "journal"}
    file = path.resolve().with_name(name) if is_beside else path.resolve()
    is_database = own is not None and file == own.resolve()  # which does not need to exist yet
    if not is_database and file.is_file():
        with file.open("rb") as opened:
            is_database = opened.read(len(_SQLITE_START)) == _SQLITE_START
    if is_database:
        raise ResourceExecutionError(
            f"{path} belongs to an SQLite database. It was not changed.", suggested_actions=["Use another name."]
        )
