"""quilt://buckets/{bucket}: one bucket at a glance, from the stack, from S3 and from CloudWatch."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, NotRequired, cast

from typing_extensions import TypedDict

from quilt_mcp.app import current_app
from quilt_mcp.core.errors import ResourceFailure
from quilt_mcp.services.bucket_access import check_bucket_name
from quilt_mcp.services.bucket_probes import find_region
from quilt_mcp.services.bucket_size import BucketSize, ask_size, make_unknown_size
from quilt_mcp.services.buckets import ShortBucket, TitledBucket, link_bucket, shorten
from quilt_mcp.services.objects import EntryKind, make_object_uri, make_objects_uri
from quilt_mcp.services.packages import make_unknown_bucket
from quilt_mcp.services.parallel_calls import NOT_IN_TIME, fan_out
from quilt_mcp.services.readme import README, README_BYTES, Readme, cut_readme, make_unread
from quilt_mcp.services.settings import QuiltSettings
from quilt_mcp.services.stack.callers import current_caller
from quilt_mcp.services.stack.catalog_failures import NO_PLACE, WHOLE_QUERY, make_refusal
from quilt_mcp.services.stack.failures import QueryNotUnderstood, explain
from quilt_mcp.services.stack.graphql import Time

if TYPE_CHECKING:
    from quilt_mcp.services.stack.aws import AWSClients, Response
    from quilt_mcp.services.stack.caller import Caller

MAX_ENTRIES = 100
MAX_NAMES = 100
COUNTED_DAYS, EXTENSIONS = 30, 10
COUNTED = {"days": COUNTED_DAYS, "groups": EXTENSIONS}
OPERATIONS = {
    "bucketOverview": COUNTED,
    "bucketOverviewUntil2026": COUNTED,
    "bucketOverviewUntil2024": {},
    "bucketOverviewUntil2022": {},
}
"""The operations for stacks of different ages with their variables, the newest first."""
LAST_INDEXED = "config.last_indexed_at"
NOT_OF_ROLE = "The Quilt stack shows this only of buckets that your role includes."
NO_COUNTS = "Stacks from before November 2024 do not tell the number of accesses."
NOBODY_NAMED = (
    "The Quilt stack shows the roles of a bucket to administrators only, and its collaborators only if your role "
    "includes the bucket."
)

Level = Literal["READ", "READ_WRITE"]


class _Config(TitledBucket):
    last_indexed_at: Time | None


class _Collaborator(TypedDict):
    username: str


class _Collaboration(TypedDict):
    collaborator: _Collaborator
    permissionLevel: Level


class _Visible(TitledBucket):
    collaborators: list[_Collaboration]


class _Role(TypedDict):
    """A role. One of an unknown type has no name."""

    type: str
    name: NotRequired[str]


class _RoleRight(TypedDict):
    role: _Role
    level: Level


class _Access(TypedDict):
    roles: list[_RoleRight]


class _Total(TypedDict):
    total: int


class _OfExtension(TypedDict):
    extension: str
    counts: _Total


class _Counts(TypedDict):
    combined: _Total
    by_extension: list[_OfExtension]


class _Found(TypedDict):
    """What the stack says. Older stacks say less."""

    config: _Config | None
    bucket: _Visible | None
    access: NotRequired[_Access | None]
    packages: _Total | None
    counts: NotRequired[_Counts | None]


class TopEntry(TypedDict):
    """A folder or a file at the root of a bucket.

    Attributes:
        name: its name, without a slash at the end.
        kind: "folder" or "file".
        size: the size of a file in bytes; null for a folder, which S3 does not measure.
        uri: the URI that shows what is in it.
    """

    name: str
    kind: EntryKind
    size: int | None
    uri: str


class TopLevel(TypedDict):
    """The root of a bucket.

    Attributes:
        folders: its folders and files, sorted by name, at most 100; null with the reason in `folders_error`.
        folders_truncated: true if there are more, which `objects` lists; absent if not, or if they were not read.
        folders_error: why they are null; null if they were read.
    """

    folders: list[TopEntry] | None
    folders_truncated: NotRequired[Literal[True]]
    folders_error: str | None


class Accessors(TypedDict):
    """Who may use a bucket, as the stack states it. Roles that Quilt does not manage are not among them.

    Attributes:
        readers: the names of those who may read, also of those who may write too, sorted, at most 100; null with the
            reason in `access_error`.
        reader_count: the number of all of them; null as above.
        writers: the names of those who may write, sorted, at most 100; null as above.
        writer_count: the number of all of them; null as above.
        access_source: "roles" if they are roles, as the stack tells administrators; "collaborators" if they are users;
            null as above.
        access_error: why they are null; null if they were read.
    """

    readers: list[str] | None
    reader_count: int | None
    writers: list[str] | None
    writer_count: int | None
    access_source: Literal["roles", "collaborators"] | None
    access_error: str | None


class ExtensionCount(TypedDict):
    """How often files with an extension were accessed."""

    extension: str
    """The extension without a dot; empty for all others together."""
    count: int
    """The number of accesses."""


class AccessCounts(TypedDict):
    """How often the files of a bucket were accessed, as the stack counts it in the logs of AWS.

    Attributes:
        days: the number of days that were counted.
        total: the number of accesses.
        by_extension: the most frequent extensions, at most 10, and all others.
    """

    days: int
    total: int
    by_extension: list[ExtensionCount]


class StatedByStack(ShortBucket, Accessors):
    """What the stack says about a bucket.

    Attributes:
        last_indexed_at: when the stack last read the whole bucket for its search, ISO 8601 in UTC; null if it never
            did, or with the reason in `last_indexed_at_error`.
        last_indexed_at_error: why that is unknown; null if the stack said it.
        access_counts: the accesses of the last 30 days; null with the reason in `access_counts_error`.
        access_counts_error: why they are null; null if the stack said them.
        package_count: the number of its packages; null with the reason in `package_count_error`.
        package_count_error: why it is null; null if the stack said it.
    """

    last_indexed_at: str | None
    last_indexed_at_error: str | None
    access_counts: AccessCounts | None
    access_counts_error: str | None
    package_count: int | None
    package_count_error: str | None


class ReadFromAWS(Readme, TopLevel, BucketSize):
    """What AWS says about a bucket, in your role."""

    aws_endpoint: Mapping[str, str] | None
    """By AWS service, the host that replaces it, as in permissions://discover; null if none is replaced or called."""


