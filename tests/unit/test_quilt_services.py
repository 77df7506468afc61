"""What the golden worlds do not show of the services over AWS: other identities, refusals in part, writes, limits."""

import threading
from dataclasses import replace
from typing import Any

import pytest

from quilt_mcp import runtime_context
from quilt_mcp.demo.world import World
from quilt_mcp.errors import NotFound, RefusedByAWS, Unavailable
from quilt_mcp.services import bucket_access, permissions_service
from quilt_mcp.services.athena_read_service import (
    athena_databases_list,
    athena_query_history,
    athena_workgroups_list,
)
from quilt_mcp.services.auth_metadata import filesystem_status
from quilt_mcp.services.bucket_access import BucketAccess
from quilt_mcp.services.fan_out import fan_out
from quilt_mcp.services.permissions_service import bucket_recommendations_get, discover_permissions
from quilt_mcp.settings import Settings


def levels() -> dict[str, str]:
    return {row["name"]: row["permission_level"] for row in discover_permissions()["bucket_permissions"]}


def test_databases_come_from_athena_where_glue_refuses(fresh_world: World) -> None:
    by_glue = athena_databases_list()
    fresh_world.account.refuse("DataPlatform", "glue:GetDatabases")
    by_athena = athena_databases_list()
    assert (by_glue["source"], by_athena["source"]) == ("glue", "athena")
    assert [row.keys() for row in by_athena["databases"]] == [row.keys() for row in by_glue["databases"]][:1] * len(
        by_athena["databases"]
    )
    assert all(row["location_uri"] is None and row["create_time"] is None for row in by_athena["databases"])


def test_a_refusal_of_both_is_the_answer(fresh_world: World) -> None:
    fresh_world.account.refuse("DataPlatform", "glue:GetDatabases", "athena:ListDatabases")
    with pytest.raises(RefusedByAWS) as caught:
        athena_databases_list()
    assert caught.value.details == "refused by AWS: athena:ListDatabases (AccessDeniedException)"


def test_refused_workgroups_do_not_spoil_the_list(fresh_world: World) -> None:
    fresh_world.account.refuse("DataPlatform", "athena:GetWorkGroup")
    rows = athena_workgroups_list()["workgroups"]
    assert len(rows) == 4
    assert {row["details_available"] for row in rows} == {False}


def test_a_history_that_no_workgroup_opens_is_empty_and_says_why(fresh_world: World) -> None:
    fresh_world.account.refuse("DataPlatform", "athena:ListQueryExecutions")
    history = athena_query_history()
    assert (history["count"], history["workgroups"]) == (0, [])
    reasons = [one["reason"] for one in history["workgroups_unavailable"]]
    assert reasons == ["AWS refuses this to your identity."] * 4


