"""quilt://buckets/{bucket}/packages: packages, their revisions and their contents, as the stack shows them."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, NotRequired, TypeVar

from typing_extensions import TypedDict  # pydantic needs it before Python 3.12

from quilt_mcp.core import cursors
from quilt_mcp.core.cursors import parse_limit
from quilt_mcp.core.cuts import cut_text, fit
from quilt_mcp.core.errors import InvalidTemplateVariable, NotFound
from quilt_mcp.services.buckets import fetch_bucket_names
from quilt_mcp.services.package_guide import Guide, GuideFiles, read_guide
from quilt_mcp.services.package_uris import LATEST, link, make_contents_uri, make_quilt_uri, make_uri
from quilt_mcp.services.pages import Paged
from quilt_mcp.services.stack.callers import current_caller
from quilt_mcp.services.stack.failures import NestedTooDeeply, QueryFailed, QueryNotUnderstood, QueryRefused
from quilt_mcp.services.stack.graphql import Named, Size, Time

if TYPE_CHECKING:
    from quilt_mcp.services.stack.caller import Caller

PART = re.compile(r"[\w-]+")
"""The form of both parts of a package's name in Quilt."""
SHORT_HASH = re.compile(r"[0-9a-f]{6,63}")
REVISIONS_PAGE, MOST_REVISIONS = 100, 1000
"""How many revisions are compared with a short hash."""
MAX_META = 20_000
MAX_MESSAGE, MAX_WHOLE_MESSAGE = 500, 4000
MAX_NAMES = 50
TOO_DEEP = "It has too many levels to be shown. quilt3 reads it: `quilt3.Package.browse(...).meta`."
EXAMPLE_BUCKETS = 10
ORDERS = {"name": "NAME", "modified": "MODIFIED"}
INSTEAD = 'Use quilt3 in Python instead, such as `quilt3.list_packages("s3://BUCKET")`.'

T = TypeVar("T")


class _PackageName(Named):
    modified_at: Time


class _PackageList(TypedDict):
    total: int
    page: list[_PackageName]


class _Total(TypedDict):
    total: int


class PackageRow(TypedDict):
    """One package.

    Attributes:
        name: its name, namespace/name.
        modified_at: when its newest revision was made, ISO 8601 in UTC.
        catalog_url: its page in the catalog; null if no catalog is configured.
        uri: the URI of the package.
    """

    name: str
    modified_at: str
    catalog_url: str | None
    uri: str


class PackagesAnswer(Paged):
    """A page of the packages of a bucket.

    Attributes:
        bucket: its name.
        packages: the packages of this page, by name, or the newest first.
        tabulator_tables: the URI of the bucket's tabulator tables, which read files in packages.
        package_tables: the URI that says whether the stack keeps tables for SQL with the packages of its buckets, and
            in which database.
    """

    bucket: str
    packages: list[PackageRow]
    tabulator_tables: str
    package_tables: str


class PackageWorkflow(TypedDict):
    """The workflow that a push passed."""

    id: str | None
    """Its id; null if the push named none."""
    config: str
    """The version of the workflows' configuration."""


class RevisionRow(TypedDict):
    """One revision."""

    hash: str
    """Its top hash."""
    modified_at: Time
    """When it was made, ISO 8601 in UTC."""
    message: str | None
    """Its message; null if there is none."""


class OfPackage(TypedDict):
    """A package, or a part of it."""

    bucket: str
    """The bucket of the package."""
    name: str
    """The name of the package."""


class Revision(RevisionRow):
    """One revision, with its content.

    Attributes:
        workflow: the workflow that it passed; null if there is none.
        user_meta: its metadata; null if there is none. Of more than 20,000 characters, only some of the keys. Infinity
            and NaN, which JSON does not have, are texts.
        entries: the number of its files; null if the stack does not know.
        size: their size; null if the stack does not know.
    """

    workflow: PackageWorkflow | None
    user_meta: dict[str, object] | None
    entries: int | None
    size: Size | None


