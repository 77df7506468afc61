"""The demo world, seen through plain quilt3 and boto3."""

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import boto3
import moto.athena.urls
import moto.glue.urls
import pytest
import quilt3
import quilt3.admin
import quilt3.util
import requests
import time_machine
from botocore.exceptions import ClientError, NoCredentialsError
from moto.iam import access_control

# quilt3 names its GraphQL errors nowhere else
from quilt3._graphql_client.exceptions import GraphQLClientGraphQLMultiError

from quilt_mcp import runtime_context
from quilt_mcp.demo import moto_gaps
from quilt_mcp.demo.http_server import Answer
from quilt_mcp.demo.stack import Call
from quilt_mcp.demo.world import WORLDS, World, demo_world
from quilt_mcp.services import workflow_service
from quilt_mcp.settings import Settings

BUCKETS = {
    "acme-raw-sequencing": {"admin": "read write", "member": "read"},
    "acme-analysis-results": {"admin": "read write", "member": "read write"},
    "acme-clinical-trials": {"admin": "list", "member": "none"},
    "acme-imaging-eu": {"admin": "read", "member": "list"},
    "acme-partner-exchange": {"admin": "read", "member": "none"},
    "acme-finance-archive": {"admin": "none", "member": "none"},
    "acme-athena-results": {"admin": "read write", "member": "read write"},
}
RESEARCHER = "QuiltUserAthena-acme-Researcher"


@pytest.fixture
def admin() -> Iterator[World]:
    with demo_world("admin") as world:
        yield world


@pytest.fixture(scope="class")
def unchanged_world() -> Iterator[World]:
    """The admin world, for a class of tests that only read."""
    with demo_world("admin") as world:
        yield world


@pytest.fixture(scope="class")
def athena(unchanged_world: World) -> Any:
    assert unchanged_world.name == "admin"
    return aws("athena")


@pytest.fixture
def member() -> Iterator[World]:
    with demo_world("member") as world:
        yield world


def aws(service: str) -> Any:
    return quilt3.get_boto3_session().client(service)


def outcome(call: Callable[[], object]) -> str:
    try:
        call()
    except ClientError as error:
        return str(error.response["Error"]["Code"])
    return "allowed"


def refusal(call: Callable[[], object]) -> str:
    code = outcome(call)
    assert code != "allowed"
    return code


def right(s3: Any, bucket: str) -> str:
    """What the caller may do with a bucket, found as a client would."""
    if (listing := outcome(lambda: s3.head_bucket(Bucket=bucket))) != "allowed":
        return {"403": "none"}[listing]
    if refusal(lambda: s3.head_object(Bucket=bucket, Key="missing")) == "403":
        return "list"
    write = refusal(lambda: s3.put_object(Bucket=bucket, Key="missing", Body=b"", IfMatch='"0"'))
    return {"NoSuchKey": "read write", "AccessDenied": "read"}[write]


def graphql(world: World, operation: str) -> Any:
    body = {"operationName": operation, "query": "", "variables": {}}
    return quilt3.session.get_session().post(f"{world.url}/graphql", json=body).json()