def test_a_history_of_workgroups_that_are_all_down_is_a_failure(
    fresh_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    Answers(monkeypatch, {"list_query_executions": Unavailable("AWS is limiting the rate of calls.")})
    with pytest.raises(Unavailable, match="limiting"):
        athena_query_history()


def test_a_long_query_is_cut_and_says_so(fresh_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = {row["query_execution_id"]: row["query"] for row in athena_query_history()["query_history"]}
    monkeypatch.setattr("quilt_mcp.services.athena_read_service.MAX_QUERY_TEXT", 10)
    for row in athena_query_history()["query_history"]:
        query = whole[row["query_execution_id"]]
        assert (row["query"], row["query_truncated"]) == (query[:10], len(query) > 10)


def test_the_write_probe_tells_the_truth_and_stores_nothing(
    fresh_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUILT_MCP_PROBE_WRITES", "true")
    runtime_context.use_settings(Settings())
    can_write = {row["name"]: row["can_write"] for row in discover_permissions()["bucket_permissions"]}
    assert can_write == {
        "acme-analysis-results": True,
        "acme-athena-results": True,
        "acme-clinical-trials": False,
        "acme-finance-archive": False,
        "acme-imaging-eu": False,
        "acme-partner-exchange": False,
        "acme-raw-sequencing": True,
    }
    listed = runtime_context.caller().aws.call("s3", "list_objects_v2", Bucket="acme-analysis-results")
    assert not [item for item in listed.get("Contents", []) if "probe" in item["Key"]]


class Answers:
    """Answers some operations of AWS as told, and all others as the demo world does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, answers: dict[str, Exception | dict[str, Any]]) -> None:
        aws = runtime_context.caller().aws
        original = aws.call

        def call(service: str, operation: str, **parameters: Any) -> dict[str, Any]:
            answer = answers.get(operation)
            if isinstance(answer, Exception):
                raise answer
            return original(service, operation, **parameters) if answer is None else answer

        monkeypatch.setattr(aws, "call", call)


def test_a_bucket_that_could_not_be_tried_is_unknown_not_forbidden(
    fresh_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    Answers(monkeypatch, {"head_bucket": Unavailable("too slow")})
    answer = discover_permissions()
    assert set(levels().values()) == {"unknown"}
    assert answer["bucket_permissions"][0]["error_message"] == "too slow"
    assert answer["categorized_buckets"]["no_access"] == []


def test_a_bucket_that_is_gone_is_unknown_and_says_why(fresh_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    Answers(monkeypatch, {"head_bucket": NotFound("AWS knows no such thing.")})
    assert {row["error_message"] for row in discover_permissions()["bucket_permissions"]} == {
        "AWS knows no such thing."
    }


def test_a_read_probe_that_fails_keeps_what_the_list_probe_found(
    fresh_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    Answers(monkeypatch, {"head_object": Unavailable("too slow")})
    [row] = [row for row in discover_permissions()["bucket_permissions"] if row["name"] == "acme-imaging-eu"]
    assert (row["region"], row["can_list"], row["can_read"], row["permission_level"]) == (
        "eu-west-1",
        True,
        None,
        "unknown",
    )


def test_an_object_that_happens_to_exist_is_readable(fresh_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    Answers(monkeypatch, {"head_object": {"ContentLength": 1}})
    assert levels()["acme-clinical-trials"] == "read_only"


@pytest.mark.parametrize("token", ["NextToken", "ContinuationToken"])
def test_pages_are_followed_to_their_end(token: str, fresh_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = {None: {"Items": [1, 2], token: "n"}, "n": {"Items": [3]}}
    aws = runtime_context.caller().aws
    monkeypatch.setattr(aws, "call", lambda *_, **given: pages[given.get(token)])
    assert list(aws.pages("athena", "list_work_groups", "Items", token=token)) == [1, 2, 3]


def test_more_buckets_than_are_probed_are_counted(fresh_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket_access, "MAX_BUCKETS", 3)
    answer = discover_permissions()
    assert (answer["total_buckets_checked"], answer["buckets_not_probed"]) == (3, 4)


def test_a_role_that_quilt_does_not_manage_leaves_writing_unknown(fresh_world: World) -> None:
    for grant in fresh_world.stack.grants.values():
        grant.user = replace(grant.user, role="PartnerExchange")
    assert {row["can_write"] for row in discover_permissions()["bucket_permissions"]} == {None}


def test_without_a_policy_of_others_a_managed_role_tells_also_where_it_may_not_write(fresh_world: World) -> None:
    """All policies of ClinicalOperations are Quilt's; the demo administrator's own role has one that is not."""
    for grant in fresh_world.stack.grants.values():
        grant.user = replace(grant.user, role="ClinicalOperations")
    can_write = {row["name"]: row["can_write"] for row in discover_permissions()["bucket_permissions"]}
    assert can_write["acme-clinical-trials"] is True
    assert can_write["acme-analysis-results"] is False
    assert can_write["acme-athena-results"] is None  # not a bucket of the stack


def test_a_source_that_is_late_is_told_and_costs_only_itself(
    fresh_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = threading.Event()
    caller = runtime_context.caller()

    def late(*_: Any) -> Any:
        release.wait(10)
        raise Unavailable("too late")

    monkeypatch.setenv("QUILT_MCP_PROBE_SECONDS", "2")
    runtime_context.use_settings(Settings())
    monkeypatch.setattr(type(caller), "graphql", late)
    answer = discover_permissions()
    release.set()
    assert answer["sources"] == {"registry": "not read: not reached in time", "s3": "read"}
    assert answer["categorized_buckets"]["unknown"] == []
    assert answer["total_buckets_checked"] == 6


def test_a_slow_bucket_costs_its_own_row(fresh_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUILT_MCP_PROBE_SECONDS", "2")
    runtime_context.use_settings(Settings())
    release, aws = threading.Event(), runtime_context.caller().aws
    original = aws.call

    def call(service: str, operation: str, **parameters: Any) -> dict[str, Any]:
        if operation == "head_bucket" and parameters["Bucket"] == "acme-imaging-eu":
            release.wait(10)
        return original(service, operation, **parameters)

    monkeypatch.setattr(aws, "call", call)
    found = levels()
    release.set()
    assert found["acme-imaging-eu"] == "unknown"
    assert found["acme-raw-sequencing"] == "full_access"


def test_a_closed_bucket_is_never_recommended_whatever_the_role_says(fresh_world: World) -> None:
    fresh_world.account.refuse("DataPlatform", "s3:GetObject", "s3:ListBucket", "s3:HeadBucket")
    answer = bucket_recommendations_get()
    assert answer["recommendations"]["primary_recommendations"] == []
    assert {row["can_write"] for row in discover_permissions()["bucket_permissions"]} == {True, None}


def test_recommendations_prefer_the_stack_and_break_ties_by_name(
    fresh_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    writable = BucketAccess("", ("registry", "s3"), "us-east-1", can_list=True, can_read=True, can_write=True)
    buckets = [
        BucketAccess(**(vars(writable) | {"name": name, "named_by": named_by}))
        for name, named_by in (
            ("b-data", ("registry",)),
            ("a-data", ("registry",)),
            ("quilt-packages", ("registry",)),
            ("scratch-space", ("registry",)),
            ("elsewhere", ("s3",)),
        )
    ]
    snapshot = bucket_access.Snapshot({"Arn": "x"}, buckets, {}, 0)
    monkeypatch.setattr(permissions_service, "take_snapshot", lambda: snapshot)
    answer = bucket_recommendations_get()
    primary = answer["recommendations"]["primary_recommendations"]
    assert [(row["bucket_name"], row["score"]) for row in primary] == [
        ("quilt-packages", 100),
        ("a-data", 80),
        ("b-data", 80),
    ]
    assert [row["bucket_name"] for row in answer["recommendations"]["alternative_options"]] == [
        "scratch-space",
        "elsewhere",
    ]
    assert permissions_service._purposes(snapshot) == {
        "package_creation": ["b-data", "a-data", "quilt-packages"],
        "data_storage": ["b-data", "a-data", "quilt-packages", "elsewhere"],
        "temporary_storage": ["scratch-space"],
    }


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
def test_an_arn_is_taken_apart(resource: str, user_type: str, user_name: str | None, role_name: str | None) -> None:
    answer = {"UserId": "AIDA", "Account": "1", "Arn": f"arn:aws:iam::1:{resource}"}
    identity = permissions_service._identity(answer)
    assert (identity["user_type"], identity["user_name"], identity["role_name"]) == (user_type, user_name, role_name)


def test_what_is_not_done_in_time_is_missing_and_what_has_not_begun_never_begins() -> None:
    release, begun = threading.Event(), []

    def call(item: int) -> int:
        begun.append(item)
        if item:
            release.wait(10)
        return item

    answers = fan_out(call, range(100), seconds=0.2)
    release.set()
    assert answers == {0: 0}
    assert len(begun) < 100


def test_a_directory_that_cannot_be_written_is_told(fresh_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_: Any) -> Any:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("tempfile.TemporaryFile", full)
    answer = filesystem_status()
    assert answer["status"] == "read_only"
    assert answer["directories"]["workflows"]["error"] == "OSError: Read-only file system"