class PackageAnswer(OfPackage, Revision, Guide):
    """One revision of a package.

    Attributes:
        message: its message, cut at 4,000 characters; null if there is none.
        message_truncated: present if the message is longer.
        is_latest: whether it is the newest revision; null if an older one was asked for by its hash.
        user_meta_error: why its metadata is not shown; absent if it is.
        user_meta_left_out: the keys of metadata that are left out, at most 50.
        user_meta_truncated: true if metadata is left out; absent if not. quilt3 reads all of it:
            `quilt3.Package.browse(...).meta`.
        revision_count: the number of revisions of the package.
        catalog_url: its page in the catalog; null if no catalog is configured.
        quilt_uri: the URI that Quilt's own tools take.
        python: the lines of Python that open it, and that install it into a new directory.
        contents: the URI of its files.
        changes: the URI of what differs from the revision before it.
        revisions: the URI of its revisions.
        workflows: the URI of what the bucket checks on a push.
        bucket_uri: the URI of the bucket.
    """

    message_truncated: NotRequired[Literal[True]]
    is_latest: Literal[True] | None
    user_meta_error: NotRequired[str]
    user_meta_left_out: list[str]
    user_meta_truncated: NotRequired[Literal[True]]
    revision_count: int
    catalog_url: str | None
    quilt_uri: str
    python: list[str]
    contents: str
    changes: str
    revisions: str
    workflows: str
    bucket_uri: str


class _ReadRevision(RevisionRow):
    workflow: PackageWorkflow | None
    user_meta: NotRequired[dict[str, object] | None]
    entries: int | None
    size: Size | None


class _Found(TypedDict):
    revisions: _Total
    revision: _ReadRevision | None
    guide: GuideFiles | None


class RevisionPage(TypedDict):
    """A page of revisions, and their total."""

    total: int
    page: list[RevisionRow]


class _WithRevisions(TypedDict):
    revisions: RevisionPage


class ListedRevision(RevisionRow):
    """One revision of a list."""

    uri: str
    """The URI of the package in this revision."""
    message_truncated: NotRequired[Literal[True]]
    """Present if the message is longer than 500 characters. The answer for the revision has up to 4,000."""


class RevisionsAnswer(OfPackage, Paged):
    """A page of the revisions of a package.

    Attributes:
        revisions: the revisions of this page, the newest first.
    """

    revisions: list[ListedRevision]


def packages_list(
    bucket: str,
    filter: str | None = None,  # noqa: A002 - the name in the URI
    order: str | None = None,
    cursor: str | None = None,
    limit: str | None = None,
) -> PackagesAnswer:
    """The packages of a bucket.

    Each has its time. They are sorted by name, or with `order=modified` the newest first. `filter` is a part of the
    name, as in the catalog's list. Sends one GraphQL request.
    """
    chosen = check_choice("order", order, tuple(ORDERS), "Omit `order` to sort by name.")
    caller = current_caller()
    tag = cursors.compute_tag("packages", caller.login.stack.registry_url, bucket, filter, order)
    start = _read_cursor(cursor, tag, limit)
    given = {"filter": filter, "number": start.number, "size": start.size, "order": ORDERS[chosen]}
    found = _ask(caller, "packages", _PackageList, "packages", bucket=bucket, **given)
    if found is None:
        raise make_unknown_bucket(bucket)
    catalog = caller.login.stack.catalog_url
    rows: list[PackageRow] = [
        {
            "name": package["name"],
            "modified_at": package["modified_at"],
            "catalog_url": link(catalog, bucket, package["name"]),
            "uri": make_uri(bucket, package["name"]),
        }
        for package in found["page"][start.skipped :]
    ]
    shown = fit(rows)
    return {
        "bucket": bucket,
        "packages": shown,
        "count": found["total"],
        "next_cursor": _write_cursor(start, len(shown), len(rows), found["total"], tag),
        "tabulator_tables": f"tabulator://buckets/{bucket}/tables",
        "package_tables": "athena://workgroups",
    }


