"""Packages and search: what the stack says about them, bad input, large answers, and quilt3 as a second judge."""

import json
import threading
from dataclasses import replace
from typing import Any

import pytest
import quilt3
from moto.s3.models import s3_backends

from quilt_mcp.app import App
from quilt_mcp.core.cursors import compute_tag, encode
from quilt_mcp.demo.account import ACCOUNT_ID
from quilt_mcp.demo.graphql import Endpoint
from quilt_mcp.demo.packages import CREATED
from quilt_mcp.demo.records import Package, Revision
from quilt_mcp.demo.world import World
from quilt_mcp.server import create_manager
from quilt_mcp.tools.resource_access import get_resource
from tests.support import apps
from tests.support.python_caller import read, read_error
from tests.support.quilt_fakes import NOT_UNDERSTOOD, answer_queries, refuse
from tests.support.raw_server import make_response, raw_server
from tests.support.settings import Settings
from tests.support.waiting import SECONDS
from tests.support.worlds import demo_world

RAW = "acme-raw-sequencing"
LIST = f"quilt://buckets/{RAW}/packages"
RUN = f"{LIST}/runs/250519"
NO_HASH = "0" * 64
TIME = "2025-05-19T14:00:00+00:00"

BAD_INPUT = [
    ("quilt://buckets/nowhere/packages", "NotFound", "shows no bucket 'nowhere'"),
    ("quilt://buckets/acme-clinical-trials/packages", "NotFound", "or your role does not include it"),
    ("quilt://buckets/northwind-data/packages/a/b", "NotFound", "not one of this stack"),
    (f"{LIST}?order=size", "InvalidTemplateVariable", "name or modified"),
    (f"{LIST}?limit=0", "InvalidTemplateVariable", "from 1 to 200"),
    (f"{LIST}?cursor=WzEsIngiLCJ5Il0", "InvalidTemplateVariable", "not valid for this list"),
    (f"{LIST}/runs/nothing", "NotFound", "shows no package runs/nothing"),
    (f"{LIST}/runs/nothing/revisions", "NotFound", "shows no package runs/nothing"),
    (f"{LIST}/runs/nothing/contents", "NotFound", "shows no package runs/nothing"),
    (f"{LIST}/runs/25.05.19", "InvalidTemplateVariable", "two parts of letters"),
    (f"{LIST}/../250519", "InvalidTemplateVariable", "is not the name of a package"),
    (f"{LIST}/%2E%2E/250519", "InvalidTemplateVariable", "is not the name of a package"),
    (f"{LIST}/runs%2Fall/250519", "InvalidTemplateVariable", "is not the name of a package"),
    (f"{LIST}/runs/a%20b", "InvalidTemplateVariable", "is not the name of a package"),
    (f"{RUN}?revision={NO_HASH}", "NotFound", "has no revision"),
    (f"{RUN}?revision=abcdef", "NotFound", "has no revision 'abcdef'"),
    (f"{RUN}?revision=1700000000", "NotFound", "has no revision"),
    (f"{RUN}/contents?revision={NO_HASH}", "NotFound", "has no revision"),
    (f"{RUN}/contents?path=nothing", "NotFound", "There is no 'nothing'"),
    (f"{RUN}/contents?path=..%2F..%2Fsecret", "InvalidTemplateVariable", "is not a path in a package"),
    (f"{RUN}/contents?path=metrics%2F.%2Flane1.csv", "InvalidTemplateVariable", "is not a path in a package"),
    (f"{RUN}/contents?path=metrics%2F%2Flane1.csv", "InvalidTemplateVariable", "is not a path in a package"),
    (f"{RUN}/contents?path=metrics%252F..", "NotFound", "There is no"),
    ("quilt://search/x?kind=buckets", "InvalidTemplateVariable", "packages or objects"),
    ("quilt://search/x?buckets=northwind-data", "InvalidTemplateVariable", "UnknownBuckets"),
    ("quilt://search/x?cursor=WzEsIngiLCJ5Il0", "InvalidTemplateVariable", "not valid for this list"),
]