class TestRights:
    @pytest.mark.parametrize("name", ["admin", "member"])
    def test_each_bucket_has_the_rights_that_were_seeded(self, name: str) -> None:
        with demo_world(name):
            s3 = aws("s3")
            assert {bucket: right(s3, bucket) for bucket in BUCKETS} == {
                bucket: rights[name] for bucket, rights in BUCKETS.items()
            }

    @pytest.mark.parametrize(
        ("name", "arn"),
        [
            ("admin", "assumed-role/Quilt-DataPlatform/amara_osei"),
            ("member", "assumed-role/Quilt-Researcher/jonas_lindqvist"),
            ("empty", "assumed-role/Quilt-Administrators/amara_osei"),
        ],
    )
    def test_the_caller_is_the_role_of_who_is_signed_in(self, name: str, arn: str) -> None:
        with demo_world(name):
            assert aws("sts").get_caller_identity()["Arn"] == f"arn:aws:sts::123456789012:{arn}"

    def test_no_one_is_signed_in_to_aws_when_signed_out(self) -> None:
        with demo_world("signed_out"), pytest.raises(NoCredentialsError):
            aws("sts").get_caller_identity()

    def test_the_account_lists_its_own_buckets_only_and_not_to_members(self, admin: World) -> None:
        listed = {bucket["Name"] for bucket in aws("s3").list_buckets()["Buckets"]}
        assert listed == BUCKETS.keys() - {"acme-partner-exchange"}
        admin.account.refuse("DataPlatform", "s3:ListAllMyBuckets")
        assert refusal(aws("s3").list_buckets) == "AccessDenied"

    def test_a_probe_writes_nothing(self, admin: World) -> None:
        s3 = aws("s3")
        assert right(s3, "acme-analysis-results") == "read write"
        keys = {found["Key"] for found in s3.list_objects_v2(Bucket="acme-analysis-results")["Contents"]}
        assert keys == admin.company.buckets[1].objects.keys()

    @pytest.mark.usefixtures("admin")
    def test_a_client_is_sent_to_the_region_of_a_bucket(self) -> None:
        s3, hosts = aws("s3"), []
        s3.meta.events.register("before-send.s3", lambda request, **_: hosts.append(request.url.split("/")[2]))
        assert s3.head_bucket(Bucket="acme-imaging-eu")["BucketRegion"] == "eu-west-1"
        assert hosts == ["acme-imaging-eu.s3.amazonaws.com", "acme-imaging-eu.s3.eu-west-1.amazonaws.com"]
        assert s3.get_object(Bucket="acme-imaging-eu", Key="README.md")["Body"].read() == b"# Imaging\n"

    def test_a_missing_key_is_forbidden_to_who_may_not_list(self, admin: World) -> None:
        admin.account.refuse("DataPlatform", "s3:ListBucket")
        s3, place = aws("s3"), {"Bucket": "acme-raw-sequencing", "Key": "missing"}
        assert refusal(lambda: s3.head_object(**place)) == "403"
        assert refusal(lambda: s3.get_object(**place)) == "AccessDenied"
        assert s3.get_object(Bucket="acme-raw-sequencing", Key="README.md")["ContentLength"] > 0

    @pytest.mark.usefixtures("member")
    def test_a_bucket_that_does_not_exist_is_not_found(self) -> None:
        s3 = aws("s3")
        assert refusal(lambda: s3.head_bucket(Bucket="acme-nowhere")) == "404"
        assert refusal(lambda: s3.list_objects_v2(Bucket="acme-nowhere")) == "NoSuchBucket"
        assert refusal(lambda: s3.get_object(Bucket="acme-nowhere", Key="missing")) == "NoSuchBucket"

    def test_a_refusal_of_glue_names_action_and_resource(self, admin: World) -> None:
        admin.account.refuse("DataPlatform", "glue:GetDatabases")
        with pytest.raises(ClientError) as caught:
            aws("glue").get_databases()
        assert caught.value.response["Error"] == {
            "Code": "AccessDeniedException",
            "Message": "User: arn:aws:sts::123456789012:assumed-role/Quilt-DataPlatform/amara_osei is not authorized"
            " to perform: glue:GetDatabases on resource: arn:aws:glue:us-east-1:123456789012:catalog",
        }

    @pytest.mark.parametrize(
        ("service", "operation", "code"),
        [
            ("athena", "list_work_groups", "UnrecognizedClientException"),
            ("s3", "list_buckets", "InvalidAccessKeyId"),
        ],
    )
    @pytest.mark.usefixtures("admin")
    def test_keys_that_no_one_issued_are_refused(self, service: str, operation: str, code: str) -> None:
        stranger = boto3.Session("AKIAI44QH8DHBEXAMPLE", "made-up", region_name="us-east-1").client(service)
        assert refusal(getattr(stranger, operation)) == code

    @pytest.mark.usefixtures("admin")
    def test_a_query_started_in_the_world_is_listed_too(self) -> None:
        athena = aws("athena")
        started = athena.start_query_execution(QueryString="SHOW DATABASES", WorkGroup="primary")["QueryExecutionId"]
        assert athena.list_query_executions()["QueryExecutionIds"][0] == started
        assert athena.get_query_execution(QueryExecutionId=started)["QueryExecution"]["StatementType"] == "DDL"

    def test_a_member_is_refused_by_workgroup(self, member: World) -> None:
        athena = aws("athena")
        assert len(athena.list_work_groups()["WorkGroups"]) == len(member.company.work_groups)
        assert len(athena.list_query_executions(WorkGroup=RESEARCHER)["QueryExecutionIds"]) == 3
        assert athena.get_work_group(WorkGroup="analytics-adhoc")["WorkGroup"]["State"] == "ENABLED"
        for call in (
            lambda: athena.list_query_executions(WorkGroup="analytics-adhoc"),
            lambda: athena.get_work_group(WorkGroup="primary"),
            lambda: athena.batch_get_query_execution(QueryExecutionIds=[member.company.queries[5].id]),
        ):
            assert refusal(call) == "AccessDeniedException"


