"""athena://query/{execution_id}/results: the rows of a query that ran.

Athena gives the rows of a result in their order, in pages of at most 1,000, each with a token for the next one. It
numbers no rows and has no total. A cursor has the number of rows before its page, the token of the page of Athena that
contains the first row, and how many rows of that page were read: our page can end earlier, because it ends at 40,000
characters too. Reading a token again gives the same rows. A token that does not fit into a cursor is left out. Then the
rows before the page are read again and dropped, 1,000 at a time, because the number of rows is all that must be known.
"""

import math
import re
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, NotRequired

from typing_extensions import TypedDict

from quilt_mcp.app import current_app
from quilt_mcp.core import cursors
from quilt_mcp.core.cursors import parse_limit
from quilt_mcp.core.cuts import PAGE_CHARACTERS, cut_text, fit
from quilt_mcp.core.errors import NotFound, ResourceExecutionError, ResourceFailure, Unavailable
from quilt_mcp.services.athena_history import QueryRow, describe_query
from quilt_mcp.services.settings import QuiltSettings
from quilt_mcp.services.stack.aws_failures import find_code
from quilt_mcp.services.stack.callers import current_caller
from quilt_mcp.services.stack.failures import RefusedByAWS

if TYPE_CHECKING:
    from types_boto3_athena import type_defs as athena

    from quilt_mcp.services.stack.aws import AWSClients

    ResultsPage = athena.GetQueryResultsOutputTypeDef

AWS_PAGE = 1000  # the maximum for GetQueryResults
MAX_COLUMNS = 100
LONGEST_VALUE, SHORTEST_VALUE = 2000, 100
"""The characters of a value in a table of few columns, and in one of many."""
ROOM = PAGE_CHARACTERS - 10_000
"""The characters of all rows in JSON. The columns and the texts about the query have the rest of the answer."""
ROW_ROOM = 20_000
"""The characters that the values of one row share."""
LONGEST_TOKEN = 300
MAX_NAME = 200
INVALID = "InvalidRequestException"
HOURS_OF_MANAGED_RESULTS = 24
HISTORY = "Read athena://query/history for the queries of your workgroups and their ids."
AGAIN = "Run the query again: call athena_query with the text in `query`."

INTEGERS = {"tinyint", "smallint", "integer", "int", "bigint"}
FLOATS = {"double", "float", "real"}
Value = str | int | float | bool | None


class ResultColumn(TypedDict):
    """One column of a result."""

    name: str
    """Its name, cut at 200 characters. Names can repeat."""
    type: str | None
    """Its type in Athena, such as bigint; null if Athena did not say."""


class QueryResultsAnswer(QueryRow):
    """The state of a query, and a page of its rows.

    Attributes:
        columns: the columns, at most 100; null if there are no rows to read.
        column_count: the number of all columns; null as above.
        columns_truncated: whether columns are left out, with their values.
        rows: the rows of this page; null as above. A value is null for NULL, true or false for a boolean, and a number
            for an integer or a double. NaN and Infinity are texts. All others are texts, as Athena writes them:
            decimals, dates, times, and arrays, maps and rows.
        rows_before: the number of rows before this page; null as above.
        values_truncated: the number of values on this page that are cut.
        value_length: the number of characters at which values of this result are cut; null as above.
        next_cursor: the `cursor` of the next page; null on the last page, and if there are no rows to read.
        no_rows_reason: why `rows` is null; null if it is not.
        next_steps: what to do next, if there are no rows to read or some are left out.
    """

    columns: list[ResultColumn] | None
    column_count: int | None
    columns_truncated: NotRequired[Literal[True]]
    rows: list[list[Value]] | None
    rows_before: int | None
    values_truncated: int
    value_length: int | None
    next_cursor: str | None
    no_rows_reason: str | None
    next_steps: list[str]