def package_get(bucket: str, namespace: str, name: str, revision: str | None = None) -> PackageAnswer:
    """A package: metadata, size, install.

    `revision` is a top hash, or at least six characters of one; by default, it is the newest. The answer has the
    workflow that the push passed, the start of README.md, the files that quilt_summarize.json names, links, and the
    URIs of files and revisions. Large metadata is cut, and the answer says so. Sends one GraphQL request, with a short
    hash at least two, and reads the two files if they exist.
    """
    package = join_name(namespace, name)
    caller = current_caller()
    asked = resolve_revision(caller, bucket, package, revision or LATEST)
    meta_error = None
    try:
        found = ask_package(caller, "package", _Found, bucket, package, revision=asked, withMeta=True)
    except NestedTooDeeply:
        found = ask_package(caller, "package", _Found, bucket, package, revision=asked, withMeta=False)
        meta_error = TOO_DEEP
    if (read := found["revision"]) is None:
        raise make_unknown_revision(bucket, package, asked)
    top_hash, base = read["hash"], make_uri(bucket, package)
    meta, left_out = _cut_meta(read.get("user_meta"))
    message, is_cut = cut_message(read["message"], MAX_WHOLE_MESSAGE)
    answer: PackageAnswer = {
        **read,
        "message": message,
        "bucket": bucket,
        "name": package,
        "is_latest": True if asked == LATEST else None,
        "user_meta": meta,
        "user_meta_left_out": left_out[:MAX_NAMES],
        **read_guide(  # type: ignore[typeddict-item]  # mypy misses what is not required
            caller,
            found["guide"] or {"readme": None, "summary": None},
            lambda path: make_contents_uri(bucket, package, top_hash, path, "file"),
        ),
        "revision_count": found["revisions"]["total"],
        "catalog_url": link(caller.login.stack.catalog_url, bucket, package, top_hash),
        "quilt_uri": make_quilt_uri(bucket, package, top_hash),
        "python": _write_python(bucket, package, top_hash, read["size"]),
        "contents": make_contents_uri(bucket, package, top_hash, "", "folder"),
        "changes": f"{base}/changes?to={top_hash}" if asked != LATEST else f"{base}/changes",
        "revisions": f"{base}/revisions",
        "workflows": f"metadata://workflows/{bucket}",
        "bucket_uri": f"quilt://buckets/{bucket}",
    }
    if is_cut:
        answer["message_truncated"] = True
    if left_out:
        answer["user_meta_truncated"] = True
    if meta_error:
        answer["user_meta_error"] = meta_error
    return answer


def cut_message(message: str | None, most: int) -> tuple[str | None, bool]:
    return (None, False) if message is None else cut_text(message, most)


def _write_python(bucket: str, package: str, revision: str, size: float | None) -> list[str]:
    """Return lines that open a package without a download, and one that downloads it into a directory of its own."""
    known = "an unknown number of" if size is None else f"{size:,.0f}"
    given = f'"{package}", "s3://{bucket}", top_hash="{revision}"'
    return [
        "import quilt3",
        f"package = quilt3.Package.browse({given})  # downloads no files",
        f'quilt3.Package.install({given}, dest="{package.replace("/", "-")}")  # downloads {known} bytes',
    ]


def package_revisions_list(
    bucket: str, namespace: str, name: str, cursor: str | None = None, limit: str | None = None
) -> RevisionsAnswer:
    """A package's revisions, newest first.

    There are 50 per page. Each has its top hash, time and message. Sends one GraphQL request.
    """
    package = join_name(namespace, name)
    caller = current_caller()
    tag = cursors.compute_tag("revisions", caller.login.stack.registry_url, bucket, package)
    start = _read_cursor(cursor, tag, limit)
    found = read_revisions(caller, bucket, package, start.number, start.size)
    rows = [describe_revision(row, bucket, package) for row in found["page"][start.skipped :]]
    shown = fit(rows)
    return {
        "bucket": bucket,
        "name": package,
        "revisions": shown,
        "count": found["total"],
        "next_cursor": _write_cursor(start, len(shown), len(rows), found["total"], tag),
    }


def describe_revision(row: RevisionRow, bucket: str, package: str) -> ListedRevision:
    message, is_cut = cut_message(row["message"], MAX_MESSAGE)
    listed: ListedRevision = {
        "hash": row["hash"],
        "modified_at": row["modified_at"],
        "message": message,
        "uri": f"{make_uri(bucket, package)}?revision={row['hash']}",
    }
    return {**listed, "message_truncated": True} if is_cut else listed