class TestAthenaAndGlue:
    def test_glue_has_the_databases_with_all_their_fields(self, unchanged_world: World) -> None:
        databases = {found["Name"]: found for found in aws("glue").get_databases()["DatabaseList"]}
        assert sorted(databases) == ["acme-imaging-eu", "acme_clinical", "acme_sequencing", "default"]
        sequencing = databases["acme_sequencing"]
        assert sequencing["CreateTime"].isoformat()[:19] == "2023-01-16T09:00:00"
        assert sequencing["LocationUri"] == "s3://acme-raw-sequencing/warehouse/"
        assert sequencing["Parameters"] == {"owner": "data-platform", "classification": "internal"}
        assert "Description" not in databases["acme-imaging-eu"]
        assert unchanged_world.company.databases[0].description == sequencing["Description"]

    def test_athena_knows_glues_databases_and_the_tabulators(self, athena: Any, unchanged_world: World) -> None:
        catalogs = [row["CatalogName"] for row in athena.list_data_catalogs()["DataCatalogsSummary"]]
        assert catalogs == ["AwsDataCatalog", "quilt-acme-tabulator"]
        assert athena.get_data_catalog(Name="AwsDataCatalog")["DataCatalog"]["Type"] == "GLUE"
        names = [row["Name"] for row in athena.list_databases(CatalogName="AwsDataCatalog")["DatabaseList"]]
        assert names == sorted(database.name for database in unchanged_world.company.databases)
        tabulated = athena.list_databases(CatalogName="quilt-acme-tabulator")["DatabaseList"]
        assert [row["Name"] for row in tabulated] == ["acme-analysis-results", "acme-raw-sequencing"]
        assert refusal(lambda: athena.get_data_catalog(Name="none")) == "InvalidRequestException"

    def test_workgroups_come_in_pages_with_fixed_dates(self, athena: Any, unchanged_world: World) -> None:
        first = athena.list_work_groups(MaxResults=3)
        second = athena.list_work_groups(MaxResults=3, NextToken=first["NextToken"])
        assert "NextToken" not in second
        groups = first["WorkGroups"] + second["WorkGroups"]
        assert [group["Name"] for group in groups] == [group.name for group in unchanged_world.company.work_groups]
        assert [group["State"] for group in groups].count("DISABLED") == 1
        described = athena.get_work_group(WorkGroup=RESEARCHER)["WorkGroup"]
        assert described["CreationTime"] == groups[2]["CreationTime"] == datetime(2023, 1, 9, 8, 21, tzinfo=UTC)
        output = described["Configuration"]["ResultConfiguration"]["OutputLocation"]
        assert output == "s3://acme-athena-results/researcher/"
        assert refusal(lambda: athena.get_work_group(WorkGroup="none")) == "InvalidRequestException"

    def test_queries_are_listed_by_workgroup_newest_first(self, athena: Any) -> None:
        ids = athena.list_query_executions(WorkGroup=RESEARCHER)["QueryExecutionIds"]
        assert [query_id[-1] for query_id in ids] == ["2", "1", "3"]
        assert [query_id[-1] for query_id in athena.list_query_executions()["QueryExecutionIds"]] == ["6"]
        pages = athena.get_paginator("list_query_executions").paginate(
            WorkGroup=RESEARCHER, PaginationConfig={"PageSize": 2}
        )
        assert [len(page["QueryExecutionIds"]) for page in pages] == [2, 1]
        assert refusal(lambda: athena.list_query_executions(MaxResults=51)) == "InvalidRequestException"
        assert refusal(lambda: athena.list_query_executions(WorkGroup="none")) == "InvalidRequestException"

    def test_a_query_is_told_as_it_went(self, athena: Any, unchanged_world: World) -> None:
        ids = [*athena.list_query_executions(WorkGroup=RESEARCHER)["QueryExecutionIds"], "unknown"]
        answer = athena.batch_get_query_execution(QueryExecutionIds=ids)
        running, succeeded, failed = answer["QueryExecutions"]
        assert [row["QueryExecutionId"] for row in answer["UnprocessedQueryExecutionIds"]] == ["unknown"]
        assert running["Status"].keys() == {"State", "SubmissionDateTime"}
        assert failed["Status"]["State"] == "FAILED"
        assert failed["Status"]["StateChangeReason"].startswith("TABLE_NOT_FOUND")
        took = succeeded["Status"]["CompletionDateTime"] - succeeded["Status"]["SubmissionDateTime"]
        assert took.total_seconds() * 1000 == succeeded["Statistics"]["EngineExecutionTimeInMillis"] == 4000
        assert succeeded["Statistics"]["DataScannedInBytes"] == 18_874_368
        assert athena.get_query_execution(QueryExecutionId=ids[1])["QueryExecution"] == succeeded
        assert refusal(lambda: athena.get_query_execution(QueryExecutionId="unknown")) == "InvalidRequestException"
        too_many = [f"q{number}" for number in range(51)]
        assert (
            refusal(lambda: athena.batch_get_query_execution(QueryExecutionIds=too_many)) == "InvalidRequestException"
        )
        assert unchanged_world.company.queries[0].sql == succeeded["Query"]


