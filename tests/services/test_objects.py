"""Objects of buckets, files that cannot be read, and odd names: what the user reads, and what they can do."""
# ruff: noqa: RUF001 - the names are in several scripts

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moto.iam.models import iam_backends
from moto.s3.models import FakeKey, s3_backends

from quilt_mcp.core.registry import define
from quilt_mcp.core.uris import decode_value
from quilt_mcp.demo.account import ACCOUNT_ID
from quilt_mcp.demo.aws import make_document, make_statement
from quilt_mcp.demo.company import ACME
from quilt_mcp.demo.packages import CREATED
from quilt_mcp.demo.records import Bucket, Package, Revision, Version
from quilt_mcp.demo.world import Plan, World
from tests.support.python_caller import read, read_error
from tests.support.quilt_fakes import answer_queries
from tests.support.worlds import demo_world

BUCKET, EU = "acme-analysis-results", "acme-imaging-eu"
OBJECTS, OBJECT = f"quilt://buckets/{BUCKET}/objects", f"quilt://buckets/{BUCKET}/object"
LIVER = f"quilt://buckets/{BUCKET}/packages/rnaseq/liver"
BACKEND = s3_backends[ACCOUNT_ID]["aws"]
ROLE = "Quilt-DataPlatform"
NO_HASH = "0" * 64


def store(key: str, content: bytes = b"x\n", bucket: str = BUCKET) -> FakeKey:
    stored: FakeKey = BACKEND.put_object(bucket, key, content)
    return stored


def deny(*actions: str) -> None:
    statement = make_statement(actions, ["*"], effect="Deny")
    iam_backends[ACCOUNT_ID]["aws"].put_role_policy(ROLE, "denial", make_document(statement))


def link(key: str, bucket: str = BUCKET) -> str:
    return f"quilt://buckets/{bucket}/object?key={quote(key, safe='')}"


# --- lists ---


async def test_the_top_of_a_bucket_leads_to_every_object(fresh_world: World) -> None:
    seen, waiting = set[str](), [OBJECTS]
    while waiting:
        found = await read(waiting.pop())
        assert found["folder"] is None or (await read(found["folder"]))["entries"]
        seen |= {row["key"] for row in found["entries"] if row["kind"] == "file"}
        waiting += [row["uri"] for row in found["entries"] if row["kind"] == "folder"]
    keys = {one.name for one in BACKEND.get_bucket(BUCKET).keys.values() if isinstance(one, FakeKey)}
    assert seen == keys


async def test_pages_of_a_folder_have_each_entry_once(fresh_world: World) -> None:
    for number in range(130):
        store(f"many/{number:03}/x" if number % 2 else f"many/{number:03}")
    uri, seen = f"{OBJECTS}?prefix=many%2F&limit=40", list[str]()
    page = await read(uri)
    while True:
        seen += [row["key"] for row in page["entries"]]
        if not page["next_cursor"]:
            break
        page = await read(f"{uri}&cursor={page['next_cursor']}")
    assert sorted(seen) == sorted(f"many/{number:03}{'/' if number % 2 else ''}" for number in range(130))
    other = (await read(f"{OBJECTS}?prefix=many%2F&limit=2"))["next_cursor"]
    assert (await read_error(f"{OBJECTS}?cursor={other}")).error == "InvalidTemplateVariable"


async def test_any_start_of_keys_is_a_prefix_and_an_unknown_one_has_no_entries(fresh_world: World) -> None:
    assert [row["key"] for row in (await read(f"{OBJECTS}?prefix=rep"))["entries"]] == ["reports/"]
    none = await read(f"{OBJECTS}?prefix=nothing%2F")
    assert (none["entries"], none["prefix"], none["folder"]) == ([], "nothing/", OBJECTS)


async def test_a_folder_marker_is_not_an_entry_of_its_own_folder(fresh_world: World) -> None:
    store("marked/", b"")
    store("marked/a")
    assert [row["key"] for row in (await read(f"{OBJECTS}?prefix=marked%2F"))["entries"]] == ["marked/a"]
    assert [row["kind"] for row in (await read(f"{OBJECTS}?prefix=marked"))["entries"]] == ["folder"]


