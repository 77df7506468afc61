"""Imports records in one transaction: all of them or none."""

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter

from sqlalchemy import Connection, select

from quilt_mcp.requirements import tables
from quilt_mcp.requirements.database import Database
from quilt_mcp.requirements.transfer.files import Numbered, Refused
from quilt_mcp.requirements.transfer.links import LinkResolver, check_relationships
from quilt_mcp.requirements.transfer.matching import check_criteria, complete_records, match_records
from quilt_mcp.requirements.transfer.merging import Conflict, Decisions, Merger
from quilt_mcp.requirements.transfer.placing import place_records
from quilt_mcp.requirements.transfer.records import Rejection, Rejections
from quilt_mcp.requirements.transfer.sources import Origin, remember
from quilt_mcp.requirements.transfer.spool import Spool, open_spool
from quilt_mcp.requirements.transfer.storing import write_records
from quilt_mcp.requirements.transfer.updating import Changes, Deleter, Updater

LOCAL_USER = "local"
"""The author of records in an embedded database that has no other users."""
_LOCAL_EMAIL = "local@localhost"

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Mode:
    """The permitted actions of an import.

    Attributes:
        updates: change the entities and relationships that the database has, instead of rejecting them. A record then
            changes only the fields that it has.
        deletes: delete what the file does not have, of the kinds that it has.
        is_trial: check and report everything, but write nothing.
        decisions: what happens to fields that the file and the database have changed since the last import.
    """

    updates: bool = False
    deletes: bool = False
    is_trial: bool = False
    decisions: Decisions = field(default_factory=Decisions)


@dataclass(frozen=True)
class Report:
    """The result of an import.

    Attributes:
        imported: the number of records of each kind; empty if any record was rejected.
        changes: what changes; None if the import may not update.
        author: the author of records without one: the given user, or the user `local`; None if all have one.
        rejected: the first problems, sorted by line.
        rejected_count: the number of all problems.
        kept: how many values only the database has changed since the last import.
        conflicts: the first fields that both have changed, and of which nothing is decided.
    """

    imported: Counter[str] = field(default_factory=Counter)
    changes: Changes | None = None
    author: str | None = None
    rejected: list[Rejection] = field(default_factory=list)
    rejected_count: int = 0
    kept: int = 0
    conflicts: list[Conflict] = field(default_factory=list)


class _RolledBack(Exception):
    """Ends the transaction of an import that is only a trial, or in which records were rejected."""


_ONLY_NEW = Mode()


def import_records(
    database: Database,
    records: Iterable[Numbered | Refused],
    *,
    creator: str | None = None,
    mode: Mode = _ONLY_NEW,
    progress: Progress = lambda *_: None,
    announce: Callable[[Rejection], object] = lambda _: None,
    skipped: Counter[str] | None = None,
    origin: Origin | None = None,
) -> Report:
    """Write all records, or none if any is rejected. Update existing users, projects and types.

    Args:
        database: must not be one of the earlier requirements system.
        records: of a file. All are read before the transaction starts.
        creator: the author of records without one; a user ID or username.
        mode: what the import may do.
        progress: called with what is being done, the number of records that are done, and the total.
        announce: called with each of the first rejections, when it is found.
        skipped: counts what is left out.
        origin: where the records come from; None if the database need not remember it.

    Raises:
        OSError: the file cannot be read.
        ResourceFailure: as `Database.writing`.
    """
    _check_database(database)
    rejections = Rejections(announce)
    with open_spool(Counter() if skipped is None else skipped) as spool:
        work = _Import(spool, rejections, creator, mode, progress, origin)
        if _read(records, spool, rejections):
            with suppress(_RolledBack), database.writing() as connection:
                work.check(connection)
                if not rejections.count:
                    work.write(connection)
                if rejections.count or mode.is_trial:
                    raise _RolledBack
        if not rejections.count:
            changes = work.changes if mode.updates else None
            return Report(imported=spool.counts, changes=changes, author=work.author, kept=work.kept)
    rejected = sorted(rejections.first, key=itemgetter(0))
    return Report(rejected=rejected, rejected_count=rejections.count, conflicts=work.conflicts)


def _check_database(database: Database) -> None:
    """Check that the database can be written, so that a failure is reported before the file is read."""
    with database.reading():
        is_writable = not database.is_existing
    if not is_writable:
        with database.writing():
            pass


def _read(records: Iterable[Numbered | Refused], spool: Spool, rejections: Rejections) -> bool:
    """Read the records. Return whether the file was read to its end."""
    for record in records:
        if isinstance(record, Numbered):
            spool.add(record, rejections)
        else:
            for rejection in record.rejections:
                rejections.take(rejection)
            if record.ends_file:
                return False
            spool.add_refused(record.rejections[0].line, record.fields)
    return True


@dataclass
class _Import:
    """The transaction of an import."""

    spool: Spool
    rejections: Rejections
    creator: str | None
    mode: Mode
    progress: Progress
    origin: Origin | None = None
    author: str | None = None
    changes: Changes = field(default_factory=Changes)
    kept: int = 0
    conflicts: list[Conflict] = field(default_factory=list)

    def check(self, connection: Connection) -> None:
        """Compare the records with the database and with each other, and complete them."""
        spool, rejections, updates = self.spool, self.rejections, self.mode.updates
        match_records(connection, spool, rejections, updates=updates)
        if updates:
            complete_records(connection, spool, rejections)
        if spool.lacks_author and self.creator is None and connection.dialect.name == "sqlite":
            self.author = _choose_local_user(connection, spool, rejections)
        elif spool.lacks_author:
            self.author = self.creator
        resolver = LinkResolver(connection, spool, rejections, updates=updates)
        resolver.resolve(self.author, self._reporting("Checking"))
        if not self.mode.deletes:
            check_relationships(resolver)

    def write(self, connection: Connection) -> None:
        """Write the records. Then check what only all rows together show."""
        spool, rejections = self.spool, self.rejections
        merger = None
        if self.origin:
            merger = Merger(connection, spool, remember(connection, self.origin), self.mode.decisions)
        place_records(connection, spool)
        updater = Updater(connection, spool, rejections, self.changes, merger) if self.mode.updates else None
        write_records(connection, spool, updater, self._reporting("Writing"), merger)
        if merger:
            self.kept, self.conflicts = merger.kept, merger.conflicts
        if updater:
            check_criteria(connection, spool, rejections)
        if self.mode.deletes:
            Deleter(connection, spool, rejections, self.changes).delete_missing()
            # only now is known which relationships stay: of a file with projects, also those that lead out of them
            check_relationships(LinkResolver(connection, spool, rejections), is_written=True)

    def _reporting(self, action: str) -> Callable[[int], object]:
        return lambda done: self.progress(action, done, self.spool.counts.total())


def _choose_local_user(connection: Connection, spool: Spool, rejections: Rejections) -> str | None:
    """Return the user `local`, who is created if neither the database nor the file has a user.

    None if there is another user: then the author has to be named.
    """
    stored = connection.scalars(select(tables.users.c.username).limit(2)).all()  # of two, one is another user
    given = (key.key for keys in spool.list_keys("users.username") for key in keys)
    has_users = False
    for name in chain(stored, given):
        if name != LOCAL_USER:
            return None
        has_users = True
    if not has_users:
        user = {"kind": "user", "username": LOCAL_USER, "email": _LOCAL_EMAIL, "role": "User"}
        spool.add(Numbered(0, user), rejections)
    return LOCAL_USER
