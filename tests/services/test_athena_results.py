"""athena://query/{execution_id}/results and athena://query/history, with queries and results of every kind."""

from itertools import count
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import pytest
from moto.athena.models import athena_backends
from moto.s3.models import s3_backends

from quilt_mcp.core import cursors
from quilt_mcp.core.answers import to_json
from quilt_mcp.demo.account import ACCOUNT_ID, REGION
from quilt_mcp.demo.data_lake import RESEARCHER
from quilt_mcp.demo.moto_gaps.athena import AthenaAnswers, RecordedExecution
from quilt_mcp.demo.query_engine import Result, ResultColumn
from quilt_mcp.demo.records import Query
from quilt_mcp.demo.world import World
from quilt_mcp.services import athena_results
from tests.support.python_caller import read, read_error
from tests.support.quilt_fakes import Athena

RUNS, RUNNING, FAILED, SHOWN = (f"0d9f4b52-6c1e-4f0a-9a37-2b8f5e10c00{number}" for number in (1, 2, 3, 5))
HISTORY = "athena://query/history"


def name(execution_id: str, **given: str) -> str:
    asked = "&".join(f"{key}={quote(value, safe='')}" for key, value in given.items())
    return f"athena://query/{execution_id}/results{'?' if asked else ''}{asked}"


class Canned:
    """An engine that always has the same result."""

    def __init__(self, columns: dict[str, str], rows: list[list[str | None]]) -> None:
        self.result = Result([ResultColumn(*one) for one in columns.items()], rows)

    def run(self, sql: str, database: str, catalog: str) -> Result:
        return self.result