class BucketOverview(StatedByStack, ReadFromAWS):
    """One bucket of the stack.

    Attributes:
        catalog_url: its page in the catalog; null if no catalog is configured.
        packages: the URI of its packages.
        objects: the URI of its objects.
        workflows: the URI of what it checks on a push.
        access: the URI of your rights in it.
        tables: the URI of its tabulator tables.
    """

    catalog_url: str | None
    packages: str
    objects: str
    workflows: str
    access: str
    tables: str


class _Listed(NamedTuple):
    """The root of a bucket, and the region that S3 named."""

    top: TopLevel
    region: str | None


def bucket_overview_get(bucket: str) -> BucketOverview:
    """A bucket: README, folders, users, size.

    The answer has what the stack says about the bucket: title, readers and writers, accesses of the last 30 days, and
    the number of packages. README.md and the top level come from S3, and the size from CloudWatch, in your role. A part
    that cannot be read is null, with the reason beside it. Links lead to everything else of the bucket. Sends one
    GraphQL request, on older stacks up to four, and three calls to AWS.
    """
    check_bucket_name(bucket)
    caller = current_caller()
    stated = _describe(_ask_stack(caller, bucket))
    return {
        **stated,
        **_read_from_aws(caller, bucket),
        "catalog_url": link_bucket(caller.login.stack.catalog_url, bucket),
        "packages": f"quilt://buckets/{bucket}/packages",
        "objects": f"quilt://buckets/{bucket}/objects",
        "workflows": f"metadata://workflows/{bucket}",
        "access": f"permissions://buckets/{bucket}/access",
        "tables": f"tabulator://buckets/{bucket}/tables",
    }


class _Answer(NamedTuple):
    """What the stack says about a bucket that it shows, and where it returned errors."""

    found: _Found
    titles: TitledBucket
    error_paths: Sequence[str]

    def explain(self, *parts: str) -> str | None:
        """Return why parts of the answer are missing; None if there are no errors in them."""
        paths = [path for path in self.error_paths if path in {WHOLE_QUERY, NO_PLACE} or _is_in(path, parts)]
        return explain(make_refusal(paths)) if paths else None


def _is_in(path: str, parts: Iterable[str]) -> bool:
    return any(f"{path}.".startswith(f"{part}.") for part in parts)


def _ask_stack(caller: "Caller", bucket: str) -> _Answer:
    """Send the newest operation that the stack understands.

    Raises:
        NotFound: the stack does not show the bucket to the caller.
        QueryRefused: it could not read the bucket.
    """
    for operation, variables in OPERATIONS.items():
        answer = caller.send_partial_query(operation, _Found, "", name=bucket, **variables)
        if not answer.is_not_understood:
            break
    else:
        raise QueryNotUnderstood(
            "The Quilt stack does not know this query for a bucket.",
            details=answer.refusal.details,
            suggested_actions=["Stacks know it since March 2022.", *QueryNotUnderstood.default_actions],
        )
    if answer.data is None:
        raise answer.refusal
    has_failed = any(_is_in(path, ["config"]) and path != LAST_INDEXED for path in answer.error_paths)
    titles: TitledBucket | None = (None if has_failed else answer.data["config"]) or answer.data["bucket"]
    if titles is None:
        raise answer.refusal if answer.error_paths else make_unknown_bucket(bucket)
    return _Answer(answer.data, titles, answer.error_paths)