@pytest.mark.usefixtures("unchanged_world")
class TestAdministrator:
    def test_users_are_of_many_kinds(self) -> None:
        users = {user.name: user for user in quilt3.admin.users.list()}
        assert len(users) == 24
        assert {user.name for user in users.values() if user.is_admin} == {"amara_osei", "priya_raman"}
        assert [role.name for role in users["grace_mwangi"].extra_roles] == ["ClinicalOperations", "DataPlatform"]
        assert users["nikolai_volkov"].role is None
        assert users["svc_ingest"].is_service
        assert users["wei_zhang"].is_sso_only
        assert not users["sofia_petrova"].is_active

    def test_roles_are_managed_or_not(self) -> None:
        roles = {role.name: role for role in quilt3.admin.roles.list()}
        unmanaged = {name for name, role in roles.items() if role.typename__ == "UnmanagedRole"}
        assert unmanaged == {"LegacyPipeline", "PartnerExchange"}
        levels = {permission.bucket: permission.level.value for permission in roles["DataPlatform"].permissions}
        assert levels == {
            "acme-raw-sequencing": "READ_WRITE",
            "acme-analysis-results": "READ_WRITE",
            "acme-imaging-eu": "READ",
            "acme-partner-exchange": "READ",
        }
        assert [policy.managed for policy in roles["DataPlatform"].policies] == [True, True, False]
        assert quilt3.admin.roles.get_default().name == "Researcher"

    def test_an_administrator_reads_the_configuration(self, unchanged_world: World) -> None:
        assert quilt3.admin.sso_config.get().text == unchanged_world.company.sso
        assert quilt3.admin.tabulator.get_open_query() is True
        assert [bucket.name for bucket in quilt3.admin.buckets.list()] == list(BUCKETS)[:6]
        tables = quilt3.admin.tabulator.list_tables("acme-raw-sequencing")
        assert [table.name for table in tables] == ["run_metrics", "sample_sheets"]
        with pytest.raises(quilt3.admin.BucketNotFoundError):
            quilt3.admin.tabulator.list_tables("nowhere")

    def test_workflows_are_seeded(self, unchanged_world: World) -> None:
        states = {row["id"]: row["status"] for row in workflow_service.workflow_list_all()["workflows"]}
        assert states == {"quarterly-aggregation": "in_progress", "run-250519-intake": "completed"}
        assert {workflow.id for workflow in unchanged_world.company.workflows} == states.keys()