@pytest.fixture
def respond(fresh_world: World, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let every query have this result."""

    def set_result(columns: dict[str, str], rows: list[list[str | None]]) -> None:
        monkeypatch.setattr(AthenaAnswers, "engine", Canned(columns, rows))

    return set_result


def add_query(record: Query) -> RecordedExecution:
    athena = athena_backends[ACCOUNT_ID][REGION]
    made = RecordedExecution(record, athena.work_groups[record.work_group], 0.0, "s3://acme-athena-results/")
    athena.executions[record.id] = made
    return made


async def read_all(execution_id: str, limit: int = 50) -> list[list[Any]]:
    """Return the rows of all pages, and check that each says where it starts."""
    rows: list[list[Any]] = []
    page = await read(name(execution_id, limit=str(limit)))
    while True:
        assert page["rows_before"] == len(rows)
        assert len(page["rows"]) <= limit
        rows += page["rows"]
        if page["next_cursor"] is None:
            return rows
        page = await read(name(execution_id, limit=str(limit), cursor=page["next_cursor"]))


@pytest.mark.usefixtures("fresh_world")
class TestStates:
    async def test_the_rows_of_a_query_are_true(self) -> None:
        answer = await read(name(RUNS))
        assert answer["columns"] == [{"name": "run", "type": "varchar"}, {"name": "q30", "type": "double"}]
        assert answer["rows"][0] == ["250519", 0.8825]
        assert (answer["status"], answer["next_cursor"], answer["no_rows_reason"]) == ("SUCCEEDED", None, None)
        assert (answer["total_time_ms"], answer["queue_time_ms"]) == (4140, 140)
        assert (answer["data_catalog"], answer["database"]) == ("AwsDataCatalog", "acme_sequencing")

    async def test_a_show_has_texts(self) -> None:
        answer = await read(name(SHOWN))
        assert (answer["columns"], answer["rows"]) == ([{"name": "tab_name", "type": "string"}], [])

    async def test_a_running_query_says_when_to_read_again(self) -> None:
        answer = await read(name(RUNNING))
        assert (answer["rows"], answer["columns"], answer["no_rows_reason"]) == (None, None, "The query is running.")
        assert answer["next_steps"] == [f"Read {name(RUNNING)} again in ten seconds."]

    async def test_a_failed_query_has_the_reason_of_athena(self) -> None:
        answer = await read(name(FAILED))
        assert answer["rows"] is None
        assert answer["error"].startswith("TABLE_NOT_FOUND: line 1:15")

    @pytest.mark.parametrize("unknown", ["0d9f4b52-6c1e-4f0a-9a37-2b8f5e10c999", "session-1", "x"])
    async def test_an_unknown_id_is_not_found(self, unknown: str) -> None:
        error = await read_error(name(unknown))
        assert (error.error, error.message) == ("NotFound", f"Athena has no query '{unknown}'.")
        assert "Spark" in str(error.details)
        assert HISTORY in error.suggested_actions[0]


STATES = {"QUEUED": "waits in Athena's queue", "CANCELLED": "was cancelled", "": "did not say"}


@pytest.mark.parametrize("state", STATES)
async def test_each_state_without_rows_is_explained(
    state: str, fresh_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = add_query(Query("q-1", RESEARCHER, "default", "SELECT 1", 1, 1, failure="Query cancelled by user"))
    described = made.describe()
    status = {"State": state, "StateChangeReason": "Query cancelled by user"} if state else {}
    monkeypatch.setattr(made, "describe", lambda: described | {"Status": status})
    answer = await read(name("q-1"))
    assert STATES[state] in answer["no_rows_reason"]
    assert answer["error"] == ("Query cancelled by user" if state == "CANCELLED" else None)
    assert answer["next_steps"]


async def test_values_have_their_types(respond: Any) -> None:
    values: dict[str, tuple[str | None, object]] = {
        "tinyint": ("-1", -1),
        "integer": ("7", 7),
        "bigint": ("9223372036854775807", 9223372036854775807),
        "double": ("1.840021E7", 18400210.0),
        "float": ("-0.5", -0.5),
        "real": ("NaN", "NaN"),
        "boolean": ("false", False),
        "decimal": ("1.50", "1.50"),
        "varchar": ("12", "12"),
        "char": (None, None),
        "date": ("1969-07-20", "1969-07-20"),
        "timestamp": ("0001-01-01 00:00:00.000", "0001-01-01 00:00:00.000"),
        "array": ("[1, null]", "[1, null]"),
        "map": ("{a=1}", "{a=1}"),
        "row": ("{x=1, y=[]}", "{x=1, y=[]}"),
        "varbinary": ("65 66", "65 66"),
        "a type of later": ("?", "?"),
    }
    respond({kind: kind for kind in values}, [[sent for sent, _ in values.values()]])
    assert (await read(name(RUNS)))["rows"] == [[expected for _, expected in values.values()]]


@pytest.mark.parametrize("text", ["Infinity", "-Infinity", "NaN", "1e999", "not a number"])
async def test_what_json_does_not_have_is_a_text(respond: Any, text: str) -> None:
    respond({"a": "double", "b": "bigint", "c": "boolean"}, [[text, text, text]])
    assert (await read(name(RUNS)))["rows"] == [[text, text, text]]


@pytest.mark.parametrize("padding", ["", "x" * 1000], ids=["short token", "long token"])
@pytest.mark.parametrize("limit", [7, 50, 200])
async def test_pages_have_each_row_once(respond: Any, fresh_world: World, limit: int, padding: str) -> None:
    fresh_world.account.behaviour.pad_token = padding
    rows: list[list[str | None]] = [[str(number), "x" * (number % 50)] for number in range(403)]
    respond({"n": "integer", "text": "varchar"}, rows)
    assert await read_all(RUNS, limit) == [[int(str(number)), text] for number, text in rows]


async def test_a_page_ends_at_its_characters(respond: Any) -> None:
    """The first page of Athena has short rows, so that a later page of ours starts inside of its second one."""
    rows: list[list[str | None]] = [[str(number), "ä" * (1900 if number >= 50 else 1)] for number in range(130)]
    respond({"n": "integer", "text": "varchar"}, rows)
    page = await read(name(RUNS))
    assert len(page["rows"]) == 50
    page = await read(name(RUNS, cursor=page["next_cursor"]))
    assert 15 <= len(page["rows"]) < 20
    assert len(to_json(page)) <= 40_000
    assert [row[0] for row in await read_all(RUNS)] == [*range(130)]


async def test_a_walk_to_a_row_has_a_time_limit(respond: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look at the clock comes 100 seconds after the one before."""
    respond({"n": "integer"}, [[str(number)] for number in range(3000)])
    monkeypatch.setattr(athena_results, "time", SimpleNamespace(monotonic=count(0, 100).__next__))
    cursor = cursors.encode("1500 0 ", cursors.compute_tag("query results", RUNS))
    error = await read_error(name(RUNS, cursor=cursor))
    assert (error.message, error.transient) == ("The rows before this page were not read in time.", True)
    assert str(error.details).startswith("999 of 1500 rows.")


async def test_a_million_rows_are_read_by_pages(respond: Any, fresh_world: World) -> None:
    respond({"n": "integer"}, [[str(number)] for number in range(1_000_000)])
    page = await read(name(RUNS))
    seen = 50
    for _ in range(3):
        page = await read(name(RUNS, cursor=page["next_cursor"]))
        assert page["rows"][0] == [seen]
        seen += 50
    assert page["next_cursor"]


async def test_a_wide_result_is_cut_with_a_flag(respond: Any) -> None:
    respond({f"column_{number}": "varchar" for number in range(1000)}, [["x" * 500] * 1000, [None] * 1000])
    page = await read(name(RUNS))
    assert (page["column_count"], len(page["columns"]), page.get("columns_truncated")) == (1000, 100, True)
    assert ([len(row) for row in page["rows"]], page["rows"][1][0]) == ([100, 100], None)
    assert (page.get("values_truncated"), page["value_length"], len(page["rows"][0][0])) == (100, 200, 200)
    assert page["next_steps"] == [f"Select fewer columns, or read the file at {page['output_location']}."]
    assert len(to_json(page)) <= 40_000


async def test_a_row_that_equals_the_names_is_a_row_of_show_and_not_of_select(respond: Any, fresh_world: World) -> None:
    respond({"tab_name": "string"}, [["tab_name"], ["b"]])
    assert (await read(name(SHOWN)))["rows"] == [["tab_name"], ["b"]]
    assert (await read(name(RUNS)))["rows"] == [["tab_name"], ["b"]]  # its first row has the names


async def test_describe_has_its_three_columns(respond: Any) -> None:
    add_query(Query("q-2", RESEARCHER, "acme_sequencing", "DESCRIBE run_metrics", 1, 1))
    columns = dict.fromkeys(("col_name", "data_type", "comment"), "string")
    respond(columns, [["run                 \tstring              \t                    "], ["# Partition"]])
    assert (await read(name("q-2")))["rows"] == [["run", "string", ""], ["# Partition"]]


async def test_a_cursor_of_another_query_is_refused(respond: Any, fresh_world: World) -> None:
    respond({"n": "integer"}, [["1"], ["2"]])
    cursor = (await read(name(RUNS, limit="1")))["next_cursor"]
    other = (await read_error(name("0d9f4b52-6c1e-4f0a-9a37-2b8f5e10c004", cursor=cursor))).error
    assert other == "InvalidTemplateVariable"
    forged = cursors.encode("5 0 no-token-of-athena", cursors.compute_tag("query results", RUNS))
    assert (await read_error(name(RUNS, cursor=forged))).message == "The cursor is not valid for this list."
    assert (await read_error(name(RUNS, limit="0"))).error == "InvalidTemplateVariable"


class TestLostResults:
    async def test_deleted_results_are_explained(self, fresh_world: World) -> None:
        fresh_world.account.behaviour.lost_results = {RUNS}
        answer = await read(name(RUNS))
        assert answer["rows"] is None
        assert answer["no_rows_reason"].startswith("The results were deleted: S3 has no object")
        assert "athena_query" in answer["next_steps"][0]

    async def test_results_that_s3_refuses_are_explained(self, fresh_world: World) -> None:
        fresh_world.account.behaviour.lost_results = {RUNS}
        fresh_world.account.refuse("DataPlatform", "s3:GetObject")
        assert "S3 does not let you see" in (await read(name(RUNS)))["no_rows_reason"]

    async def test_a_refusal_of_athena_with_an_object_is_its_failure(self, fresh_world: World) -> None:
        fresh_world.account.behaviour.lost_results = {RUNS}
        s3 = s3_backends[ACCOUNT_ID]["aws"]
        s3.put_object("acme-athena-results", f"researcher/{RUNS}.csv", b"run,q30\n")
        error = await read_error(name(RUNS))
        assert (error.error, error.details) == (
            "ResourceExecutionError",
            "athena:GetQueryResults (InvalidRequestException)",
        )

    async def test_managed_results_are_explained(self, fresh_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        fresh_world.account.behaviour.lost_results = {"q-3"}
        made = add_query(Query("q-3", RESEARCHER, "default", "SELECT 1", 1, 1))
        described = made.describe() | {"ManagedQueryResultsConfiguration": {"Enabled": True}}
        del described["ResultConfiguration"]
        monkeypatch.setattr(made, "describe", lambda: described)
        answer = await read(name("q-3"))
        assert "24 hours" in answer["no_rows_reason"]
        assert answer["output_location"] is None


REFUSALS = {"athena:GetQueryExecution": RUNS, "athena:GetQueryResults": RUNS, "s3:GetObject": RUNS}


@pytest.mark.parametrize("action", REFUSALS)
async def test_a_refusal_names_the_action(action: str, fresh_world: World) -> None:
    fresh_world.account.refuse("DataPlatform", action)
    error = await read_error(name(RUNS))
    assert (error.error, action in str(error.details)) == ("Unauthorized", True)


async def test_throttling_is_transient(fresh_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    Athena(monkeypatch, lambda operation, _: "ThrottlingException" if operation == "GetQueryResults" else None)
    error = await read_error(name(RUNS))
    assert (error.message, error.transient) == ("AWS is throttling requests.", True)


@pytest.mark.usefixtures("fresh_world")
class TestHistory:
    async def test_each_row_leads_to_its_results(self) -> None:
        rows = (await read(HISTORY))["query_history"]
        assert {row["uri"] for row in rows} == {name(row["query_execution_id"]) for row in rows}
        assert [(await read(row["uri"]))["query"] for row in rows[:3]] == [row["query"] for row in rows[:3]]

    async def test_queries_have_an_order(self) -> None:
        scanned = (await read(f"{HISTORY}?order=scanned"))["query_history"]
        assert [row["data_scanned_bytes"] for row in scanned][:3] == [402_653_184, 18_874_368, 1_048_576]
        slowest = await read(f"{HISTORY}?order=slowest")
        assert [row["total_time_ms"] for row in slowest["query_history"]][:2] == [9140, 4140]
        assert slowest["query_history"][-1]["total_time_ms"] is None
        assert slowest["order"] == "slowest"

    async def test_queries_are_selected(self) -> None:
        failed = await read(f"{HISTORY}?status=FAILED")
        assert [row["query_execution_id"] for row in failed["query_history"]] == [FAILED]
        own = await read(f"{HISTORY}?workgroup={RESEARCHER}&order=scanned")
        assert (own["workgroup"], own["workgroups"], own["count"]) == (RESEARCHER, [RESEARCHER], 3)
        spark = await read(f"{HISTORY}?workgroup=primary&status=CANCELLED")
        assert (spark["query_history"], spark["status"]) == ([], "CANCELLED")

    async def test_it_says_that_aws_does_not_tell_who(self) -> None:
        assert (await read(HISTORY))["note"].startswith("AWS does not tell who submitted a query.")

    @pytest.mark.parametrize(
        ("asked", "expected"),
        [
            ("order=largest", "`order` must be one of: newest, scanned, slowest."),
            ("status=failed", "`status` must be one of: QUEUED, RUNNING, SUCCEEDED, FAILED, CANCELLED."),
            ("workgroup=nowhere", "The workgroup 'nowhere' was not found."),
        ],
    )
    async def test_other_values_are_refused(self, asked: str, expected: str) -> None:
        assert (await read_error(f"{HISTORY}?{asked}")).message == expected


async def test_a_refused_workgroup_is_refused(fresh_world: World) -> None:
    fresh_world.account.refuse("DataPlatform", "athena:ListQueryExecutions")
    error = await read_error(f"{HISTORY}?workgroup={RESEARCHER}")
    assert (error.error, "athena:ListQueryExecutions" in str(error.details)) == ("Unauthorized", True)


async def test_what_aws_did_not_say_is_null(fresh_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    made = add_query(Query("q-4", RESEARCHER, "default", "SELECT 1", 1, 1))
    monkeypatch.setattr(made, "describe", lambda: {"QueryExecutionId": "q-4", "Status": {"State": "RUNNING"}})
    [row] = [one for one in (await read(HISTORY))["query_history"] if one["query_execution_id"] == "q-4"]
    unknown = ("query", "data_catalog", "database", "workgroup", "total_time_ms", "queue_time_ms", "data_scanned_bytes")
    assert {key: row[key] for key in unknown} == dict.fromkeys(unknown)


async def test_a_workgroup_says_its_engine_and_its_limit(fresh_world: World) -> None:
    groups = athena_backends[ACCOUNT_ID][REGION].work_groups
    groups["primary"].configuration["EngineVersion"] = {
        "SelectedEngineVersion": "PySpark engine version 3",
        "EffectiveEngineVersion": "PySpark engine version 3",
    }
    rows = {row["name"]: row for row in (await read("athena://workgroups"))["workgroups"]}
    assert (rows["primary"]["engine"], rows["primary"]["is_spark"]) == ("PySpark engine version 3", True)
    adhoc = rows["analytics-adhoc"]
    assert (adhoc["engine"], adhoc["is_spark"]) == ("Athena engine version 3", False)
    assert (adhoc["scan_limit_bytes"], rows["primary"]["scan_limit_bytes"]) == (1_099_511_627_776, None)