def _describe(answer: _Answer) -> StatedByStack:
    found, titles = answer.found, answer.titles
    config, packages, counts = found["config"], found["packages"], found.get("counts")
    last_indexed_at = config["last_indexed_at"] if config else None
    why_not_indexed = answer.explain("config") or (NOT_OF_ROLE if config is None else None)
    why_no_counts = answer.explain("counts") or (NOT_OF_ROLE if "counts" in found else NO_COUNTS)
    return {
        **shorten(titles),
        **_describe_access(answer),
        "last_indexed_at": last_indexed_at,
        "last_indexed_at_error": why_not_indexed if last_indexed_at is None else None,
        "access_counts": None if counts is None else _describe_counts(counts),
        "access_counts_error": why_no_counts if counts is None else None,
        "package_count": None if packages is None else packages["total"],
        "package_count_error": (answer.explain("packages") or NOT_OF_ROLE) if packages is None else None,
    }


def _describe_counts(counts: _Counts) -> AccessCounts:
    rows: list[ExtensionCount]
    rows = [{"extension": one["extension"], "count": one["counts"]["total"]} for one in counts["by_extension"]]
    return {"days": COUNTED_DAYS, "total": counts["combined"]["total"], "by_extension": rows}


def _describe_access(answer: _Answer) -> Accessors:
    access, bucket = answer.found.get("access"), answer.found["bucket"]
    if access is not None:
        rights = {_name_role(one["role"]): one["level"] for one in access["roles"]}
    elif bucket is not None:
        rights = {one["collaborator"]["username"]: one["permissionLevel"] for one in bucket["collaborators"]}
    else:
        reason = " ".join(filter(None, (NOBODY_NAMED, answer.explain("access", "bucket"))))
        return {
            "readers": None,
            "reader_count": None,
            "writers": None,
            "writer_count": None,
            "access_source": None,
            "access_error": reason,
        }
    readers, writers = sorted(rights), sorted(name for name, level in rights.items() if level == "READ_WRITE")
    return {
        "readers": readers[:MAX_NAMES],
        "reader_count": len(readers),
        "writers": writers[:MAX_NAMES],
        "writer_count": len(writers),
        "access_source": "collaborators" if access is None else "roles",
        "access_error": None,
    }


def _name_role(role: _Role) -> str:
    return role.get("name") or f"a role of the type {role['type']}"


def _read_from_aws(caller: "Caller", bucket: str) -> ReadFromAWS:
    """Read all parts at the same time. What fails, or takes too long, hides no other part."""
    try:
        aws = caller.aws
    except ResourceFailure as failure:
        reason = explain(failure)
        return {**make_unread(reason), **_make_unlisted(reason), **make_unknown_size(reason), "aws_endpoint": None}
    reads = (_read_readme, _list_top, ask_size)
    seconds = current_app().settings_as(QuiltSettings).probe_seconds
    done = fan_out(lambda read: read(aws, bucket), reads, seconds=seconds)
    readme = cast("Readme | None", done.get(_read_readme)) or make_unread(NOT_IN_TIME)
    listed = cast("_Listed | None", done.get(_list_top)) or _Listed(_make_unlisted(NOT_IN_TIME), None)
    size = cast("BucketSize | None", done.get(ask_size)) or make_unknown_size(NOT_IN_TIME)
    asked = size["size_region"]
    if asked and listed.region and asked != listed.region:
        reason = f"The bucket is in {listed.region}. CloudWatch was asked in {asked}, which does not know its size."
        size = make_unknown_size(reason, asked)
    return {**readme, **listed.top, **size, "aws_endpoint": aws.find_replacements()}


def _make_unlisted(reason: str) -> TopLevel:
    return {"folders": None, "folders_error": reason}


def _read_readme(aws: "AWSClients", bucket: str) -> Readme:
    try:
        content = aws.read_object(bucket, README, README_BYTES)
    except ResourceFailure as failure:
        return make_unread(explain(failure))
    if content is None:
        return make_unread(f"The bucket has no {README} at its root.")
    return cut_readme(content)


def _list_top(aws: "AWSClients", bucket: str) -> _Listed:
    try:
        page: Response = aws.call("s3", "list_objects_v2", Bucket=bucket, Delimiter="/", MaxKeys=MAX_ENTRIES)
    except ResourceFailure as failure:
        return _Listed(_make_unlisted(explain(failure)), find_region(getattr(failure.__cause__, "response", {})))
    entries: list[TopEntry] = [
        {"name": one["Prefix"][:-1], "kind": "folder", "size": None, "uri": make_objects_uri(bucket, one["Prefix"])}
        for one in page.get("CommonPrefixes", ())
    ]
    entries += [
        {"name": one["Key"], "kind": "file", "size": one["Size"], "uri": make_object_uri(bucket, one["Key"])}
        for one in page.get("Contents", ())
    ]
    top: TopLevel = {
        "folders": sorted(entries, key=lambda one: one["name"]),
        "folders_error": None,
    }
    if page.get("IsTruncated"):
        top["folders_truncated"] = True
    return _Listed(top, find_region(page))