class TestRegistry:
    @pytest.mark.usefixtures("member")
    def test_a_member_is_refused_what_is_for_administrators(self) -> None:
        for call in (
            quilt3.admin.users.list,
            quilt3.admin.roles.list,
            quilt3.admin.roles.get_default,
            quilt3.admin.sso_config.get,
            quilt3.admin.tabulator.get_open_query,
            quilt3.admin.buckets.list,
        ):
            with pytest.raises(GraphQLClientGraphQLMultiError, match="Unauthorized"):
                call()
        assert quilt3.admin.tabulator.list_tables("acme-analysis-results")[0].name == "gene_counts"

    def test_who_am_i(self, member: World) -> None:
        assert graphql(member, "me")["data"]["me"] == {
            "name": "jonas_lindqvist",
            "email": "jonas.lindqvist@acme.example.com",
            "isAdmin": False,
            "role": {"name": "Researcher"},
            "roles": [{"name": "Researcher"}],
        }

    def test_buckets_by_name_and_with_their_tables(self, member: World) -> None:
        both = graphql(member, "stackAccess")["data"]
        assert both["me"] == graphql(member, "me")["data"]["me"]
        assert [row["name"] for row in both["bucketConfigs"]] == list(BUCKETS)[:6]
        rows = graphql(member, "tabulatorBuckets")["data"]["bucketConfigs"]
        counts = {row["name"]: len(row["tabulatorTables"]) for row in rows}
        assert counts["acme-raw-sequencing"] == 2
        assert sum(counts.values()) == 3
        assert "unknownThing" in graphql(member, "unknownThing")["errors"][0]["message"]

    def test_nobody_is_signed_in_when_signed_out(self) -> None:
        with demo_world("signed_out") as world:
            assert quilt3.logged_in() is None
            assert quilt3.session.get_registry_url() == world.url
            with pytest.raises(quilt3.util.QuiltException, match="Authentication failed"):
                quilt3.admin.users.list()

    def test_the_empty_world_is_empty(self) -> None:
        with demo_world("empty"):
            assert [user.name for user in quilt3.admin.users.list()] == ["amara_osei"]
            assert [role.name for role in quilt3.admin.roles.list()] == ["Administrators"]
            assert quilt3.admin.sso_config.get() is None
            assert quilt3.admin.tabulator.get_open_query() is False
            assert aws("s3").list_buckets()["Buckets"] == []
            assert aws("glue").get_databases()["DatabaseList"] == []
            assert [group["Name"] for group in aws("athena").list_work_groups()["WorkGroups"]] == ["primary"]
            assert aws("athena").list_query_executions()["QueryExecutionIds"] == []
            assert workflow_service.workflow_ids() == []