def list_buckets(prefix: str) -> list[str]:
    """List buckets of the stack with a prefix. Without one, a bucket with packages comes first: it is the example."""
    caller = current_caller()
    names = [name for name in fetch_bucket_names(caller) if name.startswith(prefix)] if caller.login.signed_in else []
    first = _find_example(caller)[0] if names and not prefix else None
    return sorted(names, key=lambda name: (name != first, name))


def list_parts(number: int, prefix: str, known: Mapping[str, str]) -> list[str]:
    """List the first (0) or second (1) parts of the names of packages with a prefix.

    They are those of the bucket and the namespace that are known; else of the first bucket that has such packages.
    """
    caller = current_caller()
    if not caller.login.signed_in:
        return []
    namespace = known.get("namespace") if number else None
    filter_ = f"{namespace}/{prefix}" if namespace else prefix
    bucket = known.get("bucket")
    names = _list_names(caller, bucket, filter_) if bucket else _find_example(caller, filter_)[1]
    split = (name.split("/", 1) for name in names)
    parts = dict.fromkeys(pair[number] for pair in split if namespace in (None, pair[0]))
    return [part for part in parts if part.startswith(prefix)]


def _find_example(caller: "Caller", filter_: str = "") -> tuple[str | None, list[str]]:
    for bucket in fetch_bucket_names(caller)[:EXAMPLE_BUCKETS]:
        if names := _list_names(caller, bucket, filter_):
            return bucket, names
    return None, []


def _list_names(caller: "Caller", bucket: str, filter_: str) -> list[str]:
    """List the names of the first packages of a bucket that contain a text; none if the stack does not show it."""
    given = {"filter": filter_ or None, "number": 1, "size": REVISIONS_PAGE, "order": "NAME"}
    found = _ask(caller, "packages", _PackageList, "packages", bucket=bucket, **given)
    return [package["name"] for package in found["page"] if "/" in package["name"]] if found else []


def _ask(caller: "Caller", operation: str, form: type[T], at: str, **variables: object) -> T | None:
    """Send an operation, and return its complete data; None if the stack does not show the bucket or the package."""
    try:
        return caller.find(operation, form, at, **variables)
    except QueryNotUnderstood as refusal:
        refusal.message = "The Quilt stack does not know this query for packages."
        refusal.suggested_actions = [f"Stacks know it since April 2022. {INSTEAD}", *refusal.default_actions]
        raise


def ask_package(caller: "Caller", operation: str, form: type[T], bucket: str, package: str, **variables: object) -> T:
    """Send an operation about a package, and return its complete data."""
    try:
        found = _ask(caller, operation, form, "package", bucket=bucket, name=package, **variables)
    except QueryRefused as refusal:
        if variables.get("revision", LATEST) != LATEST and not isinstance(refusal, QueryNotUnderstood | QueryFailed):
            see = f"Read {make_uri(bucket, package)}/revisions: the package may not have this revision."
            refusal.suggested_actions = [see, *refusal.suggested_actions]
        raise
    if found is not None:
        return found
    raise NotFound(
        f"The Quilt stack shows no package {package} in the bucket {bucket!a} to you.",
        details="It does not exist, the bucket is not one of this stack, or your role does not include it.",
        suggested_actions=[
            f"Read quilt://buckets/{bucket}/packages for the packages of the bucket.",
            "Read quilt://search/{query} to find packages in all buckets.",
        ],
    )


def resolve_revision(caller: "Caller", bucket: str, package: str, revision: str) -> str:
    """Return the whole hash for a short one. Everything else is for the stack to look up.

    Raises:
        InvalidTemplateVariable: it fits several revisions.
        NotFound: it fits none of the newest revisions.
    """
    if not SHORT_HASH.fullmatch(revision):
        return revision
    read, number = list[str](), 1
    while len(read) < MOST_REVISIONS:
        found = read_revisions(caller, bucket, package, number, REVISIONS_PAGE)
        read += [revision["hash"] for revision in found["page"]]
        number += 1
        if not found["page"] or len(read) >= found["total"]:
            break
    fitting = sorted({full_hash for full_hash in read if full_hash.startswith(revision)})
    if len(fitting) > 1:
        raise InvalidTemplateVariable(
            f"{len(fitting)} revisions of {package} start with {revision}.",
            details=", ".join(fitting[:MAX_NAMES]),
            suggested_actions=["Give the whole hash."],
        )
    if not fitting:
        if revision.isdigit():  # a tag: the time of a revision in seconds
            return revision
        raise make_unknown_revision(bucket, package, revision)
    return fitting[0]


