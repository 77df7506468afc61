"""The demo world, used with plain quilt3 and boto3."""

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from http.server import ThreadingHTTPServer
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
import yaml
from botocore.exceptions import ClientError, NoCredentialsError
from fastmcp import Client
from moto.iam import access_control

# quilt3 has no public name for its GraphQL errors
from quilt_mcp.app import App, default_app
from quilt_mcp.demo import moto_gaps
from quilt_mcp.demo.http_server import Answer, LoopbackServer
from quilt_mcp.demo.stack import Call
from quilt_mcp.demo.world import World
from quilt_mcp.server import create_server
from quilt_mcp.workflows import service as workflow_service
from quilt_mcp.workflows.sample import SAMPLES, Sample, write_workflows
from quilt_mcp.workflows.service import Workflows
from tests.support import apps
from tests.support.settings import Settings
from tests.support.waiting import SECONDS
from tests.support.worlds import NOW, demo_world, enter_stopped
from tests.worlds.table import WORLDS

BUCKETS = {
    "acme-raw-sequencing": {"admin": "read write", "member": "read"},
    "acme-analysis-results": {"admin": "read write", "member": "read write"},
    "acme-clinical-trials": {"admin": "list", "member": "none"},
    "acme-imaging-eu": {"admin": "read", "member": "list"},
    "acme-partner-exchange": {"admin": "read", "member": "none"},
    "acme-finance-archive": {"admin": "none", "member": "none"},
    "acme-athena-results": {"admin": "read write", "member": "read write"},
}
ME = "{ me { name email isAdmin role { name } roles { name } } }"
RESEARCHER = "QuiltUserAthena-acme-Researcher"


@pytest.fixture
def admin() -> Iterator[World]:
    with enter_stopped("admin") as world:
        yield world


@pytest.fixture(scope="class")
def unchanged_world() -> Iterator[World]:
    """The admin world, for classes of tests that only read."""
    with enter_stopped("admin") as world:
        yield world


@pytest.fixture(scope="class")
def athena(unchanged_world: World) -> Any:
    assert unchanged_world.name == "admin"
    return create_client("athena")


@pytest.fixture
def member() -> Iterator[World]:
    with enter_stopped("member") as world:
        yield world


def create_client(service: str) -> Any:
    return quilt3.get_boto3_session().client(service)


def try_call(call: Callable[[], object]) -> str:
    try:
        call()
    except ClientError as error:
        return str(error.response["Error"]["Code"])
    return "allowed"


def get_refusal(call: Callable[[], object]) -> str:
    code = try_call(call)
    assert code != "allowed"
    return code


def find_right(s3: Any, bucket: str) -> str:
    """Return the caller's right in a bucket, found with requests of a client."""
    if (listing := try_call(lambda: s3.head_bucket(Bucket=bucket))) != "allowed":
        return {"403": "none"}[listing]
    if get_refusal(lambda: s3.head_object(Bucket=bucket, Key="missing")) == "403":
        return "list"
    write = get_refusal(lambda: s3.put_object(Bucket=bucket, Key="missing", Body=b"", IfMatch='"0"'))
    return {"NoSuchKey": "read write", "AccessDenied": "read"}[write]


