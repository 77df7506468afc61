"""quilt://buckets/{bucket}/packages/{namespace}/{name}/changes: what differs between two revisions of a package."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NotRequired

from typing_extensions import TypedDict  # pydantic needs it before Python 3.12

from quilt_mcp.core.errors import InvalidTemplateVariable, ResourceFailure
from quilt_mcp.services.package_uris import LATEST, make_contents_uri
from quilt_mcp.services.packages import (
    MAX_NAMES,
    MOST_REVISIONS,
    REVISIONS_PAGE,
    ListedRevision,
    OfPackage,
    RevisionRow,
    ask_package,
    describe_revision,
    join_name,
    make_unknown_revision,
    read_revisions,
    resolve_revision,
)
from quilt_mcp.services.pages import cut_page
from quilt_mcp.services.parallel_calls import NOT_IN_TIME, fan_out
from quilt_mcp.services.preview.answer import Table, is_table, show_file
from quilt_mcp.services.preview.refused import Refused
from quilt_mcp.services.preview.stored_file import parse_key
from quilt_mcp.services.stack.callers import current_caller
from quilt_mcp.services.stack.graphql import Size

if TYPE_CHECKING:
    from quilt_mcp.services.stack.caller import Caller

MAX_FILES = 5000
"""Revisions with more files are not compared: the stack sends each as one map."""
MOST_TABLES, TABLE_SECONDS = 5, 20.0
ONLY_FIRST = f"Only the first {MOST_TABLES} tables of a page are compared. Read the file in both revisions."
NOT_COMPARED = (
    "The Quilt stack does not list all files of both revisions. A revision has more than "
    f"{MAX_FILES:,} files, or its manifest cannot be read."
)
PARTS = {"hash": "content", "size": "size", "physicalKey": "physical_key", "meta": "metadata"}
"""What can differ about a file: how the stack calls it, and how the answer does."""

ChangeKind = Literal["added", "removed", "modified"]


class _File(TypedDict):
    """The schema does not say what is in it, and a hash is a text or an object. Either can be compared."""

    physicalKey: str | None
    size: Size | None
    hash: object
    meta: object


class _Whole(RevisionRow):
    user_meta: dict[str, object] | None
    files: dict[str, _File] | None


class _Newest(TypedDict):
    page: list[_Whole]


class _WithNewest(TypedDict):
    revisions: _Newest


class _Two(TypedDict):
    older: _Whole | None
    newer: _Whole | None


class ColumnChanges(TypedDict):
    """What differs between the columns of two versions of a table: at most 50 of each kind.

    Attributes:
        added: the names that only the newer table has.
        removed: the names that only the older table has.
        retyped: the names with another type.
        truncated: true if there are more, or a table has more than 100 columns, of which only the first are compared;
            absent if not.
    """

    added: list[str]
    removed: list[str]
    retyped: list[str]
    truncated: NotRequired[Literal[True]]


class ChangeRow(TypedDict):
    """A file that differs.

    Attributes:
        path: its path in the package.
        change: "added", "removed" or "modified".
        what: of a modified file, what differs: "content" (its hash), "size", "physical_key" (its place) and "metadata".
        size: its size in bytes in the newer revision; null if it is not there, or the stack does not say.
        size_before: its size in bytes in the older revision; null if it is not there, or the stack does not say.
        physical_key: where it is in the newer revision, or in the older one if it was removed; null if the stack does
            not say.
        uri: the URI that shows what is in it, in the newer revision, or in the older one if it was removed.
        columns: of a table with other content, which columns came and went; null for every other file, as below, and
            after the first 5 tables of the page.
        columns_unknown: why the columns are not compared; null if they are, or the file is no table.
    """

    path: str
    change: ChangeKind
    what: list[str]
    size: int | None
    size_before: int | None
    physical_key: str | None
    uri: str
    columns: ColumnChanges | None
    columns_unknown: str | None


class MetadataChanges(TypedDict):
    """The keys of metadata that differ, at the top level: at most 50 of each kind.

    Attributes:
        added: the keys that only the newer revision has, sorted.
        removed: the keys that only the older revision has, sorted.
        modified: the keys with other values, sorted.
        truncated: true if there are more; absent if not.
    """

    added: list[str]
    removed: list[str]
    modified: list[str]
    truncated: NotRequired[Literal[True]]


class ChangesAnswer(OfPackage):
    """A page of what differs between two revisions.

    Attributes:
        older: the revision that is compared; null if there is none before the newer one: then all files are added.
        newer: the revision that it is compared with.
        added: the number of files that only the newer revision has; null if the files are not compared.
        removed: the number of files that only the older revision has; null if the files are not compared.
        modified: the number of files that differ; null if the files are not compared.
        metadata: what differs in the metadata of the package.
        changes: the files of this page, by path; null if the files are not compared.
        count: the total of all pages; null if the files are not compared.
        next_cursor: the `cursor` of the next page; null on the last page.
        not_compared: why the files are not compared; null if they are.
        python: the lines of Python that compare the revisions without a limit.
    """

    older: ListedRevision | None
    newer: ListedRevision
    added: int | None
    removed: int | None
    modified: int | None
    metadata: MetadataChanges
    changes: list[ChangeRow] | None
    count: int | None
    next_cursor: str | None
    not_compared: str | None
    python: list[str]


def package_changes_get(  # noqa: PLR0917 - the parameters of the URI
    bucket: str,
    namespace: str,
    name: str,
    older: str | None = None,
    newer: str | None = None,
    cursor: str | None = None,
    limit: str | None = None,
) -> ChangesAnswer:
    """What changed between two revisions.

    `from` and `to` are top hashes, or at least six characters of one; by default the newest revision and the one before
    it. The answer has the files that were added, removed or modified, 50 per page, and the keys of metadata. Revisions
    of more than 5,000 files are not compared. For the first 5 tables that changed, it says which columns came and
    went. Sends one GraphQL request, with short hashes or only `to` at least two, and reads the start of these tables.
    """
    package, caller = join_name(namespace, name), current_caller()
    before, after = _read_both(caller, bucket, package, older, newer)
    is_whole = after["files"] is not None and (before is None or before["files"] is not None)
    older_files, newer_files = (before and before["files"]) or {}, after["files"] or {}
    revisions = (before["hash"] if before else after["hash"], after["hash"])
    rows = list(_compare(older_files, newer_files, bucket, package, revisions)) if is_whole else []
    scope = ("changes", caller.login.stack.registry_url, bucket, package, before and before["hash"], after["hash"])
    page = cut_page(rows, lambda row: row["path"], build=lambda row: row, cursor=cursor, limit=limit, scope=scope)
    kinds = [row["change"] for row in rows]
    _compare_tables(caller, page.rows, older_files, newer_files)
    return {
        "bucket": bucket,
        "name": package,
        "older": describe_revision(before, bucket, package) if before else None,
        "newer": describe_revision(after, bucket, package),
        "added": kinds.count("added") if is_whole else None,
        "removed": kinds.count("removed") if is_whole else None,
        "modified": kinds.count("modified") if is_whole else None,
        "metadata": _compare_metadata((before and before["user_meta"]) or {}, after["user_meta"] or {}),
        "changes": page.rows if is_whole else None,
        "count": page.total if is_whole else None,
        "next_cursor": page.next_cursor,
        "not_compared": None if is_whole else NOT_COMPARED,
        "python": _write_python(bucket, package, before["hash"] if before else None, after["hash"]),
    }


def _read_both(
    caller: "Caller", bucket: str, package: str, older: str | None, newer: str | None
) -> tuple[_Whole | None, _Whole]:
    """Return both revisions; None for the older one if there is none."""
    if older is None and newer in (None, LATEST):
        found = ask_package(caller, "packageNewest", _WithNewest, bucket, package, max=MAX_FILES)["revisions"]["page"]
        if not found:
            raise make_unknown_revision(bucket, package, LATEST)
        return found[1] if len(found) > 1 else None, found[0]
    after = resolve_revision(caller, bucket, package, newer or LATEST)
    before = (
        resolve_revision(caller, bucket, package, older) if older else _find_previous(caller, bucket, package, after)
    )
    given = {"older": before or after, "newer": after, "max": MAX_FILES}
    both = ask_package(caller, "packageChanges", _Two, bucket, package, **given)
    if both["newer"] is None:
        raise make_unknown_revision(bucket, package, after)
    if both["older"] is None:
        raise make_unknown_revision(bucket, package, before or after)
    return both["older"] if before else None, both["newer"]


def _find_previous(caller: "Caller", bucket: str, package: str, revision: str) -> str | None:
    """Return the hash of the revision before another; None if that is the first.

    Raises:
        InvalidTemplateVariable: it is none of the newest revisions, such as a tag.
    """
    read, number = list[str](), 1
    while len(read) < MOST_REVISIONS:
        found = read_revisions(caller, bucket, package, number, REVISIONS_PAGE)
        read += [row["hash"] for row in found["page"]]
        number += 1
        if revision in read[:-1]:
            return read[read.index(revision) + 1]
        if not found["page"] or len(read) >= found["total"]:
            break
    if read[-1:] == [revision]:
        return None
    raise InvalidTemplateVariable(
        f"The revision before {revision} is not known.",
        details=f"It is not the top hash of one of the newest {len(read):,} revisions.",
        suggested_actions=["Give `from` too, or the top hash of a revision as `to`."],
    )


def _compare(
    older: Mapping[str, _File], newer: Mapping[str, _File], bucket: str, package: str, revisions: tuple[str, str]
) -> Iterator[ChangeRow]:
    for path in sorted(older.keys() | newer.keys()):
        before, after = older.get(path), newer.get(path)
        differs = [called for part, called in PARTS.items() if before and after and before.get(part) != after.get(part)]
        if before and after and not differs:
            continue
        either = after or before
        yield {
            "path": path,
            "change": "modified" if differs else "added" if after else "removed",
            "what": differs,
            "size": after["size"] if after else None,
            "size_before": before["size"] if before else None,
            "physical_key": either["physicalKey"] if either else None,
            "uri": make_contents_uri(bucket, package, revisions[after is not None], path, "file"),
            "columns": None,
            "columns_unknown": None,
        }


def _compare_tables(
    caller: "Caller", rows: Sequence[ChangeRow], older: Mapping[str, _File], newer: Mapping[str, _File]
) -> None:
    """Compare the columns of the first tables with other content. Each is read in both versions."""
    tables = [row for row in rows if "content" in row["what"] and is_table(row["path"])]
    compared = {row["path"]: row for row in tables[:MOST_TABLES]}

    def compare(path: str) -> ColumnChanges | str:
        try:
            before, after = (_read_columns(caller, files[path]["physicalKey"], path) for files in (older, newer))
        except (Refused, ResourceFailure) as failure:
            return str(failure)
        return _compare_columns(before, after)

    found = fan_out(compare, compared, seconds=TABLE_SECONDS, workers=MOST_TABLES)
    for row in tables:
        known = found.get(row["path"], NOT_IN_TIME if row["path"] in compared else ONLY_FIRST)
        row["columns"] = None if isinstance(known, str) else known
        row["columns_unknown"] = known if isinstance(known, str) else None


def _read_columns(caller: "Caller", physical_key: str | None, path: str) -> Table:
    """Return a table without rows.

    Raises:
        Refused: it cannot be shown as a table.
        ResourceFailure: it cannot be read.
    """
    content, _ = show_file(caller.aws, parse_key(physical_key or ""), path, cursor=None, limit="1")
    if content["table"] is None:
        raise Refused(content["not_shown"] or "It is no table.")
    return content["table"]


def _compare_columns(older: Table, newer: Table) -> ColumnChanges:
    before, after = ({one["name"]: one["type"] for one in table["columns"]} for table in (older, newer))
    added, removed = [name for name in after if name not in before], [name for name in before if name not in after]
    retyped = [name for name in after if name in before and after[name] != before[name]]
    is_cut = any(len(table["columns"]) != table["column_count"] for table in (older, newer))
    found: ColumnChanges = {
        "added": added[:MAX_NAMES],
        "removed": removed[:MAX_NAMES],
        "retyped": retyped[:MAX_NAMES],
    }
    if is_cut or max(len(added), len(removed), len(retyped)) > MAX_NAMES:
        found["truncated"] = True
    return found


def _compare_metadata(older: Mapping[str, object], newer: Mapping[str, object]) -> MetadataChanges:
    added, removed = sorted(newer.keys() - older.keys()), sorted(older.keys() - newer.keys())
    modified = sorted(key for key in older.keys() & newer.keys() if older[key] != newer[key])
    found: MetadataChanges = {
        "added": added[:MAX_NAMES],
        "removed": removed[:MAX_NAMES],
        "modified": modified[:MAX_NAMES],
    }
    if max(len(added), len(removed), len(modified)) > MAX_NAMES:
        found["truncated"] = True
    return found


def _write_python(bucket: str, package: str, older: str | None, newer: str) -> list[str]:
    """Return lines that print what was added, modified and removed."""
    browse = 'quilt3.Package.browse("{}", "s3://{}", top_hash="{}")'
    first = browse.format(package, bucket, older) if older else "quilt3.Package()"
    return [
        "import quilt3",
        f"older = {first}",
        f"newer = {browse.format(package, bucket, newer)}",
        "added, modified, removed = older.diff(newer)",
    ]