async def test_bad_input_is_refused_with_the_reason(fresh_world: World) -> None:
    for uri, error, text in BAD_INPUT:
        found = await read_error(uri)
        assert (uri, found.error) == (uri, error)
        assert text in f"{found.message} {found.details}", uri
        assert found.suggested_actions, uri


async def test_every_page_has_other_packages(fresh_world: World) -> None:
    names = add_packages(fresh_world, 7)
    uri, seen = f"{LIST}?limit=3&filter=many", list[str]()
    while uri:
        page = await read(uri)
        assert page["count"] == 7
        seen += [row["name"] for row in page["packages"]]
        uri = f"{LIST}?filter=many&cursor={page['next_cursor']}" if page["next_cursor"] else ""
    assert seen == names
    newest = await read(f"{LIST}?order=modified&limit=1")
    assert newest["packages"][0]["name"] == names[-1]
    for other in ("filter=few", "filter=many&order=modified", "filter=many&limit=5"):
        cursor = (await read(f"{LIST}?limit=3&filter=many"))["next_cursor"]
        assert (await read_error(f"{LIST}?{other}&cursor={cursor}")).error == "InvalidTemplateVariable"


async def test_a_forged_cursor_asks_for_no_larger_page(fresh_world: World) -> None:
    registry, search = fresh_world.registry_url, "quilt://search/x"
    tags = {LIST: ("packages", registry, RAW, None, None), search: ("search", registry, "x", None, "packages")}
    for uri, tag in tags.items():
        for after in ("1x9999", "1x0", "x", "-1x5", "1e9x5", "9999|1|a", "a|b|c", "5|1", ""):
            error = await read_error(f"{uri}?cursor={encode(after, compute_tag(*tag))}")
            assert error.error == "InvalidTemplateVariable", (uri, after)


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:00:00-05:00", None, "soon"])
async def test_a_time_outside_of_the_calendar_is_a_failure(
    time: str | None, fresh_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer_queries(
        monkeypatch, {"packages": {"data": {"packages": {"total": 1, "page": [{"name": "a/b", "modified_at": time}]}}}}
    )
    assert (await read_error(LIST)).message == UNEXPECTED


@pytest.mark.parametrize("name", ["data", "\1" * 100])
async def test_a_file_and_a_folder_with_the_same_name_are_both_listed(
    name: str, fresh_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    children = [{"path": name, "size": 1, "physicalKey": "s3://b/k"}, {"path": name, "size": None}]
    revision = {"hash": NO_HASH, "dir": {"size": 1.0, "children": children}}
    answer_queries(monkeypatch, {"packageContents": {"data": {"package": {"revision": revision}}}})
    first = await read(f"{RUN}/contents?limit=1")
    second = await read(f"{RUN}/contents?limit=1&cursor={first['next_cursor']}")
    kinds = [row["kind"] for page in (first, second) for row in page["entries"]]
    assert (kinds, second["next_cursor"]) == (["file", "folder"], None)


@pytest.mark.parametrize("file", [True, False])
async def test_only_the_root_of_a_package_can_be_empty(
    file: bool,  # noqa: FBT001 - a column of the table
    fresh_world: World,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is not public whether a registry describes a path that is no folder as null or as an empty folder."""
    revision = {"hash": NO_HASH, "dir": {"size": 0.0, "children": []}}
    found = {"file": {"path": "a.txt", "size": 3.0, "physicalKey": f"s3://{RAW}/README.md"} if file else None}
    answer_queries(monkeypatch, {"packageContents": {"data": {"package": {"revision": revision | found}}}})
    answer = await get_resource(f"{RUN}/contents?path=a.txt")
    assert (answer.data["text"] if answer.success else None) == ("# Raw sequencing runs\n" if file else None)
    assert (await read(f"{RUN}/contents"))["kind"] == "folder"
    answer_queries(monkeypatch, {"packageContents": {"data": {"package": {"revision": revision | {"dir": None}}}}})
    assert "shows no files in this revision" in (await read_error(f"{RUN}/contents")).message


async def test_an_error_can_mean_that_the_revision_does_not_exist(
    fresh_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Quilt's public implementation of these queries, quilt3_local, does so. Of the registry it is not known."""
    for operation, uri in {"package": RUN, "packageContents": f"{RUN}/contents"}.items():
        answer_queries(monkeypatch, {operation: refuse(["package", "revision"])})
        found = [(await read_error(f"{uri}{end}")).suggested_actions[0] for end in ("", f"?revision={NO_HASH}")]
        assert [f"{RUN}/revisions" in action for action in found] == [False, True]


def add_packages(world: World, count: int) -> list[str]:
    """Add packages without files, each newer than the one before, and return their names."""
    names = [f"many/p{number}" for number in range(count)]
    added = tuple(Package(name, (Revision(CREATED + 60 * at, None),)) for at, name in enumerate(names, 1))
    change_bucket(world, packages=added)
    return names


def change_bucket(world: World, **changes: Any) -> None:
    company = world.stack.company
    buckets = tuple(replace(one, **changes) if one.name == RAW else one for one in company.buckets)
    world.stack.company = replace(company, buckets=buckets)


async def test_a_bucket_can_have_very_many_packages(fresh_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    page = [{"name": f"a/{number}", "modified_at": TIME} for number in range(200)]
    answer_queries(monkeypatch, {"packages": {"data": {"packages": {"total": 3_000_000_000, "page": page}}}})
    answer = await read(f"{LIST}?limit=200")
    assert answer["count"] == 3_000_000_000
    assert 100 < len(answer["packages"]) < 200  # it ends with the last row that fits
    rest = await read(f"{LIST}?cursor={answer['next_cursor']}")  # of the same page of the stack
    assert [row["name"] for row in answer["packages"] + rest["packages"]] == [f"a/{number}" for number in range(200)]


async def test_names_can_have_every_character_that_quilt_allows(fresh_world: World) -> None:
    change_bucket(fresh_world, packages=(Package("süd-1/ähre_2", (Revision(CREATED, "x"),)),))
    answer = await read(f"{LIST}/s%C3%BCd-1/%C3%A4hre_2")
    assert answer["name"] == "süd-1/ähre_2"
    assert answer["revisions"] == f"{LIST}/s%C3%BCd-1/%C3%A4hre_2/revisions"
    assert (await read(answer["revisions"]))["count"] == 1


@pytest.mark.parametrize("start", ["abcdef", "123456", "1747663200"])
async def test_a_short_hash_is_resolved_if_it_fits_one_revision(
    start: str, fresh_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest, oldest = [row["hash"] for row in (await read(f"{RUN}/revisions"))["revisions"]]
    for revision in (oldest, oldest[:8]):
        answer = await read(f"{RUN}?revision={revision}")
        assert (answer["hash"], answer["is_latest"], answer["entries"]) == (oldest, None, 1)
        assert (await read(f"{RUN}/contents?revision={revision}"))["count"] == 1
    assert (await read(RUN))["hash"] == (await read(f"{RUN}?revision={CREATED}"))["hash"] == newest
    rows = [{"hash": start.ljust(64, end), "modified_at": TIME, "message": None} for end in "01"]
    payload = {"data": {"package": {"revisions": {"total": 2, "page": rows}}}}
    answer_queries(monkeypatch, {"packageRevisions": payload})
    error = await read_error(f"{RUN}?revision={start}")
    assert (error.error, error.message) == (
        "InvalidTemplateVariable",
        f"2 revisions of runs/250519 start with {start}.",
    )
    assert str(rows[0]["hash"]) in str(error.details)


def make_contents(*children: object) -> object:
    folder = {"size": 5e12, "children": children}
    return {"data": {"package": {"revision": {"hash": NO_HASH, "dir": folder}}}}


@pytest.mark.parametrize("count", [5_000, pytest.param(50_000, marks=pytest.mark.soak)])
async def test_a_folder_with_very_many_files_is_paged(
    count: int, fresh_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [{"path": f"{at:05}", "size": 3e9, "physicalKey": f"s3://b/{at}"} for at in range(count)]
    answer_queries(monkeypatch, {"packageContents": make_contents(*files)})
    first = await read(f"{RUN}/contents?limit=200")
    assert (first["count"], first["size"], first["entries"][0]["size"]) == (count, 5_000_000_000_000, 3_000_000_000)
    second = await read(f"{RUN}/contents?cursor={first['next_cursor']}")
    assert second["entries"][0]["name"] == f"{len(first['entries']):05}"
    assert 100 < len(first["entries"]) < 200  # it ends with the last row that fits


async def test_a_file_without_a_size_has_none(fresh_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    answer_queries(
        monkeypatch, {"packageContents": make_contents({"path": "a/x", "size": None, "physicalKey": "s3://b/x"})}
    )
    [row] = (await read(f"{RUN}/contents"))["entries"]
    assert (row["name"], row["kind"], row["size"], row["physical_key"]) == ("x", "file", None, "s3://b/x")
    answer_queries(monkeypatch, {"packageContents": refuse(["package", "revision", "dir", "children", 0, "size"])})
    error = await read_error(f"{RUN}/contents")
    assert (error.message, error.transient) == ("The Quilt stack could not read the data.", False)


async def test_large_metadata_is_cut_and_the_answer_says_so(
    fresh_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    meta = {"a": 1, "large": "x" * 5_000_000, "z": [True]}
    change_bucket(fresh_world, packages=(Package("a/b", (Revision(CREATED, None, {}, meta),)),))
    answer = await read(f"{LIST}/a/b")
    assert (answer["user_meta"], answer["user_meta_left_out"]) == ({"a": 1, "z": [True]}, ["large"])
    assert answer.get("user_meta_truncated") is True


async def test_numbers_that_json_does_not_have_are_texts(fresh_world: World) -> None:
    meta = {"ratios": [float("nan"), float("inf"), float("-inf"), 0.5, -0.0], "count": 10**30}
    change_bucket(fresh_world, packages=(Package("a/b", (Revision(CREATED, None, {}, meta),)),))
    shown = (await read(f"{LIST}/a/b"))["user_meta"]
    assert shown == {"ratios": ["NaN", "Infinity", "-Infinity", 0.5, -0.0], "count": 10**30}


UNEXPECTED = "The Quilt stack sent a response in an unexpected format."


@pytest.mark.parametrize("place", ["the whole", "the first page"])
@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("TooManyBuckets", (UNEXPECTED, "'TooManyBuckets'", False)),  # the unions of the schema have got members before
        ("OperationError", ("The stack's search failed, or it took too long.", "OperationError", True)),
    ],
)
async def test_a_search_without_a_result_is_not_an_empty_one(
    place: str, kind: str, expected: tuple[object, ...], fresh_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: dict[str, object] = {"kind": kind}
    if place == "the first page":
        found = {"kind": "PackagesSearchResultSet", "total": 5, "firstPage": found}
    answer_queries(monkeypatch, {"searchPackages": {"data": {"found": found}}})
    error = await read_error("quilt://search/x")
    assert (error.message, error.details, error.transient) == expected


async def test_a_search_has_pages(fresh_world: World) -> None:
    uri, seen = "quilt://search/s1?kind=objects&limit=1", list[tuple[str, str]]()
    while uri:
        page = await read(uri)
        assert (page["kind"], page["packages"], page["count"]) == ("objects", None, 3)
        seen += [(row["bucket"], row["key"]) for row in page["objects"]]
        assert page["has_more"] is (page["next_cursor"] is not None)
        uri = f"quilt://search/s1?kind=objects&cursor={page['next_cursor']}" if page["has_more"] else ""
    assert len(set(seen)) == 3
    found = await read(f"quilt://search/LANE?buckets={RAW}")
    assert [row["matched"] for row in found["packages"]] == [["comment", "metadata"]]
    assert found["packages"][0]["matching_entries"][0]["matched"] == ["path", "physical key"]
    assert (await read(found["packages"][0]["uri"]))["name"] == "runs/250519"
    assert (await read("quilt://search/nothing-like-this"))["packages"] == []


async def test_a_stack_with_secure_search_counts_nothing_and_can_have_empty_pages(
    fresh_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Quilt then asks S3 about each hit, and says -1 instead of a number."""
    hit = {"bucket": "b", "key": "k", "version": "v", "size": 1.0, "modified_at": TIME, "is_deleted": False}
    pages: list[dict[str, Any]]
    pages = [{"kind": "ObjectsSearchResultSetPage", "cursor": at, "objects": []} for at in ("a\nb", "c")]
    first = {"kind": "ObjectsSearchResultSet", "total": -1, "firstPage": pages[0]}
    payloads: dict[str, object] = {"searchObjects": {"data": {"found": first}}}
    answer_queries(monkeypatch, payloads)
    uri, counts, keys = "quilt://search/x?kind=objects", [], list[str]()
    for page in (pages[1], pages[1] | {"cursor": None, "objects": [hit]}, {}):
        answer = await read(uri)
        counts.append(answer["count"])
        keys += [one["key"] for one in answer["objects"]]
        assert answer["has_more"] is bool(page)
        uri = f"quilt://search/x?kind=objects&cursor={answer['next_cursor']}"
        payloads["searchMoreObjects"] = {"data": {"found": page}}
    assert (counts, keys, answer["next_cursor"]) == ([None, None, None], ["k"], None)


async def test_a_cursor_of_the_stack_that_is_too_long_is_told(
    fresh_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    hit = {"bucket": "b", "key": "k", "version": "v", "size": 1.0, "modified_at": TIME, "is_deleted": False}
    page = {"kind": "ObjectsSearchResultSetPage", "cursor": "x" * 3000, "objects": [hit]}
    result = {"kind": "ObjectsSearchResultSet", "total": 9, "firstPage": page}
    answer_queries(monkeypatch, {"searchObjects": {"data": {"found": result}}})
    answer = await read("quilt://search/x?kind=objects")
    assert (answer["has_more"], answer["next_cursor"], answer["count"]) == (True, None, 9)


async def test_older_stacks_search_objects_too(fresh_world: World) -> None:
    fresh_world.stack.endpoint = Endpoint("2023")
    assert (await read("quilt://search/250519?kind=objects"))["count"] >= 1


async def test_a_stack_without_packages_says_what_to_use(fresh_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    answer_queries(monkeypatch, {"packages": NOT_UNDERSTOOD})
    error = await read_error(LIST)
    assert "quilt3.list_packages" in error.suggested_actions[0]


@pytest.mark.filterwarnings("ignore:pathlib.PurePath.is_reserved:DeprecationWarning")  # in quilt3, since Python 3.13
async def test_quilt3_reads_the_same_packages_from_s3() -> None:
    with demo_world() as world:
        judged = 0
        for bucket in (one for one in world.company.buckets if one.packages):
            registry = f"s3://{bucket.name}"
            rows = (await read(f"quilt://buckets/{bucket.name}/packages"))["packages"]
            assert [row["name"] for row in rows] == sorted(quilt3.list_packages(registry))
            for row in rows:
                uri = f"quilt://buckets/{bucket.name}/packages/{row['name']}"
                for revision in (await read(f"{uri}/revisions"))["revisions"]:
                    await judge(uri, registry, row["name"], revision["hash"])
                    judged += 1
        assert judged == 7


async def judge(uri: str, registry: str, name: str, top_hash: str) -> None:
    """Compare one revision with what quilt3 reads."""
    package, answer = quilt3.Package.browse(name, registry, top_hash), await read(f"{uri}?revision={top_hash}")
    assert package.top_hash == top_hash
    assert (package.meta, len(list(package.walk()))) == (answer["user_meta"] or {}, answer["entries"])
    files = {path: (entry.size, str(entry.physical_key)) for path, entry in package.walk()}
    assert await list_files(f"{uri}/contents?revision={top_hash}") == files
    assert sum(size for size, _ in files.values()) == answer["size"]
    namespace: dict[str, Any] = {}
    exec(answer["python"][0], namespace)  # noqa: S102 - the line that users copy
    assert namespace["quilt3"] is quilt3


async def list_files(uri: str, path: str = "") -> dict[str, tuple[int, str]]:
    """List all files below a path."""
    files: dict[str, tuple[int, str]] = {}
    for row in (await read(f"{uri}&path={path.replace('/', '%2F')}" if path else uri))["entries"]:
        here = f"{path}/{row['name']}".lstrip("/")
        files |= await list_files(uri, here) if row["kind"] == "folder" else {here: (row["size"], row["physical_key"])}
    return files


@pytest.mark.parametrize(
    ("variable", "prefix", "expected"),
    [
        ("bucket", "", "acme-analysis-results"),  # it has packages
        ("bucket", "acme-raw", RAW),
        ("namespace", "r", "reports"),
        ("order", "m", "modified"),
        ("kind", "", "packages"),
        ("name", "2505", "250519"),
    ],
)
async def test_completion_offers_what_exists(variable: str, prefix: str, expected: str, fresh_world: World) -> None:
    manager = create_manager(App(Settings()))
    found = [await manager.complete(uri, variable, prefix) for uri in manager.registry if uri.startswith("quilt://")]
    assert max(found)[0] == expected


async def test_the_scheme_packages_leads_to_them(fresh_world: World) -> None:
    error = await read_error(f"packages://{RAW}")
    assert "quilt://buckets/{bucket}/packages" in error.suggested_actions[0]


VALID = "version: '1'\nworkflows: {a: {name: A}}\n"
CONFIG, WORKFLOWS = ".quilt/workflows/config.yml", f"metadata://workflows/{RAW}"


def store(text: str, key: str = CONFIG) -> None:
    s3_backends[ACCOUNT_ID]["aws"].put_object(RAW, key, text.encode(errors="surrogateescape"))


async def test_workflows_say_what_a_push_must_fulfil(fresh_world: World) -> None:
    answer = await read(WORKFLOWS)
    assert (answer["has_config"], answer["is_workflow_required"], answer["default_workflow"]) == (True, True, "run")
    run, other = answer["workflows"]
    assert (run["handle_pattern"], run["is_message_required"]) == ("^runs/[0-9]{6}$", True)
    assert (other["handle_pattern"], other["is_message_required"]) == (None, False)
    assert answer["schemas"][0]["schema"]["required"] == ["instrument", "operator"]


async def test_workflows_of_a_bucket_that_does_not_exist_are_an_error(fresh_world: World) -> None:
    """The stack is not asked, and can list a bucket that is gone."""
    error = await read_error("metadata://workflows/no-such-bucket-here")
    assert (error.error, error.message) == ("NotFound", "S3 has no bucket 'no-such-bucket-here'.")
    assert (await read_error("metadata://workflows/x")).error == "InvalidTemplateVariable"


@pytest.mark.parametrize(
    ("config", "error", "schema_error"),
    [
        ("a: [", "not valid YAML at line 1", None),
        ("#" * 20_001, "more than 20,000 characters", None),
        ("a: &x 1\nb: *x", "YAML alias", None),
        ("- 1", "not a mapping", None),
        ("", "not a mapping", None),
        ("# 配置\n" * 4_001, "more than 20,000 characters", None),
        (f"{VALID}schemas: {{s: {{url: https://example.com/s}}}}", None, "not in S3"),
        (f"{VALID}schemas: {{s: {{url: s3://{RAW}/README.md}}}}", None, "not JSON"),
        (f"{VALID}schemas: {{s: {{url: s3://{RAW}/nothing}}}}", None, "Not found in S3."),
        (f"{VALID}schemas: {{s: {{url: s3://no-such-bucket/s}}}}", None, "S3 has no bucket 'no-such-bucket'."),
        (f"{VALID}schemas: {{s: {{url: 's3://[s/s'}}}}", None, "Its address is not valid."),
        (f"{VALID}schemas: {{s: {{}}}}", "$.schemas.s: 'url' is a required property", "not in S3"),
    ],
)
async def test_a_broken_configuration_of_workflows_is_shown(
    config: str, error: str | None, schema_error: str | None, fresh_world: World
) -> None:
    store(config)
    answer = await read(WORKFLOWS)
    assert (answer["config"], answer.get("config_truncated", False)) == (config[:10_000], len(config) > 10_000)
    is_known = schema_error is not None
    assert answer["is_workflow_required"] is (True if is_known else None)
    assert (answer["workflow_count"], answer["schema_count"]) == ((1, 1) if is_known else (None, None))
    assert is_known is (answer["workflows"] is not None) is (answer["schemas"] is not None)
    assert error in answer["config_error"] if error else answer["config_error"] is None
    assert [one["schema"] for one in answer["schemas"] or ()] == ([None] if schema_error else [])
    assert all(schema_error in one["error"] for one in answer["schemas"] or ())


@pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated:DeprecationWarning")  # quilt3 calls them
@pytest.mark.parametrize(
    "config",
    [
        VALID,
        VALID.replace("'1'", "'2'"),
        VALID.replace("'1'", "1"),
        VALID.replace("'1'", "'1.2'"),
        VALID.replace("'1'", "{base: '1.1', catalog: '9'}"),
        f"{VALID}default_workflow: 5",
        f"{VALID}# \udcff",  # a byte that is not UTF-8
        "{}",
        "version: '1'",
        "version: '1'\nworkflows: {a: {name: A, is_message_required: 'true'}}",
        "version: '1'\nworkflows: {1: {name: A}}",
        *(
            f"{VALID}a: {value}"
            for value in ("2001-99-99", "1" * 5000, "!!bool x", "!!int ''", "!!timestamp x", "!!x y")
        ),
    ],
)
async def test_what_quilt3_refuses_is_named(config: str, fresh_world: World) -> None:
    store(config)
    answer = await read(WORKFLOWS)
    try:
        quilt3.workflows.WorkflowConfig.load(quilt3.util.PhysicalKey(RAW, CONFIG, None))
    except Exception:  # noqa: BLE001 - quilt3 raises any, also those of yaml
        assert answer["config_error"].startswith("quilt3 refuses the configuration, and with it every push: ")
    else:
        assert answer["config_error"] is None


@pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated:DeprecationWarning")  # quilt3 calls them
@pytest.mark.parametrize("word", ["true", "True", "YES", "on", "false", "No", "off"])
async def test_a_configuration_means_what_it_means_to_quilt3(word: str, fresh_world: World) -> None:
    """quilt3 reads YAML 1.1, which has several words for true, and the version of a schema that its address names."""
    bucket, schema = s3_backends[ACCOUNT_ID]["aws"], "schemas/run.json"
    bucket.put_bucket_versioning(RAW, "Enabled")
    first = bucket.put_object(RAW, schema, b'{"title": "first"}')
    bucket.put_object(RAW, schema, b'{"title": "second"}')
    store(
        f"# {'結果' * 5_000}\nversion: '1'\nis_workflow_required: {word}\n"
        f"workflows:\n  a: {{name: A, is_message_required: {word}}}\n"
        f"schemas: {{s: {{url: 's3://{RAW}/{schema}?versionId={first.version_id}'}}, t: {{url: 's3://{RAW}/{schema}'}}}}\n"
    )
    judge = quilt3.workflows.WorkflowConfig.load(quilt3.util.PhysicalKey(RAW, CONFIG, None))
    answer = await read(WORKFLOWS)
    assert answer["is_workflow_required"] is judge.config["is_workflow_required"]
    assert answer["workflows"][0]["is_message_required"] is judge.get_workflow_validator("a").is_message_required
    read_by_quilt3 = [json.loads(judge.load_schema(judge.get_pk_for_schema_id(one))[0]) for one in "st"]
    assert [one["schema"] for one in answer["schemas"]] == read_by_quilt3 == [{"title": "first"}, {"title": "second"}]


async def test_an_object_that_arrives_in_part_is_a_failure(fresh_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = make_response("200 OK", b"workflows:\n  a: {}\n  b: {}\n", "x-amz-request-id: 1")
    with raw_server(lambda _: [whole[:-8]]) as s3:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", s3.url)
        error = await read_error(WORKFLOWS)
    assert (error.details, error.transient) == ("s3.get_object", True)


async def test_schemas_are_read_at_the_same_time(fresh_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    schemas, meeting = ", ".join(f"s{at}: {{url: s3://{RAW}/{at}}}" for at in range(5)), threading.Barrier(5)

    def respond(request: bytes) -> list[bytes]:
        if b"config.yml" in request:
            return [make_response("200 OK", f"{VALID}schemas: {{{schemas}}}".encode(), "x-amz-request-id: 1")]
        meeting.wait(SECONDS)
        return [make_response("200 OK", b"{}", "x-amz-request-id: 1")]

    with raw_server(respond) as s3:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", s3.url)
        answer = await read(WORKFLOWS)
    assert [(one["id"], one["schema"]) for one in answer["schemas"]] == [(f"s{at}", {}) for at in range(5)]


NESTED = b'{"a":' * 300 + b"1" + b"}" * 300


@pytest.mark.parametrize(
    ("content", "schema", "error"),
    [
        (b'{"default": NaN, "maximum": 1e999, "minimum": -Infinity}', ["NaN", "1e999", "-Infinity"], None),
        (b'{"default": 1.5, "maximum": 123456789012345678901234567890}', [1.5, 123456789012345678901234567890], None),
        (b'{"title": "\\ud800"}', ["?"], None),
        (NESTED, None, "at most 64,000 bytes and 200 levels"),
        (NESTED.decode().encode("utf-16"), None, "at most 64,000 bytes and 200 levels"),
        (b"[" * 50_000, None, "at most 64,000 bytes and 200 levels"),
        (b'{"a": 1' + b"0" * 6000 + b"}", None, "not JSON"),
    ],
)
async def test_a_schema_that_json_readers_disagree_about_is_shown_or_refused(
    content: bytes, schema: list[object] | None, error: str | None, fresh_world: World
) -> None:
    s3_backends[ACCOUNT_ID]["aws"].put_object(RAW, "schema.json", content)
    store(f"schemas: {{s: {{url: s3://{RAW}/schema.json}}}}")
    [found] = (await read(WORKFLOWS))["schemas"]
    assert (found["schema"] and list(found["schema"].values())) == schema
    assert error in found["error"] if error else found["error"] is None


async def test_tables_and_packages_are_linked_both_ways(fresh_world: World) -> None:
    apps.use_environment()
    tables = await read((await read(LIST))["tabulator_tables"])
    assert (tables["packages"], tables["database"]) == (LIST, RAW)
    assert tables["tables"][0]["sql_name"] == f'"quilt-acme-tabulator"."{RAW}"."run_metrics"'
    database = (await read((await read(LIST))["package_tables"]))["recommended"]["iceberg_database"]
    for kind in ("revision", "tag", "manifest", "entry"):
        assert (await read(f"athena://databases/{database}/tables/{RAW}_package_{kind}"))["packages"] == LIST
