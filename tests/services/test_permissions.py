"""permissions://: what a user sees in the demo's account, and which buckets are recommended."""

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from quilt_mcp.core.errors import ResourceExecutionError, Unavailable
from quilt_mcp.demo.world import World
from quilt_mcp.services.bucket_access import bucket_access_get
from quilt_mcp.services.bucket_claims import judge
from quilt_mcp.services.bucket_probes import Probe, probe_bucket
from quilt_mcp.services.bucket_rights import (
    ListedBuckets,
    ProbedBucket,
    Snapshot,
    SourceName,
    describe_cut,
    take_snapshot,
)
from quilt_mcp.services.bucket_statements import StackBuckets, Statement
from quilt_mcp.services.permissions_service import bucket_recommendations_get, discover_permissions, parse_identity
from quilt_mcp.services.recommendations import recommend_buckets
from quilt_mcp.services.stack.aws import AWSClients, Service
from quilt_mcp.services.stack.caller import Caller
from quilt_mcp.services.stack.callers import current_caller
from tests.support import apps
from tests.support.scripted_s3 import ScriptedS3
from tests.support.settings import Settings
from tests.support.worlds import demo_world

WRITABLE = Statement("role R: READ_WRITE", "READ_WRITE", can_write=True)
READ_ONLY = Statement("collaborators: READ for ann", "READ", source="collaborators")
NO_WRITING = Statement("role R: READ", "READ", can_write=False)
UNKNOWN = Statement("the role is custom")
DATA = ("README.md", "data/1")


def read_rows() -> dict[str, Any]:
    answer = discover_permissions()
    shared = answer["shared_evidence"]
    return {
        row["name"]: {name: shared.get(str(value), value) for name, value in row.items() if name != "named_by"}
        for row in answer["bucket_permissions"]
    }


def enable_write_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUILT_MCP_PROBE_WRITES", "true")
    apps.use_settings(Settings())


def replace_call(monkeypatch: pytest.MonkeyPatch, answer: Callable[[str, dict[str, Any]], Any]) -> None:
    """Let `answer` respond to AWS calls. Those for which it returns None are carried out."""
    original = AWSClients.call

    def call(self: AWSClients, service: Service, operation: str, **given: Any) -> Any:
        found = answer(operation, given)
        if isinstance(found, Exception):
            raise found
        return original(self, service, operation, **given) if found is None else found

    monkeypatch.setattr(AWSClients, "call", call)