class TestStack:
    def test_requests_are_logged_without_tokens(self, admin: World) -> None:
        assert admin.stack.calls == []
        quilt3.admin.users.list()
        assert admin.stack.calls == [Call("POST", "/graphql", "usersList")]

    def test_an_answer_can_be_forced(self, admin: World) -> None:
        admin.stack.forced["/graphql"] = Answer(503, {"message": "maintenance"})
        with pytest.raises(quilt3.util.QuiltException, match="maintenance"):
            quilt3.admin.users.list()
        admin.stack.forced["/graphql"] = Answer(502, b"<html>")
        with pytest.raises(quilt3.util.QuiltException, match="error 502"):
            quilt3.admin.users.list()
        admin.stack.forced.clear()
        assert quilt3.admin.users.list()

    def test_answers_can_be_held_back_and_leaving_does_not_wait(self) -> None:
        with demo_world() as world:
            world.stack.delay_seconds = 600
            with pytest.raises(requests.ReadTimeout):
                requests.get(f"{world.url}/config.json", timeout=0.05)

    def test_an_expired_token_is_refused_and_can_be_renewed(self, admin: World) -> None:
        admin.stack.grants["demo-access-1"].expires_at = time.time() - 1
        with pytest.raises(quilt3.util.QuiltException, match="Authentication failed"):
            quilt3.admin.users.list()
        assert admin.user is not None
        quilt3.session.login_with_token(admin.stack.sign_in(admin.user))
        assert quilt3.admin.users.list()
        assert [call.path for call in admin.stack.calls].count("/api/token") == 1

    def test_a_sign_in_can_be_revoked(self, admin: World) -> None:
        admin.stack.refresh_tokens.clear()
        with pytest.raises(quilt3.util.QuiltException, match="Invalid refresh token"):
            quilt3.session.login_with_token("demo-refresh-1")

    def test_admin_rights_can_be_taken_from_a_token(self, admin: World) -> None:
        admin.stack.grants["demo-access-1"].is_admin = False
        assert graphql(admin, "me")["data"]["me"]["isAdmin"] is False
        with pytest.raises(GraphQLClientGraphQLMultiError):
            quilt3.admin.users.list()

    def test_an_unknown_token_and_an_unknown_path(self, admin: World) -> None:
        stranger = {"Authorization": "Bearer made-up"}
        assert requests.get(f"{admin.url}/api/auth/get_credentials", headers=stranger, timeout=5).status_code == 401
        assert requests.post(f"{admin.url}/graphql", data=b"{", headers=stranger, timeout=5).status_code == 401
        assert requests.get(f"{admin.url}/nowhere", timeout=5).status_code == 404

    def test_a_closed_stack_refuses_even_kept_connections(self, admin: World) -> None:
        assert quilt3.admin.users.list()
        admin.stack.close()
        with pytest.raises(requests.ConnectionError):
            quilt3.admin.users.list()

    def test_many_requests_at_once_are_all_answered(self, admin: World) -> None:
        answers: list[int] = []
        threads = [threading.Thread(target=lambda: answers.append(len(quilt3.admin.users.list()))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert answers == [24] * 8
        assert len(admin.stack.calls) == 8

    def test_the_port_can_be_chosen(self) -> None:
        with demo_world("empty") as world:
            port = int(world.url.rpartition(":")[2])
        with demo_world("empty", port=port) as world:
            assert world.url == f"http://127.0.0.1:{port}"


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """The empty home of somebody whose environment is full of what a world must not use."""
    monkeypatch.setenv("AWS_PROFILE", "payroll")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAI44QH8DHBEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "theirs")
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:1/")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("HOME", str(tmp_path))
    yield tmp_path
    monkeypatch.undo()
    runtime_context.use_settings(Settings())


class TestIsolation:
    def test_nothing_of_the_users_is_seen_or_changed(self, home: Path) -> None:
        before = (dict(os.environ), vars(quilt3.util).copy(), vars(quilt3.session).copy(), vars(quilt3.api).copy())
        files = sorted(quilt3.util.BASE_PATH.rglob("*"))
        with demo_world("signed_out") as world:
            assert not [name for name in os.environ if name.startswith("AWS_") and "KEY" in name]
            assert "AWS_PROFILE" not in os.environ
            assert quilt3.util.BASE_PATH.is_relative_to(world.directory)
            assert str(world.directory) in quilt3.util.load_config()["default_local_registry"]
            with pytest.raises(NoCredentialsError):
                boto3.client("s3").list_buckets()
        with demo_world("admin"):
            assert quilt3.admin.users.list()
        after = (dict(os.environ), vars(quilt3.util), vars(quilt3.session), vars(quilt3.api))
        assert after == before
        assert sorted(quilt3.util.BASE_PATH.rglob("*")) == files
        assert list(home.iterdir()) == []

    def test_settings_are_the_worlds_and_then_the_users_again(self) -> None:
        before = Settings().data_dir
        with demo_world() as world:
            assert runtime_context.settings().data_dir == world.directory / "data"
            inside = world.directory
        assert runtime_context.settings().data_dir == before
        assert not inside.exists()

    def test_an_exception_inside_undoes_everything_too(self) -> None:
        environment, threads = dict(os.environ), threading.active_count()
        with pytest.raises(LookupError, match="inside"), demo_world():
            raise LookupError("inside")
        assert dict(os.environ) == environment
        assert threading.active_count() == threads
        with demo_world("empty"):
            assert quilt3.admin.users.list()

    def test_moto_is_left_as_it_was(self) -> None:
        def places() -> list[object]:
            return [
                dict(moto.athena.urls.url_paths),
                dict(moto.glue.urls.url_paths),
                vars(access_control)["IAMRequest"],
            ]

        before = places()
        with moto_gaps.filled():
            inside = places()
            with moto_gaps.filled():
                assert places() == inside
            assert places() == inside
        assert places() == before
        assert all(changed != original for changed, original in zip(inside, before, strict=True))

    def test_a_world_cannot_be_entered_from_within_a_world(self, admin: World) -> None:
        with pytest.raises(RuntimeError, match="already"), demo_world("empty"):
            pass
        assert quilt3.session.get_registry_url() == admin.url

    def test_an_unknown_world_is_refused(self) -> None:
        with pytest.raises(ValueError, match="signed_out"), demo_world("nowhere"):
            pass

    def test_one_world_after_another(self) -> None:
        seen = []
        for name in (*WORLDS, *reversed(WORLDS)):
            with demo_world(name) as world:
                seen.append((name, quilt3.logged_in() is not None, world.company.stack_name))
        assert seen == seen[::-1]


def everything(world: World) -> str:
    """What quilt3 and boto3 say of a world, as text."""
    athena, s3 = aws("athena"), aws("s3")
    ids = athena.list_query_executions(WorkGroup=RESEARCHER)["QueryExecutionIds"]
    answers = [
        aws("sts").get_caller_identity(),
        s3.list_buckets()["Buckets"],
        aws("glue").get_databases()["DatabaseList"],
        athena.batch_get_query_execution(QueryExecutionIds=ids)["QueryExecutions"],
        quilt3.admin.users.list(),
        quilt3.admin.roles.list(),
        workflow_service.workflow_get_status("quarterly-aggregation"),
        quilt3.util.load_config(),
    ]
    for answer in answers:
        if isinstance(answer, dict):
            answer.pop("ResponseMetadata", None)
    text = json.dumps(answers, default=str, indent=1)
    return text.replace(world.url, "<url>").replace(str(world.directory), "<directory>")


def test_twice_the_same_world_gives_the_same_answers() -> None:
    texts = []
    for _ in range(2):
        with time_machine.travel("2025-06-02T09:30:00Z", tick=False), demo_world() as world:
            texts.append(everything(world))
    assert texts[0] == texts[1]
    assert "2025-06-02 09:18:00+00:00" in texts[0]