def read_revisions(caller: "Caller", bucket: str, package: str, number: int, size: int) -> RevisionPage:
    given = {"number": number, "size": size}
    return ask_package(caller, "packageRevisions", _WithRevisions, bucket, package, **given)["revisions"]


class _Start(NamedTuple):
    """Where a page starts: the stack's page, its size, and how many of its rows an earlier page had."""

    number: int
    size: int
    skipped: int


def _read_cursor(cursor: str | None, tag: str, limit: str | None) -> _Start:
    """Return where a page starts. The stack counts pages, so a list keeps the size of its first page."""
    if cursor is None:
        return _Start(1, parse_limit(limit), 0)
    number, size, skipped = cursors.decode(cursor, tag, r"[0-9]{1,10}x[0-9]+x[0-9]{1,3}").split("x")
    if limit is not None and parse_limit(limit) != parse_limit(size):
        raise InvalidTemplateVariable(
            "`limit` must be that of the first page.",
            details=f"The first page had {size} rows.",
            suggested_actions=["Omit `limit` with a cursor, or start without a cursor."],
        )
    return _Start(int(number), parse_limit(size), int(skipped))


def _write_cursor(start: _Start, shown: int, read: int, total: int, tag: str) -> str | None:
    """Return the cursor of what follows the rows that are shown: the rest of the stack's page, or its next page."""
    if shown < read:
        return cursors.encode(f"{start.number}x{start.size}x{start.skipped + shown}", tag)
    return cursors.encode(f"{start.number + 1}x{start.size}x0", tag) if start.number * start.size < total else None


def check_choice(name: str, value: str | None, choices: Sequence[str], advice: str) -> str:
    """Return the value of a parameter, by default the first choice.

    Raises:
        InvalidTemplateVariable: it is no choice.
    """
    if value in (None, *choices):
        return value or choices[0]
    raise InvalidTemplateVariable(
        f"`{name}` must be {' or '.join(choices)}.", details=f"It was {value!a}.", suggested_actions=[advice]
    )


def join_name(namespace: str, name: str) -> str:
    """Return the name of a package.

    Raises:
        InvalidTemplateVariable: Quilt does not allow it.
    """
    if PART.fullmatch(namespace) and PART.fullmatch(name):
        return f"{namespace}/{name}"
    raise InvalidTemplateVariable(
        f"{f'{namespace}/{name}'!a} is not the name of a package.",
        details="It has two parts of letters, digits, _ and -, with a slash between them.",
        suggested_actions=["Read quilt://buckets/{bucket}/packages for the packages of a bucket."],
    )


def _cut_meta(meta: Mapping[str, object] | None) -> tuple[dict[str, object] | None, list[str]]:
    """Return the metadata as far as it fits, and the keys that are left out."""
    if meta is None:
        return None, []
    kept, left_out, room = dict[str, object](), list[str](), MAX_META
    for key, value in meta.items():
        size = len(json.dumps({key: value}, ensure_ascii=False))
        if size <= room:
            kept[key], room = value, room - size
        else:
            left_out.append(key[:200])
    return kept, left_out


def make_unknown_bucket(bucket: str) -> NotFound:
    return NotFound(
        f"The Quilt stack shows no bucket {bucket!a} to you.",
        details="It is not a bucket of this stack, or your role does not include it.",
        suggested_actions=["Read quilt://buckets for the buckets of the stack that you can see."],
    )


def make_unknown_revision(bucket: str, package: str, revision: str) -> NotFound:
    return NotFound(
        f"The package {package} has no revision {revision!a}.",
        details="A revision is `latest`, a top hash, or at least six characters of one of the newest 1000.",
        suggested_actions=[f"Read {make_uri(bucket, package)}/revisions for its revisions."],
    )