BAD_INPUT = [
    (f"{OBJECTS}?limit=0", "InvalidTemplateVariable", "from 1 to 200"),
    (f"{OBJECTS}?cursor=WzEsIngiLCJ5Il0", "InvalidTemplateVariable", "not valid for this list"),
    ("quilt://buckets/no-such-bucket-here/objects", "NotFound", "S3 has no bucket"),
    ("quilt://buckets/x/objects", "InvalidTemplateVariable", "is not the name of a bucket"),
    (OBJECT, "MissingTemplateVariable", "`key` is missing"),
    (f"{OBJECT}?key=", "MissingTemplateVariable", "`key` is missing"),
    (f"{OBJECT}?key=nothing", "NotFound", "S3 has no such object"),
    (f"{OBJECT}?key=README.md&version={'0' * 32}", "NotFound", "version of the object was deleted"),
    (f"{OBJECT}?key=README.md&version=x", "ResourceExecutionError", "AWS does not accept"),
    (f"{OBJECT}?key={'x' * 1025}", "InvalidTemplateVariable", "1-1,024 bytes"),
    (f"{OBJECT}?key=a%00b", "InvalidTemplateVariable", "1-1,024 bytes"),
    (f"{OBJECT}?key=%FF", "InvalidTemplateVariable", "1-1,024 bytes"),
    (f"{OBJECT}?key=README.md&cursor=WzEsIngiLCJ5Il0", "InvalidTemplateVariable", "not valid for this list"),
    ("quilt://buckets/no-such-bucket-here/object?key=a", "NotFound", "S3 has no such bucket"),
]


async def test_bad_input_is_refused_with_the_reason(fresh_world: World) -> None:
    for uri, error, text in BAD_INPUT:
        found = await read_error(uri)
        assert (uri, found.error) == (uri, error)
        assert text in f"{found.message} {found.details}", uri
        assert found.suggested_actions, uri


# --- versions ---


async def test_an_object_has_its_versions_and_each_can_be_read(fresh_world: World) -> None:
    found = await read(link("rnaseq/liver/README.md"))
    assert [row["is_latest"] for row in found["versions"]] == [True, False]
    older = await read(found["versions"][1]["uri"])
    assert (older["version"], older["text"] == found["text"]) == (found["versions"][1]["version"], False)
    assert older["size"] == found["versions"][1]["size"]


async def test_a_deleted_object_names_its_delete_marker_only_by_its_versions(fresh_world: World) -> None:
    error = await read_error(link("rnaseq/liver/drafts/notes.txt"))
    assert (error.error, error.message) == ("NotFound", "S3 has no such object.")
    first = (await read(f"{LIVER}/revisions"))["revisions"][-1]["hash"]
    kept = await read(f"{LIVER}/contents?path=drafts%2Fnotes.txt&revision={first}")
    rows = (await read(link("rnaseq/liver/drafts/notes.txt") + f"&version={kept['version']}"))["versions"]
    assert [(row["is_deleted"], row["size"], row["uri"] is None) for row in rows] == [
        (True, None, True),
        (False, kept["size"], False),
    ]


async def test_many_versions_are_cut_and_versions_of_other_keys_are_not_listed(fresh_world: World) -> None:
    for number in range(30):
        store("often", b"x" * number)
    store("often-not")
    found = await read(link("often"))
    assert (len(found["versions"]), found.get("versions_truncated")) == (20, True)
    assert (await read(link("often-not"))).get("versions_truncated") is None


async def test_without_the_right_to_list_versions_the_content_is_shown(fresh_world: World) -> None:
    deny("s3:ListBucketVersions")
    found = await read(link("README.md"))
    assert found["text"] == "# Analysis results\n"
    assert (found["versions"], found.get("versions_truncated")) == (None, None)
    assert "s3:ListBucketVersions (AccessDenied: explicit deny in the identity-based policy)" in found["versions_error"]


# --- refusals ---