class TestRights:
    @pytest.mark.parametrize("name", ["admin", "member"])
    def test_each_bucket_has_the_seeded_rights(self, name: str) -> None:
        with enter_stopped(name):
            s3 = create_client("s3")
            assert {bucket: find_right(s3, bucket) for bucket in BUCKETS} == {
                bucket: rights[name] for bucket, rights in BUCKETS.items()
            }

    def test_the_account_lists_only_its_own_buckets_and_only_with_the_right(self, admin: World) -> None:
        listed = {bucket["Name"] for bucket in create_client("s3").list_buckets()["Buckets"]}
        assert listed == BUCKETS.keys() - {"acme-partner-exchange"}
        admin.account.refuse("DataPlatform", "s3:ListAllMyBuckets")
        assert get_refusal(create_client("s3").list_buckets) == "AccessDenied"

    @pytest.mark.usefixtures("admin")
    def test_a_client_is_redirected_to_the_region_of_a_bucket(self) -> None:
        s3, hosts = create_client("s3"), []
        s3.meta.events.register("before-send.s3", lambda request, **_: hosts.append(request.url.split("/")[2]))
        assert s3.head_bucket(Bucket="acme-imaging-eu")["BucketRegion"] == "eu-west-1"
        assert hosts == ["acme-imaging-eu.s3.amazonaws.com", "acme-imaging-eu.s3.eu-west-1.amazonaws.com"]
        assert s3.get_object(Bucket="acme-imaging-eu", Key="README.md")["Body"].read() == b"# Imaging\n"

    def test_a_missing_key_is_forbidden_without_list_bucket(self, admin: World) -> None:
        admin.account.refuse("DataPlatform", "s3:ListBucket")
        s3, place = create_client("s3"), {"Bucket": "acme-raw-sequencing", "Key": "missing"}
        assert get_refusal(lambda: s3.head_object(**place)) == "403"
        assert get_refusal(lambda: s3.get_object(**place)) == "AccessDenied"
        assert s3.get_object(Bucket="acme-raw-sequencing", Key="README.md")["ContentLength"] > 0

    @pytest.mark.usefixtures("member")
    def test_a_bucket_that_does_not_exist_is_not_found(self) -> None:
        s3 = create_client("s3")
        assert get_refusal(lambda: s3.head_bucket(Bucket="acme-nowhere")) == "404"
        assert get_refusal(lambda: s3.list_objects_v2(Bucket="acme-nowhere")) == "NoSuchBucket"
        assert get_refusal(lambda: s3.get_object(Bucket="acme-nowhere", Key="missing")) == "NoSuchBucket"

    def test_a_refusal_by_glue_names_the_action_and_the_resource(self, admin: World) -> None:
        admin.account.refuse("DataPlatform", "glue:GetDatabases")
        with pytest.raises(ClientError) as caught:
            create_client("glue").get_databases()
        assert caught.value.response["Error"] == {
            "Code": "AccessDeniedException",
            "Message": "User: arn:aws:sts::123456789012:assumed-role/Quilt-DataPlatform/amara_osei is not authorized"
            " to perform: glue:GetDatabases on resource: arn:aws:glue:us-east-1:123456789012:catalog"
            " with an explicit deny in an identity-based policy",
        }

    @pytest.mark.parametrize(
        ("service", "operation", "code"),
        [
            ("athena", "list_work_groups", "UnrecognizedClientException"),
            ("s3", "list_buckets", "InvalidAccessKeyId"),
        ],
    )
    @pytest.mark.usefixtures("admin")
    def test_unknown_access_keys_are_refused(self, service: str, operation: str, code: str) -> None:
        stranger = boto3.Session("AKIAI44QH8DHBEXAMPLE", "made-up", region_name="us-east-1").client(service)
        assert get_refusal(getattr(stranger, operation)) == code

    def test_a_member_may_use_only_some_workgroups(self, member: World) -> None:
        athena = create_client("athena")
        assert len(athena.list_work_groups()["WorkGroups"]) == len(member.company.work_groups)
        assert len(athena.list_query_executions(WorkGroup=RESEARCHER)["QueryExecutionIds"]) == 3
        assert athena.get_work_group(WorkGroup="analytics-adhoc")["WorkGroup"]["State"] == "ENABLED"
        for call in (
            lambda: athena.list_query_executions(WorkGroup="analytics-adhoc"),
            lambda: athena.get_work_group(WorkGroup="primary"),
            lambda: athena.batch_get_query_execution(QueryExecutionIds=[member.company.queries[5].id]),
        ):
            assert get_refusal(call) == "AccessDeniedException"


class TestAthenaAndGlue:
    def test_athena_lists_the_databases_of_tabulator(self, athena: Any) -> None:
        assert athena.get_data_catalog(Name="quilt-acme-tabulator")["DataCatalog"]["Type"] == "LAMBDA"
        tabulated = athena.list_databases(CatalogName="quilt-acme-tabulator")["DatabaseList"]
        assert [row["Name"] for row in tabulated] == ["acme-analysis-results", "acme-raw-sequencing"]
        assert get_refusal(lambda: athena.get_data_catalog(Name="none")) == "InvalidRequestException"

    def test_workgroups_have_pages_and_fixed_dates(self, athena: Any, unchanged_world: World) -> None:
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
        assert get_refusal(lambda: athena.get_work_group(WorkGroup="none")) == "InvalidRequestException"

    def test_queries_of_a_workgroup_are_listed_newest_first(self, athena: Any) -> None:
        ids = athena.list_query_executions(WorkGroup=RESEARCHER)["QueryExecutionIds"]
        assert [query_id[-1] for query_id in ids] == ["2", "1", "3"]
        assert [query_id[-1] for query_id in athena.list_query_executions()["QueryExecutionIds"]] == ["6"]
        pages = athena.get_paginator("list_query_executions").paginate(
            WorkGroup=RESEARCHER, PaginationConfig={"PageSize": 2}
        )
        assert [len(page["QueryExecutionIds"]) for page in pages] == [2, 1]
        assert get_refusal(lambda: athena.list_query_executions(MaxResults=51)) == "InvalidRequestException"
        assert get_refusal(lambda: athena.list_query_executions(WorkGroup="none")) == "InvalidRequestException"

    def test_unknown_queries_and_too_many_are_refused(self, athena: Any) -> None:
        first, *_ = athena.list_query_executions(WorkGroup=RESEARCHER)["QueryExecutionIds"]
        answer = athena.batch_get_query_execution(QueryExecutionIds=[first, "unknown"])
        assert [row["QueryExecutionId"] for row in answer["UnprocessedQueryExecutionIds"]] == ["unknown"]
        too_many = [f"q{number}" for number in range(51)]
        refused = get_refusal(lambda: athena.batch_get_query_execution(QueryExecutionIds=too_many))
        assert refused == "InvalidRequestException"