class Place(NamedTuple):
    """Where a page of rows starts.

    Attributes:
        before: the number of rows before it.
        skip: how many rows of Athena's page are before it.
        token: the token of that page; empty for the first page.
    """

    before: int = 0
    skip: int = 0
    token: str = ""


def query_results_get(execution_id: str, cursor: str | None = None, limit: str | None = None) -> QueryResultsAnswer:
    """The rows of an Athena query that ran.

    The answer has the query, its status, its times and the bytes that it scanned. Rows have JSON values by their types;
    a page ends at about 40,000 characters as well as at its rows. While the query runs there are no rows, and
    `next_steps` says what to do. If it failed, `error` is the reason that Athena states. Reading costs nothing:
    it runs no query.
    """
    size, tag = parse_limit(limit), cursors.compute_tag("query results", execution_id)
    place = _read_cursor(cursor, tag) if cursor else Place()
    aws = current_caller().aws
    return read_results(aws, read_execution(aws, execution_id), place, size)


def read_execution(aws: "AWSClients", execution_id: str) -> "athena.QueryExecutionTypeDef":
    """Return the state of a query.

    Raises:
        NotFound: Athena does not know it.
        ResourceFailure: as `AWSClients.call`.
    """
    try:
        found: athena.QueryExecutionTypeDef
        found = aws.call("athena", "get_query_execution", QueryExecutionId=execution_id)["QueryExecution"]
    except ResourceExecutionError as failure:
        if find_code(failure) != INVALID:
            raise
        raise NotFound(
            f"Athena has no query {execution_id!a}.",
            details="Athena keeps a query for 45 days, in its region. Calculations of Spark are not queries.",
            suggested_actions=[
                HISTORY,
                "Look up the results of Spark in the AWS console, in the notebook that ran it.",
            ],
        ) from failure
    return found


def read_results(
    aws: "AWSClients", execution: "athena.QueryExecutionTypeDef", place: Place, size: int
) -> QueryResultsAnswer:
    """Return a page of the rows of a query; of one without rows, why it has none.

    Raises:
        InvalidTemplateVariable: Athena does not know the token in the cursor.
        ResourceFailure: as `AWSClients.call`.
    """
    query = describe_query(execution)
    if query["status"] != "SUCCEEDED":
        return _write_unfinished(query)
    try:
        return _read_rows(aws, execution, query, place, size)
    except ResourceExecutionError as failure:
        if find_code(failure) != INVALID:
            raise
        if place.token:
            raise cursors.make_invalid() from failure
        return _explain_missing(aws, execution, query, failure)


def _write_unfinished(query: QueryRow) -> QueryResultsAnswer:
    again = f"Read {query['uri']} again"
    match query["status"]:
        case "QUEUED":
            return write_without_rows(query, "The query waits in Athena's queue.", f"{again} in ten seconds.")
        case "RUNNING":
            return write_without_rows(query, "The query is running.", f"{again} in ten seconds.")
        case "FAILED":
            return write_without_rows(query, "The query failed; see `error`.", "Correct the query, then run it again.")
        case "CANCELLED":
            reason = "The query was cancelled, by a user or by a limit; see `error`."
            return write_without_rows(query, reason, "Run the query again, with less data if a limit stopped it.")
    return write_without_rows(query, "Athena did not say in which state the query is.", f"{again} in a minute.")


def write_without_rows(query: QueryRow, reason: str, *steps: str) -> QueryResultsAnswer:
    return {
        **query,  # type: ignore[typeddict-item]  # mypy misses what is not required
        "columns": None,
        "column_count": None,
        "rows": None,
        "rows_before": None,
        "values_truncated": 0,
        "value_length": None,
        "next_cursor": None,
        "no_rows_reason": reason,
        "next_steps": list(steps),
    }


