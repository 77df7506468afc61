"""The tool athena_query: workgroups, catalogs, limits, and callers who leave."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import repeat
from typing import Any

import pytest
from fastmcp import Client
from mcp_types import CallToolResult, TextContent
from moto.athena.models import athena_backends

from quilt_mcp.demo.account import ACCOUNT_ID, REGION
from quilt_mcp.demo.data_lake import PLATFORM, RESEARCHER
from quilt_mcp.demo.moto_gaps.athena import NewExecution
from quilt_mcp.demo.world import World
from quilt_mcp.server import create_server
from quilt_mcp.services.athena_query import QueryWatch
from tests.support.quilt_fakes import NOT_UNDERSTOOD, Athena, answer_queries
from tests.support.waiting import until

Ask = Callable[..., Any]
TIMES: dict[str, Any] = QueryWatch.__init__.__kwdefaults__ or {}
GENES = "SELECT gene_id, count(*) AS n FROM gene_counts GROUP BY gene_id ORDER BY gene_id"


def read_body(answer: CallToolResult) -> dict[str, Any]:
    [content] = answer.content
    assert isinstance(content, TextContent)
    body: dict[str, Any] = json.loads(content.text)
    return body


@pytest.fixture
async def client(fresh_world: World, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Client[Any]]:
    monkeypatch.setitem(TIMES, "pauses", (0.001,))  # between two looks; nothing waits for it to pass
    async with Client(create_server()) as opened:
        yield opened


@pytest.fixture
def ask(client: Client[Any]) -> Ask:
    async def send(sql: str, **given: str) -> dict[str, Any]:
        answer = await client.call_tool_mcp("athena_query", {"sql": sql, **given})
        body = read_body(answer)
        assert answer.is_error == (body.get("success") is False)
        return body

    return send


def list_started() -> list[NewExecution]:
    executions = athena_backends[ACCOUNT_ID][REGION].executions.values()
    return [one for one in executions if isinstance(one, NewExecution)]


def configure(workgroup: str, **changes: object) -> None:
    athena_backends[ACCOUNT_ID][REGION].work_groups[workgroup].configuration |= changes


class TestAnswers:
    async def test_tabulators_catalog_is_found_by_the_table(self, ask: Ask) -> None:
        answer = await ask(GENES)
        assert (answer["status"], answer["rows"][0]) == ("SUCCEEDED", ["ACTA2", 5])
        assert (answer["data_catalog"], answer["database"]) == ("quilt-acme-tabulator", "acme-analysis-results")
        assert (answer["workgroup"], answer["scan_limit_bytes"]) == (PLATFORM, 10 * 2**30)
        assert answer["workgroup_reason"].startswith("It has the name of your role")

    async def test_its_results_have_the_same_rows(self, ask: Ask, client: Client[Any]) -> None:
        answer = await ask(GENES)
        read = (await client.call_tool_mcp("get_resource", {"uri": answer["uri"]})).structured_content or {}
        assert {**read["data"], **{key: answer[key] for key in answer.keys() - read["data"].keys()}} == answer

    @pytest.mark.parametrize(
        ("sql", "given", "catalog", "database"),
        [
            ("SELECT 1", {}, "AwsDataCatalog", "default"),
            ("SELECT 1 FROM run_metrics", {"database": "acme_sequencing"}, "AwsDataCatalog", "acme_sequencing"),
            ("SELECT 1 FROM acme_sequencing.run_metrics", {}, "AwsDataCatalog", "default"),
            ("SELECT 1 FROM run_metrics", {}, "quilt-acme-tabulator", "acme-raw-sequencing"),
            (
                'SELECT 1 FROM "acme-raw-sequencing".run_metrics',
                {},
                "quilt-acme-tabulator",
                "acme-raw-sequencing",
            ),
            (
                'SELECT 1 FROM "quilt-acme-tabulator"."acme-raw-sequencing".run_metrics, acme_sequencing.visits',
                {},
                "AwsDataCatalog",
                "default",
            ),
            (
                "SELECT 1 FROM visits",
                {"data_catalog": "AwsDataCatalog", "database": "acme_sequencing"},
                "AwsDataCatalog",
                "acme_sequencing",
            ),
        ],
    )
    async def test_the_catalog_is_that_of_the_tables(
        self, ask: Ask, sql: str, given: dict[str, str], catalog: str, database: str
    ) -> None:
        answer = await ask(sql, **given)
        assert (answer["data_catalog"], answer["database"]) == (catalog, database)

    async def test_a_mixture_of_catalogs_is_refused_with_the_whole_names(self, ask: Ask) -> None:
        refusal = await ask("SELECT 1 FROM gene_counts, acme_sequencing.visits")
        assert refusal["error"] == "InvalidArguments"
        assert refusal["details"] == '"quilt-acme-tabulator"."acme-analysis-results"."gene_counts"'
        assert list_started() == []

    async def test_a_stack_that_lists_no_tabulator_tables_runs_the_query(
        self, ask: Ask, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        answer_queries(monkeypatch, {"tabulatorBuckets": NOT_UNDERSTOOD})
        answer = await ask("SELECT count(*) FROM acme_sequencing.sample_sheets")
        assert (answer["rows"], answer["columns"][0]["name"]) == ([[3]], "_col0")

    @pytest.mark.parametrize(
        ("sql", "first"),
        [
            ("SHOW TABLES IN acme_sequencing", ["run_metrics"]),
            ("DESCRIBE acme_sequencing.sample_sheets", ["sample_id", "string", ""]),
            ("EXPLAIN SELECT 1", None),
        ],
    )
    async def test_other_statements_run_too(self, ask: Ask, sql: str, first: list[str] | None) -> None:
        answer = await ask(sql)
        assert (answer["status"], bool(answer["rows"])) == ("SUCCEEDED", True)
        assert first is None or answer["rows"][0] == first

    async def test_a_failed_query_has_its_reason(self, ask: Ask) -> None:
        answer = await ask("SELECT nothing FROM acme_sequencing.run_metrics")
        assert (answer["status"], answer["rows"]) == ("FAILED", None)
        assert answer["error"] == "COLUMN_NOT_FOUND: line 1:8: Column 'nothing' cannot be resolved"

    async def test_data_that_the_role_may_not_read_fails_the_query(self, ask: Ask) -> None:
        answer = await ask("SELECT * FROM acme_clinical.visits")
        assert (answer["status"], "s3:GetObject" in answer["error"]) == ("FAILED", True)


class TestWorkgroups:
    async def test_a_workgroup_without_a_place_for_results_is_refused(self, ask: Ask) -> None:
        refusal = await ask("SELECT 1", workgroup="primary")
        assert refusal["message"] == "The workgroup 'primary' has no place for results."
        assert "athena://workgroups" in refusal["suggested_actions"][0]

    async def test_a_workgroup_of_spark_is_refused(self, ask: Ask) -> None:
        version = "PySpark engine version 3"
        configure(RESEARCHER, EngineVersion={"SelectedEngineVersion": version, "EffectiveEngineVersion": version})
        assert "runs Spark" in (await ask("SELECT 1", workgroup=RESEARCHER))["message"]

    async def test_a_disabled_and_an_unknown_one_are_refused(self, ask: Ask) -> None:
        assert (await ask("SELECT 1", workgroup="legacy-etl"))["message"] == "The workgroup 'legacy-etl' is disabled."
        assert (await ask("SELECT 1", workgroup="x"))["message"] == "The workgroup 'x' was not found."

    async def test_without_a_recommended_one_the_caller_must_choose(self, ask: Ask) -> None:
        del athena_backends[ACCOUNT_ID][REGION].work_groups[PLATFORM]
        refusal = await ask("SELECT 1")
        assert (refusal["error"], refusal["suggested_actions"]) == (
            "InvalidArguments",
            ["Read athena://workgroups, and pass `workgroup`."],
        )
        assert (await ask("SELECT 1", workgroup=RESEARCHER))["workgroup_reason"] == "It was given."

    async def test_a_workgroup_that_aws_does_not_describe_can_be_used(self, ask: Ask, fresh_world: World) -> None:
        fresh_world.account.refuse("DataPlatform", "athena:GetWorkGroup")
        assert (await ask("SELECT 1", workgroup=RESEARCHER))["rows"] == [[1]]

    async def test_a_workgroup_that_refuses_is_named(self, ask: Ask, fresh_world: World) -> None:
        fresh_world.account.refuse("DataPlatform", "athena:StartQueryExecution")
        refusal = await ask("SELECT 1")
        assert (refusal["error"], "athena:StartQueryExecution" in refusal["details"]) == ("Unauthorized", True)

    async def test_the_limit_of_a_workgroup_is_said_when_athena_cancels(self, ask: Ask, fresh_world: World) -> None:
        configure(RESEARCHER, BytesScannedCutoffPerQuery=20_000_000)
        fresh_world.account.behaviour.run_query = lambda _: [("RUNNING", 0), ("RUNNING", 20_000_001)]
        answer = await ask("SELECT 1", workgroup=RESEARCHER)
        assert (answer["status"], answer["scan_limit_bytes"]) == ("CANCELLED", 20_000_000)
        assert answer["error"] == "Query cancelled! : Bytes scanned limit was exceeded"
        assert "less data" in answer["next_steps"][0]


class TestRefusals:
    @pytest.mark.parametrize(
        "sql", ["DROP TABLE x", "SELECT 1; SELECT 2", "UNLOAD (SELECT 1) TO 's3://x'", f"SELECT '{'x' * 300_000}'", ""]
    )
    async def test_a_statement_that_is_refused_reaches_no_aws(
        self, ask: Ask, sql: str, aws_calls: dict[str, int]
    ) -> None:
        refusal = await ask(sql)
        assert (refusal["error"], bool(refusal["suggested_actions"])) == ("InvalidArguments", True)
        assert aws_calls == {}

    async def test_throttling_is_transient(self, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
        Athena(
            monkeypatch, lambda operation, _: "TooManyRequestsException" if operation == "StartQueryExecution" else None
        )
        refusal = await ask("SELECT 1", workgroup=RESEARCHER)
        assert (refusal["message"], refusal["transient"]) == ("AWS is throttling requests.", True)

    async def test_a_catalog_that_is_unknown_is_refused(self, ask: Ask) -> None:
        refusal = await ask("SELECT 1", data_catalog="nowhere")
        assert refusal["message"] == "Athena does not accept the query."
        assert refusal["details"] == "athena:StartQueryExecution (InvalidRequestException)"


@pytest.fixture
def endless(fresh_world: World) -> None:
    """Let queries run on, and scan 20 GB."""
    fresh_world.account.behaviour.run_query = lambda _: repeat(("RUNNING", 20 * 10**9))


class TestLimits:
    @pytest.mark.usefixtures("endless")
    async def test_a_query_that_scans_too_much_is_stopped(self, ask: Ask) -> None:
        answer = await ask("SELECT 1")
        assert (answer["status"], answer["rows"]) == ("CANCELLED", None)
        assert answer["no_rows_reason"] == (
            "This server stopped the query: it had scanned 20,000,000,000 bytes, and the limit is 10,737,418,240 bytes."
        )
        assert "QUILT_MCP_ATHENA_SCAN_BYTES" in answer["next_steps"][1]
        assert [one.state for one in list_started()] == ["CANCELLED"]

    async def test_a_long_query_is_answered_with_its_uri_and_watched(
        self, fresh_world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        steps = iter([("RUNNING", 0)] * 5)
        fresh_world.account.behaviour.run_query = lambda _: (*steps, *repeat(("RUNNING", 20 * 10**9), 1000))
        monkeypatch.setitem(TIMES, "wait_seconds", 0.0)
        monkeypatch.setitem(TIMES, "watch_seconds", 0.001)
        async with Client(create_server()) as client:
            answer = await client.call_tool_mcp("athena_query", {"sql": "SELECT 1"})
            body = read_body(answer)
            assert (body["status"], body["rows"]) == ("RUNNING", None)
            assert body["next_steps"] == [f"Read {body['uri']} again in ten seconds."]
            [started] = list_started()
            await until(lambda: started.state == "CANCELLED")

    async def test_a_query_that_athena_does_not_describe_any_more_is_forgotten(
        self, fresh_world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        fresh_world.account.behaviour.run_query = lambda _: repeat(("RUNNING", 0))
        monkeypatch.setitem(TIMES, "watch_seconds", 0.001)
        code = "InternalServerException"
        athena = Athena(monkeypatch, lambda operation, _: code if operation == "GetQueryExecution" else None)
        async with Client(create_server()) as client:
            answer = await client.call_tool_mcp("athena_query", {"sql": "SELECT 1"})
            assert read_body(answer)["message"] == "AWS could not process the request."
            await until(lambda: "is no longer watched" in caplog.text)
        assert athena.calls["StopQueryExecution"] == 0

    async def test_what_still_runs_is_stopped_with_the_server(
        self, fresh_world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fresh_world.account.behaviour.run_query = lambda _: repeat(("RUNNING", 0))
        monkeypatch.setitem(TIMES, "wait_seconds", 0.0)
        async with Client(create_server()) as client:
            await client.call_tool_mcp("athena_query", {"sql": "SELECT 1"})
            assert [one.state for one in list_started()] == ["RUNNING"]
        assert [one.state for one in list_started()] == ["CANCELLED"]

    async def test_a_query_whose_caller_leaves_is_stopped(self, client: Client[Any], fresh_world: World) -> None:
        fresh_world.account.behaviour.run_query = lambda _: repeat(("RUNNING", 0))
        call = asyncio.create_task(client.call_tool_mcp("athena_query", {"sql": "SELECT 1"}))
        await until(list_started)
        call.cancel()
        await until(lambda: [one.state for one in list_started()] == ["CANCELLED"])

    async def test_a_query_that_another_cancels_is_answered(self, ask: Ask, fresh_world: World) -> None:
        def run(_: str) -> Iterator[tuple[str, int]]:
            yield ("RUNNING", 0)
            yield ("CANCELLED", 5)

        fresh_world.account.behaviour.run_query = run
        answer = await ask("SELECT 1")
        assert (answer["status"], answer["data_scanned_bytes"]) == ("CANCELLED", 5)
        assert "cancelled" in answer["no_rows_reason"]


class TestSettings:
    async def test_the_tool_can_be_turned_off(self, fresh_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("QUILT_MCP_ATHENA_QUERIES", "off")
        async with Client(create_server()) as client:
            assert "athena_query" not in {tool.name for tool in await client.list_tools()}

    async def test_it_says_that_it_is_not_read_only(self, client: Client[Any]) -> None:
        [tool] = [tool for tool in (await client.list_tools_mcp()).tools if tool.name == "athena_query"]
        assert tool.annotations is not None
        assert (tool.annotations.read_only_hint, tool.annotations.destructive_hint) == (False, False)
