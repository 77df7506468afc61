"""The queries of the fake Athena, seen with plain boto3: their states, results, rights and refusals."""

from collections import Counter
from itertools import repeat
from typing import Any

import pytest
import quilt3
from botocore.config import Config
from botocore.exceptions import ClientError

from quilt_mcp.demo.company import ACME
from quilt_mcp.demo.data_lake import PLATFORM, QUERIES, RUN_ROWS
from quilt_mcp.demo.query_engine import GLUE, QueryEngine, ResultColumn
from quilt_mcp.demo.world import World
from tests.support.aws_validation import validate_aws

ONE_TRY = Config(retries={"mode": "standard", "total_max_attempts": 1})
TABULATOR = "quilt-acme-tabulator"


@pytest.fixture
def athena(fresh_world: World) -> Any:
    return quilt3.get_boto3_session().client("athena", config=ONE_TRY)


@pytest.fixture(scope="module")
def engine() -> QueryEngine:
    return QueryEngine(ACME)


def start(athena: Any, sql: str = "SELECT 1", **given: Any) -> str:
    execution_id: str = athena.start_query_execution(QueryString=sql, **({"WorkGroup": PLATFORM} | given))[
        "QueryExecutionId"
    ]
    return execution_id


def find_state(athena: Any, execution_id: str) -> str:
    state: str = athena.get_query_execution(QueryExecutionId=execution_id)["QueryExecution"]["Status"]["State"]
    return state


def find_error(athena: Any, operation: str, **given: Any) -> str:
    with pytest.raises(ClientError) as caught:
        getattr(athena, operation)(**given)
    error = caught.value.response["Error"]
    return f"{error['Code']}: {error['Message']}"


def test_a_query_queues_runs_and_succeeds_and_its_answers_agree_with_the_model(fresh_world: World) -> None:
    with validate_aws() as validation:
        athena = quilt3.get_boto3_session().client("athena", config=ONE_TRY)
        execution_id = start(athena, "SELECT run, count(*) FROM acme_sequencing.run_metrics GROUP BY run ORDER BY run")
        early = find_error(athena, "get_query_results", QueryExecutionId=execution_id)
        assert early == "InvalidRequestException: Query has not yet finished. Current state: QUEUED"
        assert [find_state(athena, execution_id) for _ in range(3)] == ["RUNNING", "SUCCEEDED", "SUCCEEDED"]
        found = athena.get_query_results(QueryExecutionId=execution_id)["ResultSet"]
        rows = [[one["VarCharValue"] for one in row["Data"]] for row in found["Rows"]]
        assert rows[:2] == [["run", "_col1"], ["250428", "6"]]
        athena.stop_query_execution(QueryExecutionId=execution_id)
        assert find_state(athena, execution_id) == "SUCCEEDED"
        assert execution_id in athena.list_query_executions(WorkGroup=PLATFORM)["QueryExecutionIds"]
    assert validation.faults == set()


def test_results_have_pages(athena: Any) -> None:
    execution_id = start(athena, "SELECT n FROM UNNEST(sequence(1, 5)) AS t(n)")
    while find_state(athena, execution_id) != "SUCCEEDED":
        pass
    sizes = [
        len(page["ResultSet"]["Rows"])
        for page in athena.get_paginator("get_query_results").paginate(
            QueryExecutionId=execution_id, PaginationConfig={"PageSize": 4}
        )
    ]
    assert sizes == [4, 2]
    assert "MaxResults" in find_error(athena, "get_query_results", QueryExecutionId=execution_id, MaxResults=1001)
    token = find_error(athena, "get_query_results", QueryExecutionId=execution_id, NextToken="x")
    assert token.startswith("InvalidRequestException")


def test_the_same_token_starts_one_query(athena: Any) -> None:
    token = "0123456789abcdef0123456789abcdef"
    assert start(athena, ClientRequestToken=token) == start(athena, ClientRequestToken=token) != start(athena)


def test_a_running_query_can_be_stopped(athena: Any, fresh_world: World) -> None:
    fresh_world.account.behaviour.run_query = lambda _: repeat(("RUNNING", 7))
    execution_id = start(athena)
    athena.stop_query_execution(QueryExecutionId=execution_id)
    found = athena.get_query_execution(QueryExecutionId=execution_id)["QueryExecution"]
    assert found["Status"]["StateChangeReason"] == "Query cancelled by user"
    assert (found["Status"]["State"], found["Statistics"]["DataScannedInBytes"]) == ("CANCELLED", 7)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"WorkGroup": "nowhere"}, "WorkGroup nowhere is not found."),
        ({"WorkGroup": "legacy-etl"}, "WorkGroup legacy-etl is disabled."),
        ({"WorkGroup": "primary"}, "No output location provided."),
        ({"QueryExecutionContext": {"Catalog": "nowhere"}}, "DataCatalog nowhere was not found"),
        ({"QueryString": "x" * 262_145}, "QueryString must have 1 to 262144 bytes"),
    ],
)
def test_a_query_that_athena_does_not_accept_is_refused(athena: Any, given: dict[str, Any], expected: str) -> None:
    sent = {"QueryString": "SELECT 1", "WorkGroup": PLATFORM} | given
    refusal = find_error(athena, "start_query_execution", **sent)
    assert refusal.startswith(f"InvalidRequestException: {expected}")