def _explain_missing(
    aws: "AWSClients", execution: "athena.QueryExecutionTypeDef", query: QueryRow, failure: ResourceFailure
) -> QueryResultsAnswer:
    """Say why Athena does not return the results of a query that succeeded.

    Athena gives the same code for deleted results and for other reasons, so S3 is asked for the object.
    """
    if execution.get("ManagedQueryResultsConfiguration", {}).get("Enabled"):
        reason = f"Athena stored the results itself, which it does for {HOURS_OF_MANAGED_RESULTS} hours."
        return write_without_rows(query, f"{reason} It does not return them now.", AGAIN)
    place = re.fullmatch(r"s3://([^/]+)/(.+)", query["output_location"] or "", re.DOTALL)
    if place is None:
        return write_without_rows(query, "Athena does not return the results, and names no object with them.", AGAIN)
    try:
        aws.call("s3", "head_object", Bucket=place[1], Key=place[2])
    except NotFound:
        reason = "The results were deleted: S3 has no object at `output_location`. A lifecycle rule can do this."
        return write_without_rows(query, reason, AGAIN)
    except RefusedByAWS:
        reason = "Athena does not return the results, and S3 does not let you see the object at `output_location`."
        action = "Ask a Quilt administrator to grant your role s3:GetObject on `output_location`."
        return write_without_rows(query, reason, action)
    raise failure


class _Table(NamedTuple):
    """Rows of Athena.

    Attributes:
        columns: the description of each column.
        rows: the values of each row.
        first: where the first of these is.
        token: the token of the next page; empty if there is none.
    """

    columns: "Sequence[athena.ColumnInfoTypeDef]"
    rows: list[list[str | None]]
    first: Place
    token: str