class TestStack:
    def test_requests_are_logged_without_tokens(self, admin: World) -> None:
        assert admin.stack.calls == []
        quilt3.admin.users.list()
        assert admin.stack.calls == [
            # a field of a tuple
            Call("POST", "/graphql", "usersList", "quilt-registry.acme.example.com", True, "amara_osei")  # noqa: FBT003 - the fields in their order
        ]

    def test_responses_can_be_delayed_and_leaving_does_not_wait(self) -> None:
        with demo_world() as world:
            world.stack.delay_seconds = 600
            with pytest.raises(requests.ReadTimeout):
                requests.get(f"{world.url}/config.json", timeout=0.05)

    def test_an_expired_token_is_rejected_and_can_be_renewed(self, admin: World) -> None:
        admin.stack.grants["demo-access-1"].expires_at = time.time() - 1
        with pytest.raises(quilt3.util.QuiltException, match="Authentication failed"):
            quilt3.admin.users.list()
        assert admin.user is not None
        quilt3.session.login_with_token(admin.stack.sign_in(admin.user))
        assert quilt3.admin.users.list()
        assert [call.path for call in admin.stack.calls].count("/api/token") == 1

    def test_a_refresh_token_can_be_revoked(self, admin: World) -> None:
        admin.stack.refresh_tokens.clear()
        with pytest.raises(quilt3.util.QuiltException, match="401"):
            quilt3.session.login_with_token("demo-refresh-1")

    def test_an_unknown_token_gets_401_and_an_unknown_path_404(self, admin: World) -> None:
        stranger = {"Authorization": "Bearer made-up"}
        keys_url = f"{admin.registry_url}/api/auth/get_credentials"
        assert requests.get(keys_url, headers=stranger, timeout=60).status_code == 401
        assert (
            requests.post(f"{admin.registry_url}/graphql", data=b"{}", headers=stranger, timeout=60).status_code == 401
        )
        assert requests.get(f"{admin.url}/nowhere", timeout=60).status_code == 404


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """An empty home directory, and an environment with variables that a world must not use."""
    monkeypatch.setenv("AWS_PROFILE", "payroll")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAI44QH8DHBEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "theirs")
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:1/")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("HOME", str(tmp_path))
    yield tmp_path
    monkeypatch.undo()
    apps.use_settings(Settings())