def test_each_action_needs_its_right(athena: Any, fresh_world: World) -> None:
    execution_id = start(athena)
    for operation, action in (
        ("get_query_execution", "athena:GetQueryExecution"),
        ("get_query_results", "athena:GetQueryResults"),
        ("stop_query_execution", "athena:StopQueryExecution"),
    ):
        fresh_world.account.refuse("DataPlatform", action)
        refusal = find_error(athena, operation, QueryExecutionId=execution_id)
        assert refusal.startswith(f"AccessDeniedException: You are not authorized to perform: {action}")
    fresh_world.account.refuse("DataPlatform", "s3:GetObject")
    fresh_world.account.refuse("DataPlatform", "glue:GetTable")
    denied = start(athena, "SELECT 1 FROM acme_sequencing.run_metrics")
    states = [find_state(athena, denied) for _ in range(3)]
    assert states[-1] == "FAILED"
    reason = athena.get_query_execution(QueryExecutionId=denied)["QueryExecution"]["Status"]["StateChangeReason"]
    assert "glue:GetTable" in reason


def test_the_recorded_queries_have_true_results(engine: QueryEngine) -> None:
    for query in QUERIES:
        result = engine.run(query.sql, query.database, query.catalog)
        expected = query.failure or ("NOT_SUPPORTED" if query.sql.startswith("MSCK") else None)
        assert (result.failure or "").startswith(expected or "")
        assert bool(result.failure) == bool(expected), query.sql


def test_tables_have_the_data_of_records_and_of_packages(engine: QueryEngine) -> None:
    counted = engine.run("SELECT run, count(*) FROM run_metrics GROUP BY run ORDER BY run", "acme_sequencing")
    assert [*counted.rows] == [[run, str(n)] for run, n in sorted(Counter(row[-1] for row in RUN_ROWS).items())]
    files = engine.run('SELECT DISTINCT "$logical_key" FROM gene_counts', "acme-analysis-results", TABULATOR)
    assert [*files.rows] == [["counts/liver.parquet"]]
    lane = engine.run("SELECT sample_id, read_count, q30, run FROM run_metrics", "acme-raw-sequencing", TABULATOR)
    assert [*lane.rows] == [["S1", "18400210", "0.93", "250519"]]
    tags = engine.run('SELECT tag_name FROM "acme-analysis-results_package_tag"', "quilt-acme-icebergdatabase")
    assert [*tags.rows] == [["latest"]] * 3


def test_values_are_written_as_athena_writes_them(engine: QueryEngine) -> None:
    values = {
        "1e20": ("double", "1.0E20"),
        "18400210e0": ("double", "1.840021E7"),
        "-1.5e-7": ("double", "-1.5E-7"),
        "0.001e0": ("double", "0.001"),
        "nan()": ("double", "NaN"),
        "true": ("boolean", "true"),
        "NULL": ("unknown", None),
        "CAST(1.5 AS decimal(5, 2))": ("decimal", "1.50"),
        "DATE '1960-01-01'": ("date", "1960-01-01"),
        "TIMESTAMP '2020-01-01 00:00:00'": ("timestamp", "2020-01-01 00:00:00.000"),
        "ARRAY[1, NULL]": ("array", "[1, null]"),
        "MAP(ARRAY['a'], ARRAY[1])": ("map", "{a=1}"),
        "X'6566'": ("varbinary", "65 66"),
    }
    result = engine.run(f"SELECT {', '.join(values)}", "default")
    assert result.failure is None
    names = [f"_col{number}" for number in range(len(values))]
    assert [*result.columns] == [
        ResultColumn(name, kind) for name, (kind, _) in zip(names, values.values(), strict=True)
    ]
    assert [*result.rows] == [[text for _, text in values.values()]]


@pytest.mark.parametrize(
    ("sql", "failure"),
    [
        ("SELECT 1 FROM nothing", f"TABLE_NOT_FOUND: line 1:15: Table '{GLUE}.acme_sequencing.nothing' does not exist"),
        ("SELECT nothing FROM run_metrics", "COLUMN_NOT_FOUND: line 1:8: Column 'nothing' cannot be resolved"),
        ("SELECT CAST('a' AS integer)", "INVALID_CAST_ARGUMENT: Cannot cast 'a' to integer"),
        ("SELECT FROM", "SYNTAX_ERROR: line 1:11: mismatched input"),
        ("SHOW PARTITIONS nothing", "FAILED: SemanticException [Error 10001]: Table not found nothing"),
        ("DESCRIBE nothing", "FAILED: SemanticException [Error 10001]: Table not found nothing"),
        ("SHOW TBLPROPERTIES x", "NOT_SUPPORTED: The demo does not run this statement."),
        ("SELECT unknown_function(1)", "GENERIC_USER_ERROR"),
    ],
)
def test_a_failure_has_the_words_of_athena(engine: QueryEngine, sql: str, failure: str) -> None:
    assert (engine.run(sql, "acme_sequencing").failure or "").startswith(failure)


def test_show_and_describe_read_the_records(engine: QueryEngine) -> None:
    for sql, first in {
        "SHOW DATABASES": "acme-imaging-eu",
        "SHOW TABLES": "run_metrics",
        "SHOW TABLES IN `acme_clinical`": "visits",
        "SHOW COLUMNS IN run_metrics": "sample_id",
        "SHOW PARTITIONS acme_sequencing.run_metrics": "run=250428",
        "DESCRIBE run_metrics": f"{'sample_id':<20}\t{'string':<20}\t{'':<20}",
    }.items():
        assert engine.run(sql, "acme_sequencing").rows[0] == [first], sql


def test_an_explanation_scans_nothing_unless_it_analyses(engine: QueryEngine) -> None:
    plan = engine.run("EXPLAIN SELECT count(*) FROM run_metrics", "acme_sequencing")
    analysed = engine.run("EXPLAIN ANALYZE SELECT count(*) FROM run_metrics", "acme_sequencing")
    assert (plan.columns[0].name, plan.scanned_bytes) == ("Query Plan", 0)
    assert analysed.scanned_bytes > 0