def _read_rows(
    aws: "AWSClients", execution: "athena.QueryExecutionTypeDef", query: QueryRow, place: Place, size: int
) -> QueryResultsAnswer:
    table = _read_table(aws, execution, place, size)
    columns = table.columns[:MAX_COLUMNS]
    longest = max(SHORTEST_VALUE, min(LONGEST_VALUE, ROW_ROOM // max(1, len(columns))))
    readers = [READERS.get(column["Type"].lower(), _read_text) for column in columns]
    shown = [[None if one is None else cut_text(one, longest) for one in row[: len(columns)]] for row in table.rows]
    rows = fit([_read_row(readers, row) for row in shown[:size]], ROOM)
    cut = sum(one is not None and one[1] for row in shown[: len(rows)] for one in row)
    next_place = _find_next(table, len(rows))
    location = query["output_location"]
    is_narrowed = len(columns) < len(table.columns)
    steps = [f"Select fewer columns, or read the file at {location}."] if (is_narrowed or cut) and location else []
    answer: QueryResultsAnswer = {
        **query,  # type: ignore[typeddict-item]  # mypy misses what is not required
        "columns": [{"name": one["Name"][:MAX_NAME], "type": one.get("Type")} for one in columns],
        "column_count": len(table.columns),
        "rows": rows,
        "rows_before": place.before,
        "values_truncated": cut,
        "value_length": longest,
        "next_cursor": None if next_place is None else _write_cursor(next_place, query["query_execution_id"]),
        "no_rows_reason": None,
        "next_steps": steps,
    }
    if is_narrowed:
        answer["columns_truncated"] = True
    return answer


def _read_row(readers: Sequence[Callable[[str], Value]], row: Sequence[tuple[str, bool] | None]) -> list[Value]:
    return [None if one is None else read(one[0]) for read, one in zip(readers, row, strict=False)]


def _find_next(table: _Table, shown: int) -> Place | None:
    """Return where the next page starts; None if there are no more rows."""
    before, skip, token = table.first
    if shown < len(table.rows):
        return Place(before + shown, skip + shown, token)
    return Place(before + shown, 0, table.token) if table.token else None


def _read_table(aws: "AWSClients", execution: "athena.QueryExecutionTypeDef", place: Place, size: int) -> _Table:
    """Read at most `size` rows at a place, all of one page of Athena; one more if the first page has no names.

    Raises:
        Unavailable: the rows before the place were not read in time, although it has no token.
    """
    seconds = current_app().settings_as(QuiltSettings).probe_seconds
    until, token = time.monotonic() + seconds, place.token
    passed = place.before - place.skip if token else 0
    while True:
        is_first = not token and not passed
        wanted = place.before - passed
        most = min(AWS_PAGE, wanted + size + is_first)  # the first page can have a row with the names
        page: ResultsPage = aws.call(
            "athena",
            "get_query_results",
            QueryExecutionId=execution["QueryExecutionId"],
            MaxResults=most,
            **({"NextToken": token} if token else {}),
        )
        found = page.get("ResultSet", {})
        columns = found.get("ResultSetMetadata", {}).get("ColumnInfo", [])
        rows = [_read_values(row, len(columns)) for row in found.get("Rows", [])]
        if is_first and _has_header(execution, columns, rows):
            rows = rows[1:]
        next_token = page.get("NextToken") or ""
        if wanted < len(rows) or not next_token:
            first = Place(place.before, wanted, token)
            return _Table(columns, rows[wanted:], first, next_token)
        if next_token == token:
            raise ResourceExecutionError("AWS returned the same page twice.", details="athena.get_query_results")
        if time.monotonic() > until:
            raise Unavailable(
                "The rows before this page were not read in time.",
                details=f"{passed + len(rows)} of {place.before} rows. Athena's page token is too long for a cursor.",
                suggested_actions=["Read the whole result at `output_location`, or run a query with fewer rows."],
            )
        token, passed = next_token, passed + len(rows)


def _read_values(row: "athena.RowTypeDef", count: int) -> list[str | None]:
    """Return the values of a row. Athena writes those of DESCRIBE into one, with tabs and blanks between them."""
    values = [one.get("VarCharValue") for one in row.get("Data", [])]
    if len(values) == 1 < count and values[0] is not None and values[0].count("\t") == count - 1:
        return [one.strip() for one in values[0].split("\t")]
    return values


def _has_header(
    execution: "athena.QueryExecutionTypeDef",
    columns: "Sequence[athena.ColumnInfoTypeDef]",
    rows: Sequence[Sequence[str | None]],
) -> bool:
    """Return whether the first row has the names of the columns, as that of a SELECT has.

    A SHOW can have a first row of this kind by chance.
    """
    is_select = execution.get("StatementType", "DML") == "DML" or execution.get("SubstatementType") == "EXPLAIN"
    return is_select and bool(rows) and list(rows[0]) == [column["Name"] for column in columns]


def _write_cursor(place: Place, execution_id: str) -> str:
    """Return the cursor of a place. It has no token that is too long for a URI."""
    before, skip, token = place if len(place.token) <= LONGEST_TOKEN else Place(place.before)
    return cursors.encode(f"{before} {skip} {token}", cursors.compute_tag("query results", execution_id))


def _read_cursor(cursor: str, tag: str) -> Place:
    before, skip, token = cursors.decode(cursor, tag, r"[0-9]{1,15} [0-9]{1,4} \S*").split(" ", 2)
    return Place(int(before), int(skip), token)


def _read_text(value: str) -> str:
    return value


def _read_integer(value: str) -> int | str:
    return int(value) if re.fullmatch(r"-?[0-9]{1,19}", value) else value


def _read_float(value: str) -> float | str:
    try:
        number = float(value)
    except ValueError:
        return value
    return number if math.isfinite(number) else value


def _read_boolean(value: str) -> bool | str:
    return {"true": True, "false": False}.get(value, value)


READERS: dict[str, Callable[[str], str | int | float | bool]] = {
    **dict.fromkeys(INTEGERS, _read_integer),
    **dict.fromkeys(FLOATS, _read_float),
    "boolean": _read_boolean,
}
"""How values of a type are read. Those of all other types are texts."""