REFUSALS: dict[str, tuple[Callable[[Bucket], Bucket], str, str, str]] = {
    "a KMS key of another account": (
        lambda bucket: replace(bucket, kms_key="arn:aws:kms:us-east-1:999999999999:key/1"),
        "Unauthorized",
        "encrypted with a KMS key that your role may not use",
        "kms:Decrypt (AccessDenied",
    ),
    "a bucket of another account whose requesters pay": (
        lambda bucket: replace(bucket, requester_pays=True, account="210987654321"),
        "Unauthorized",
        "Your role may not read this object",
        "s3:GetObject (AccessDenied",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
async def test_a_refused_object_has_its_own_reason(name: str) -> None:
    change, kind, message, details = REFUSALS[name]
    buckets = tuple(change(one) if one.name == BUCKET else one for one in ACME.buckets)
    plan = Plan("amara_osei", replace(ACME, buckets=buckets))
    with demo_world("admin", plans={"admin": plan}):
        error = await read_error(link("README.md"))
    assert (error.error, message in error.message) == (kind, True)
    assert details in (error.details or "")
    assert "requesters pay" in " ".join(error.suggested_actions) or "KMS" in error.message


async def test_a_file_in_an_archive_is_refused_with_what_to_do(fresh_world: World) -> None:
    error = await read_error(f"{LIVER}/contents?path=raw%2FL01.fastq.gz")
    assert (error.error, error.transient) == ("ResourceExecutionError", False)
    assert "archive (S3 Glacier)" in error.message
    assert "restore" in error.suggested_actions[0]


async def test_a_role_without_the_right_is_told_the_action_and_the_policy(fresh_world: World) -> None:
    deny("s3:GetObject", "s3:GetObjectVersion")
    for uri, action in {
        link("README.md"): "s3:GetObject",
        f"{LIVER}/contents?path=README.md": "s3:GetObjectVersion",
    }.items():
        error = await read_error(uri)
        expected = f"refused by AWS: {action} (AccessDenied: explicit deny in the identity-based policy)"
        assert (error.error, error.details) == ("Unauthorized", expected)
        assert f"permissions://buckets/{BUCKET}/access" in " ".join(error.suggested_actions)
    package = await read(LIVER)
    assert package["readme"] is None
    assert "explicit deny" in package["readme_error"]
    assert (package["highlights"], "explicit deny" in package["highlights_error"]) == (None, True)
    assert package["entries"] == 14


async def test_an_object_in_another_region_is_read(fresh_world: World) -> None:
    assert (await read(link("README.md", EU)))["text"] == "# Imaging\n"
    assert [row["key"] for row in (await read(f"quilt://buckets/{EU}/objects"))["entries"]] == ["slides/", "README.md"]


@pytest.mark.parametrize("key", ["file:///home/jonas/data.csv", "https://example.com/x", ""])
async def test_a_file_that_is_not_in_s3_is_refused(
    key: str, fresh_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {"hash": NO_HASH, "dir": None, "file": {"path": "x", "size": 3.0, "physicalKey": key}}
    answer_queries(monkeypatch, {"packageContents": {"data": {"package": {"revision": found}}}})
    error = await read_error(f"{LIVER}/contents?path=x")
    assert (error.error, "is not in S3" in error.message) == ("NotFound", True)


async def test_a_deleted_version_is_refused(fresh_world: World) -> None:
    bucket = BACKEND.get_bucket(BUCKET)
    key = "rnaseq/liver/README.md"
    newest = bucket.keys.getlist(key)[-1]
    bucket.keys.setlist(key, [one for one in bucket.keys.getlist(key) if one is not newest])
    error = await read_error(f"{LIVER}/contents?path=README.md")
    assert (error.error, error.message) == ("NotFound", "This version of the object was deleted from the bucket.")
    package = await read(LIVER)
    assert (package["readme"], "deleted" in package["readme_error"]) == (None, True)


# --- names ---


NAMES = [
    "Screenshot 9.41.00\u202fAM.png",
    "報告　書.md",
    "می\u200cخواهم",
    "👩\u200d👩\u200d👧.txt",
    "nb\u00a0space",
    "soft\u00adhyphen",
    "tab\there",
    "a?b&c=d#e",
    "100% + 50%25",
    "plus+plus",
    "quote'\"`",
    "back\\slash",
    "{braces}",
    "~tilde",
    "trailing ",
    " leading",
    "e\u0301",
    "\u00e9",
    "a//b",
    "deep/" * 180 + "end",
    "x" * 1024,
    "日" * 341,
    "new\nline",
]


@pytest.mark.parametrize("key", NAMES, ids=[ascii(name[:20]) for name in NAMES])
async def test_an_object_with_any_name_is_listed_and_can_be_read(key: str, fresh_world: World) -> None:
    store(key, b"content\n")
    assert (await read(link(key)))["text"] == "content\n"
    parent, slash, _ = key.rpartition("/")
    listed = await read(f"{OBJECTS}?prefix={quote(parent + slash, safe='')}&limit=200")
    [row] = [row for row in listed["entries"] if row["key"] == key]
    assert (await read(row["uri"]))["key"] == key


def make_package(*names: str) -> tuple[Bucket, ...]:
    versions = tuple(Version(name, CREATED, b"content\n") for name in names)
    revision = Revision(CREATED, "Odd names", {one.key: one for one in versions})
    package = Package("odd/names", (revision,))
    return tuple(
        replace(one, packages=(*one.packages, package), versions=(*one.versions, *versions))
        if one.name == BUCKET
        else one
        for one in ACME.buckets
    )


async def test_a_file_of_a_package_with_any_name_can_be_read() -> None:
    names = [name for name in NAMES if "//" not in name]
    plan = Plan("amara_osei", replace(ACME, buckets=make_package(*names)))
    with demo_world("admin", plans={"admin": plan}):
        listed = await read(f"quilt://buckets/{BUCKET}/packages/odd/names/contents?limit=200")
        files = [row for row in listed["entries"] if row["kind"] == "file"]
        assert sorted(row["name"] for row in files) == sorted(name for name in names if "/" not in name)
        for row in files:
            assert (await read(row["uri"]))["text"] == "content\n"
        deep = await read(f"quilt://buckets/{BUCKET}/packages/odd/names/contents?path={'deep%2F' * 180}end")
        assert deep["text"] == "content\n"


async def test_a_missing_path_that_looks_like_an_entry_names_it() -> None:
    plan = Plan("amara_osei", replace(ACME, buckets=make_package("9.41.00\u202fAM.md", "sub/e\u0301", "plain")))
    with demo_world("admin", plans={"admin": plan}):
        base = f"quilt://buckets/{BUCKET}/packages/odd/names/contents"
        for asked, name in {"9.41.00%20AM.md": "9.41.00\u202fAM.md", "sub%2F%C3%A9": "sub/e\u0301"}.items():
            error = await read_error(f"{base}?path={asked}")
            assert "look the same" in error.suggested_actions[0]
            uri = error.suggested_actions[0].removeprefix("Read ").partition(": ")[0]
            assert (await read(uri))["path"] == name
        other = await read_error(f"{base}?path=plainer")
        assert "for what the folder contains" in other.suggested_actions[0]


async def test_a_folder_and_a_file_of_one_name_are_both_reachable() -> None:
    plan = Plan("amara_osei", replace(ACME, buckets=make_package("data", "data/a.csv")))
    with demo_world("admin", plans={"admin": plan}):
        root = await read(f"quilt://buckets/{BUCKET}/packages/odd/names/contents")
        found = {row["kind"]: await read(row["uri"]) for row in root["entries"]}
        assert (found["file"]["text"], found["folder"]["entries"][0]["name"]) == ("content\n", "a.csv")
        assert (found["file"]["path"], found["folder"]["path"]) == ("data", "data")


ROW = define(
    "demo://x/{name}{?key}", lambda name, key=None: {}, name="X", description="x", free_text={"name"}, keys={"key"}
)


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=512))
def test_a_free_text_can_be_every_text_without_control_characters(text: str) -> None:
    assert decode_value(ROW, "name", quote(text, safe="")) == text


SCRIPTS = "ABCабвαβγअआइابتאבגあいう漢字한글กขค"


@given(st.text(st.sampled_from(SCRIPTS + "\u200c\u200d\u3000\u00a0\u202f\t /%+#?&=\u0301"), min_size=1, max_size=200))
def test_a_key_can_have_every_script(text: str) -> None:
    assert decode_value(ROW, "key", quote(text, safe="")) == text


# --- what a package says about itself ---


def make_guide(**files: bytes) -> Plan:
    names = {"readme": "README.md", "summary": "quilt_summarize.json"}
    versions = tuple(Version(f"guide/{names[name]}", CREATED, content) for name, content in files.items())
    revision = Revision(CREATED, "Guide", {one.key.removeprefix("guide/"): one for one in versions})
    package = Package("guide/a", (revision,))
    buckets = tuple(
        replace(one, packages=(package,), versions=(*one.versions, *versions)) if one.name == BUCKET else one
        for one in ACME.buckets
    )
    return Plan("amara_osei", replace(ACME, buckets=buckets))


GUIDES: list[tuple[dict[str, bytes], dict[str, Any]]] = [
    ({"other": b""}, {}),
    ({"readme": b""}, {"readme": "", "readme_truncated": None}),
    ({"readme": b"x" * 4000}, {"readme": "x" * 4000, "readme_truncated": None}),
    ({"readme": b"x" * 4001}, {"readme": "x" * 4000, "readme_truncated": True}),
    ({"readme": b"x" * 10_000_000}, {"readme": "x" * 4000, "readme_truncated": True}),
    ({"readme": b"\xff\xfe"}, {"readme": None, "readme_error": "README.md is no text in UTF-8."}),
    ({"summary": b"[]"}, {"highlights": []}),
    ({"summary": b"{}"}, {"highlights": None, "highlights_error": "quilt_summarize.json is no list in JSON"}),
    ({"summary": b"["}, {"highlights": None, "highlights_error": "quilt_summarize.json is no list in JSON"}),
    ({"summary": b"[" * 60_000}, {"highlights": None, "highlights_error": "quilt_summarize.json is no list in JSON"}),
    ({"summary": b'["' + b"x" * 70_000 + b'"]'}, {"highlights": None}),
    ({"summary": b'[1, null, {"title": "x"}, [["a"]]]'}, {"highlights": []}),
    ({"summary": b"[" + b",".join([b'"a"'] * 500) + b"]"}, {}),
]


@pytest.mark.parametrize(("files", "expected"), GUIDES[1:], ids=range(len(GUIDES) - 1))
async def test_readme_and_summary_are_shown_as_far_as_they_are_what_they_should_be(
    files: dict[str, bytes], expected: dict[str, Any]
) -> None:
    with demo_world("admin", plans={"admin": make_guide(**files)}):
        found = await read(f"quilt://buckets/{BUCKET}/packages/guide/a")
    for name, value in expected.items():
        assert (found[name] or "").startswith(value) if name.endswith("_error") else found.get(name) == value, name
    assert len(found["highlights"] or ()) <= 20


async def test_a_package_without_both_files_has_neither(fresh_world: World) -> None:
    found = await read(f"quilt://buckets/{BUCKET}/packages/reports/2025-q1")
    names = ("readme", "readme_truncated", "readme_error", "highlights", "highlights_error")
    assert [found.get(name) for name in names] == [
        None,
        None,
        "The package has no README.md at its root.",
        None,
        "The package has no quilt_summarize.json at its root.",
    ]


async def test_highlights_lead_to_the_files(fresh_world: World) -> None:
    found = await read(LIVER)
    assert [row["title"] for row in found["highlights"]] == [
        None,
        "First two components",
        "First look",
        "Counts",
        "Genes",
    ]
    for row in found["highlights"]:
        assert (await read(row["uri"]))["path"] == row["path"]


# --- changes ---


async def test_changes_of_a_table_say_which_columns_came_and_went(fresh_world: World) -> None:
    rows = {row["path"]: row for row in (await read(f"{LIVER}/changes"))["changes"]}
    assert rows["counts/liver.parquet"]["columns"] == {
        "added": ["sample_id", "tpm", "collected"],
        "removed": ["annotation"],
        "retyped": [],
    }
    assert {path for path, row in rows.items() if row["columns"]} == {"counts/liver.parquet"}
    for row in rows.values():
        found = await read(row["uri"]) if row["path"] != "raw/L01.fastq.gz" else row
        assert found["path"] == row["path"]


async def test_only_the_first_tables_of_a_page_are_compared() -> None:
    older = {f"{at}.csv": Version(f"t/{at}.csv", CREATED - 60, b"a,b\n1,2\n") for at in range(8)}
    newer = {f"{at}.csv": Version(f"t/{at}.csv", CREATED, b"a,c\n1,x\n") for at in range(8)}
    package = Package("t/t", (Revision(CREATED - 60, "1", older), Revision(CREATED, "2", newer)))
    buckets = tuple(
        replace(one, packages=(package,), versions=(*one.versions, *older.values(), *newer.values()))
        if one.name == BUCKET
        else one
        for one in ACME.buckets
    )
    with demo_world("admin", plans={"admin": Plan("amara_osei", replace(ACME, buckets=buckets))}):
        rows = (await read(f"quilt://buckets/{BUCKET}/packages/t/t/changes"))["changes"]
    assert [row["columns"] and (row["columns"]["added"], row["columns"]["removed"]) for row in rows] == [
        *[(["c"], ["b"])] * 5,
        *[None] * 3,
    ]
    assert {row["columns_unknown"] for row in rows[5:]} == {
        "Only the first 5 tables of a page are compared. Read the file in both revisions."
    }