class TestIsolation:
    @pytest.mark.soak
    def test_the_users_files_and_environment_are_not_used_or_changed(self, home: Path) -> None:
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

    def test_the_default_app_has_the_worlds_settings_and_is_restored(self) -> None:
        before = default_app.get()
        with demo_world() as world:
            assert default_app.get().settings_as(Settings).data_dir == world.directory / "data"
        assert default_app.get() is before
        assert not world.directory.exists()

    def test_an_app_that_is_registered_in_a_world_is_not_left_behind(self) -> None:
        before = default_app.get()
        with demo_world():
            apps.use_settings(Settings(deadline_seconds=20))
            in_world = default_app.get()
        default_app.register()  # forgets the app, so that the next use makes a new one
        assert default_app.get() not in {before, in_world}
        assert default_app.get().settings_as(Settings).data_dir == before.settings_as(Settings).data_dir

    async def test_a_server_that_is_created_in_a_world_keeps_its_own_app(self) -> None:
        with demo_world("empty") as world:
            server = create_server()
            async with Client(server) as client:
                inside = await client.read_resource("auth://status")
            assert server.app is not default_app.get()
            assert world.url in inside[0].text
        with demo_world("signed_out"):
            data_dir = server.app.settings_as(Settings).data_dir
            assert data_dir == world.directory / "data"
            assert data_dir != default_app.get().settings_as(Settings).data_dir

    def test_an_exception_in_a_world_restores_everything(self) -> None:
        environment, threads = dict(os.environ), set(threading.enumerate())
        with pytest.raises(LookupError, match="inside"), demo_world():
            raise LookupError("inside")
        assert dict(os.environ) == environment
        assert set(threading.enumerate()) <= threads
        with demo_world("empty"):
            assert quilt3.admin.users.list()

    def test_a_thread_that_has_closed_its_connection_has_ended_with_its_server(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        close, closed, threads = ThreadingHTTPServer.shutdown_request, threading.Event(), set(threading.enumerate())

        def close_and_stay(server: ThreadingHTTPServer, request: Any) -> None:
            close(server, request)
            closed.set()
            time.sleep(0.1)  # as on a machine that stalls

        monkeypatch.setattr(ThreadingHTTPServer, "shutdown_request", close_and_stay)
        server = LoopbackServer(lambda _: Answer(HTTPStatus.OK, {}), 0)
        server.start()
        socket.create_connection(("127.0.0.1", server.port)).close()
        assert closed.wait(SECONDS)
        server.stop()
        assert set(threading.enumerate()) <= threads

    def test_moto_is_restored(self) -> None:
        def read_patched_names() -> list[object]:
            return [
                dict(moto.athena.urls.url_paths),
                dict(moto.glue.urls.url_paths),
                vars(access_control)["IAMRequest"],
            ]

        before = read_patched_names()
        with moto_gaps.fill_gaps():
            inside = read_patched_names()
            with moto_gaps.fill_gaps():
                assert read_patched_names() == inside
            assert read_patched_names() == inside
        assert read_patched_names() == before
        assert all(changed != original for changed, original in zip(inside, before, strict=True))

    def test_a_world_cannot_be_entered_in_a_world(self, admin: World) -> None:
        with pytest.raises(RuntimeError, match="already"), demo_world("empty"):
            pass
        assert quilt3.session.get_registry_url() == admin.registry_url

    def test_an_unknown_world_is_rejected(self) -> None:
        with pytest.raises(ValueError, match="signed_out"), demo_world("nowhere"):
            pass


def test_the_workflows_are_those_that_the_workflow_tools_write(fresh_world: World, tmp_path: Path) -> None:
    with time_machine.travel(datetime(2026, 5, 1, tzinfo=UTC), tick=False):
        first, second = App(Settings(data_dir=tmp_path / "sample")), App(Settings(data_dir=tmp_path / "tools"))
        write_workflows(Settings(data_dir=tmp_path / "sample"), SAMPLES)
        with second.active():
            for workflow in SAMPLES:
                write_with_tools(workflow)
    assert read_workflows(first) == read_workflows(second)
    assert len(read_workflows(first)) == 2


def write_with_tools(workflow: Sample) -> None:
    workflow_service.workflow_create(workflow.id, workflow.name, workflow.description)
    for step in workflow.steps:
        workflow_service.workflow_add_step(workflow.id, step.id, step.description, dependencies=list(step.dependencies))
    for step in workflow.steps:
        for status in step.statuses:
            message = step.message if status == step.statuses[-1] else None
            workflow_service.workflow_update_step(workflow.id, step.id, status, message)


def read_workflows(app: App) -> list[object]:
    with app.active(), app.part(Workflows).reading() as store:
        return [store.load(one) for one in store.ids()]


@pytest.mark.parametrize("name", ["admin", "member", "no_role", "empty", "stack_2022", "signed_out"])
def test_a_world_of_the_tests_has_the_login_that_quilt3_stores(name: str) -> None:
    with time_machine.travel(NOW, tick=False), demo_world(name, plans=WORLDS) as world:
        expected = describe_login(world)
    for _ in range(2):
        with enter_stopped(name) as world:
            assert describe_login(world) == expected


def describe_login(world: World) -> object:
    """Return quilt3's files, who can read them, and the tokens of the stack. Keys of AWS are random."""
    files = [
        (file.name, file.stat().st_mode, yaml.safe_load(file.read_text(encoding="utf-8").replace(place, "")))
        for place in [(world.directory / "quilt").as_uri()]
        for file in sorted((world.directory / "quilt").rglob("*.*"))
    ]
    for _, _, content in files:
        content |= {key: len(content[key]) for key in ("access_key", "secret_key", "token") if key in content}
    return files, world.stack.grants, world.stack.refresh_tokens, world.stack.calls


async def test_a_demo_of_today_has_changes_of_the_last_days_and_a_user() -> None:
    now = datetime.now(UTC).replace(microsecond=0)
    with demo_world(now=now):
        async with Client(create_server()) as client:
            found = {
                path: json.loads((await client.read_resource(f"requirements://{path}"))[0].text)
                for path in (
                    f"changes?since={(now - timedelta(days=7)).date().isoformat()}&limit=200",
                    "changes",
                    "requirements?assignee=me&priority=critical",
                )
            }
    changed, everything, mine = found.values()
    assert 0 < changed["count"] < everything["count"]
    assert changed["changes"][0]["at"] == (now - timedelta(hours=1)).isoformat().replace("+00:00", "Z")
    assert mine["count"] > 0