def test_the_write_probe_is_correct_and_stores_nothing(fresh_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    enable_write_probe(monkeypatch)
    rows = read_rows()
    assert {name: row["can_write"] for name, row in rows.items()} == {
        "acme-analysis-results": True,
        "acme-athena-results": True,
        "acme-clinical-trials": None,  # other prefixes were not tried
        "acme-finance-archive": None,  # the list is refused, so a refused put proves nothing
        "acme-imaging-eu": None,
        "acme-partner-exchange": None,  # it is empty, and another prefix can be new
        "acme-raw-sequencing": True,
    }
    assert {row["write_evidence"].partition(" ")[0] for row in rows.values()} == {"PutObject"}
    writes = {row["write"] for row in bucket_recommendations_get()["recommendations"]["primary_recommendations"]}
    assert writes == {"verified"}
    for name in ("acme-analysis-results", "acme-raw-sequencing", "acme-athena-results"):
        listed = current_caller().aws.call("s3", "list_objects_v2", Bucket=name)
        assert not [item for item in listed.get("Contents", []) if "probe" in item["Key"]]


@pytest.mark.parametrize("failure", [Unavailable("too slow"), ResourceExecutionError("AWS rejected the request.")])
def test_a_bucket_that_could_not_be_probed_is_unknown(
    failure: Exception, fresh_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_call(monkeypatch, lambda operation, _: failure if operation == "list_objects_v2" else None)
    answer = discover_permissions()
    assert {row["permission_level"] for row in answer["bucket_permissions"]} == {"unknown"}
    assert {row["error"] for row in answer["bucket_permissions"]} == {str(failure)}
    recommended = bucket_recommendations_get()["recommendations"]
    assert (recommended["primary_recommendations"], len(recommended["access_unknown"])) == ([], 7)


@pytest.mark.soak
def test_a_slow_bucket_affects_its_own_row_only(fresh_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUILT_MCP_PROBE_SECONDS", "29")  # the others have as long
    apps.use_settings(Settings())
    release = threading.Event()

    def wait(operation: str, given: dict[str, Any]) -> None:
        if operation == "list_objects_v2" and given["Bucket"] == "acme-imaging-eu":
            release.wait(60)

    replace_call(monkeypatch, wait)
    rows = read_rows()
    release.set()
    assert rows["acme-imaging-eu"]["error"] == "not reached in time"
    assert rows["acme-raw-sequencing"]["permission_level"] == "full_access"


@pytest.mark.soak
def test_a_late_stack_is_named_and_the_account_is_used(fresh_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()

    def late(*_: Any) -> Any:
        release.wait(60)
        raise Unavailable("too late")

    monkeypatch.setenv("QUILT_MCP_PROBE_SECONDS", "29")  # the others have as long
    apps.use_settings(Settings())
    monkeypatch.setattr(Caller, "send_query", late)
    answer = discover_permissions()
    release.set()
    assert answer["sources"] == {"registry": "not read: not reached in time", "s3": "read"}
    assert answer["count"] == 6


def test_for_one_bucket_only_names_that_begin_like_it_are_listed(
    fresh_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str | None] = []
    replace_call(monkeypatch, lambda name, given: asked.append(given.get("Prefix")) if name == "list_buckets" else None)
    bucket_access_get("acme-raw-sequencing")
    discover_permissions()
    assert asked == ["acme-raw-sequencing", None]


def test_the_stack_comes_first_in_a_large_account() -> None:
    buckets = ListedBuckets(StackBuckets(("z-2", "z-1")), {f"a-{number:04}": None for number in range(1500)})
    probed = buckets.names[:1000]
    assert probed[:3] == ["z-2", "z-1", "a-0000"]
    assert "2 of the 2 in the Quilt stack, and 998 of the others" in str(describe_cut(buckets, probed))
    assert describe_cut(buckets, buckets.names) is None


def make_bucket(
    name: str, statement: Statement | None, *, named_by: tuple[SourceName, ...] = ("registry",), **rights: Any
) -> ProbedBucket:
    """Return a bucket with this statement; with None, the write probe is sent, and the stack states nothing."""
    probe = probe_bucket(ScriptedS3(DATA, **rights).as_clients(), name, writes=statement is None)
    return ProbedBucket(name, judge(probe, statement or UNKNOWN), named_by)


def recommend(*buckets: ProbedBucket) -> list[tuple[str, str, int]]:
    snapshot = Snapshot(list(buckets), {})
    found = recommend_buckets(snapshot)["recommendations"]
    return [(row["bucket"], row["write"], row["score"]) for row in found["primary_recommendations"]]


def refuse(_: str) -> bool:
    return False


def test_verified_ranks_before_stated_and_that_before_unverified() -> None:
    assert recommend(
        make_bucket("quilt-packages", UNKNOWN),
        make_bucket("b-data", WRITABLE),
        make_bucket("a-scratch", None, named_by=("s3",)),
    ) == [("a-scratch", "verified", 40), ("b-data", "stated", 80), ("quilt-packages", "unverified", 60)]


def test_buckets_without_a_right_to_write_or_to_list_are_never_recommended() -> None:
    assert recommend(make_bucket("a", NO_WRITING), make_bucket("b", WRITABLE, lists=refuse)) == []


def test_a_bucket_that_is_probably_wrong_is_recommended_only_without_another() -> None:
    refused_put = make_bucket("c", None, writes=refuse)
    doubtful = [make_bucket("a", READ_ONLY), make_bucket("b", UNKNOWN, reads=refuse), refused_put]
    assert recommend(*doubtful) == [("a", "unverified", 40), ("b", "unverified", 40), ("c", "unverified", 40)]
    assert recommend(*doubtful, make_bucket("d", UNKNOWN)) == [("d", "unverified", 40)]
    query_results = make_bucket("e", WRITABLE, named_by=("s3",))  # the catalog shows no package there
    assert recommend(*doubtful, query_results) == recommend(*doubtful)


def test_recommendations_prefer_the_stack_and_break_ties_by_name() -> None:
    buckets = [
        make_bucket("b-data", WRITABLE),
        make_bucket("a-data", WRITABLE),
        make_bucket("quilt-packages", WRITABLE),
        make_bucket("scratch-space", WRITABLE),
        make_bucket("elsewhere", WRITABLE, named_by=("s3",)),
        make_bucket("read-only", NO_WRITING),
    ]
    snapshot = Snapshot(buckets, {"registry": "read", "s3": "read"})
    assert recommend(*buckets) == [
        ("quilt-packages", "stated", 100),
        ("a-data", "stated", 80),
        ("b-data", "stated", 80),
    ]
    answer = recommend_buckets(snapshot)
    others = [(row["bucket"], row["write"]) for row in answer["recommendations"]["alternative_options"]]
    assert others == [("scratch-space", "stated"), ("elsewhere", "stated"), ("read-only", "no")]
    assert (answer["total_writable_buckets"], answer["total_accessible_buckets"]) == (5, 6)


@pytest.mark.parametrize(
    ("resource", "user_type", "user_name", "role_name"),
    [
        ("user/ann", "iam_user", "ann", None),
        ("user/data/team/ann", "iam_user", "ann", None),
        ("assumed-role/Quilt-Reader/ann@example.com", "assumed_role", "ann@example.com", "Quilt-Reader"),
        ("role/service/Loader", "iam_role", "Loader", None),
        ("federated-user/ann", "federated_user", "ann", None),
        ("root", "root", None, None),
    ],
)
def test_an_arn_is_parsed(resource: str, user_type: str, user_name: str | None, role_name: str | None) -> None:
    identity = parse_identity({"UserId": "AIDA", "Account": "1", "Arn": f"arn:aws:iam::1:{resource}"})
    assert (identity["user_type"], identity["user_name"], identity["role_name"]) == (user_type, user_name, role_name)


def test_recommendations_claim_nothing_about_buckets_that_could_not_be_read() -> None:
    with demo_world("member") as world:
        assert world.user
        world.account.refuse(world.user.role or "", "s3:ListAllMyBuckets")
        world.stack.endpoint = replace(world.stack.endpoint, failing_fields={"Query.bucketConfigs", "Query.buckets"})
        answer, discovered = bucket_recommendations_get(), discover_permissions()
    assert answer["sources"] == discovered["sources"]
    assert all(state.startswith("not read: ") for state in answer["sources"].values())
    assert answer["recommendations"]["primary_recommendations"] == []
    assert str(answer["recommendations"]["note"]).startswith("It is not known whether there is a bucket to try")
    assert (answer["total_writable_buckets"], answer["total_accessible_buckets"]) == (None, None)


def test_recommendations_say_which_buckets_are_left_out(fresh_world: World) -> None:
    snapshot = take_snapshot(max_buckets=3)
    answer = recommend_buckets(snapshot)
    assert (answer["buckets_not_probed"], answer["not_probed_note"]) == (4, snapshot.not_probed_note)
    assert "7 buckets were found and 3 were probed" in str(answer["not_probed_note"])
    assert (answer["total_writable_buckets"], answer["total_accessible_buckets"]) == (1, 1)
    complete = bucket_recommendations_get()
    assert (complete["buckets_not_probed"], complete["not_probed_note"]) == (0, None)
    assert complete["sources"] == {"registry": "read", "s3": "read"}
    assert complete["total_accessible_buckets"] == 4


def test_no_candidate_is_only_claimed_if_every_bucket_was_probed() -> None:
    slow = ProbedBucket("a", judge(Probe(error="too slow"), UNKNOWN), error="too slow")
    notes = [
        recommend_buckets(Snapshot(buckets, {"registry": "read", "s3": "read"}, not_probed))["recommendations"]["note"]
        for buckets, not_probed in (([], 0), ([slow], 0), ([], 1))
    ]
    assert [str(note).partition(" bucket to try")[0] for note in notes] == [
        "There is no",
        *["It is not known whether there is a"] * 2,
    ]


def test_the_write_probe_is_proposed_if_it_is_off() -> None:
    buckets = [make_bucket("a", UNKNOWN), make_bucket("b", UNKNOWN)]
    for tries in (True, False):
        answer = recommend_buckets(Snapshot(buckets, {"registry": "read", "s3": "read"}, tries_writes=tries))
        assert ("PROBE_WRITES" in str(answer["recommendations"]["note"])) is not tries


def test_only_buckets_that_could_be_listed_and_asked_count_as_unknown_for_writing() -> None:
    listed, denied = make_bucket("listed", UNKNOWN), make_bucket("denied", UNKNOWN, lists=lambda _: False)
    broken = make_bucket("broken", UNKNOWN)._replace(error="too slow")
    found = recommend_buckets(Snapshot([listed, denied, broken], {"registry": "read", "s3": "read"}))["recommendations"]
    assert (found["write_unknown"], found["access_unknown"]) == (["listed"], ["broken"])
