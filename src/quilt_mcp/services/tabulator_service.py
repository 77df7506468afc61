"""tabulator://: the buckets with tabulator tables, and the tables with their YAML. Promised to Python callers."""

import re
from typing import TYPE_CHECKING, Literal, NotRequired
from urllib.parse import quote

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from quilt_mcp.core.cuts import cut_text
from quilt_mcp.core.errors import NotFound, ResourceFailure
from quilt_mcp.services.athena_tables import quote_sql
from quilt_mcp.services.auth_metadata import fetch_stack_prefix, make_tabulator_catalog
from quilt_mcp.services.pages import Paged, cut_page
from quilt_mcp.services.stack.callers import current_caller
from quilt_mcp.services.stack.failures import QueryNotUnderstood, QueryRefused
from quilt_mcp.services.stack.graphql import Named
from quilt_mcp.services.yaml_text import MAX_SHOWN, parse_yaml

if TYPE_CHECKING:
    from quilt_mcp.services.stack.caller import Caller

MAX_NAMES = 50
PROBLEMS = {"missing": "is missing", "string_type": "is not a text", "list_type": "is not a list"}
_GROUP = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?P?<([A-Za-z_][A-Za-z0-9_]*)>", re.DOTALL)
"""In a regular expression: an escape, a class of characters, or the start of a named group."""


class TableColumn(TypedDict):
    """A column of a table."""

    name: str
    """Its name."""
    type: str
    """Its type in Athena."""


class TableSource(TypedDict):
    """Which objects the rows of a table come from.

    Attributes:
        type: the kind of source, such as quilt-packages.
        package_name: the regular expression for the names of packages.
        logical_key: the regular expression for the keys of objects in packages.
    """

    type: str
    package_name: str
    logical_key: str


class Parser(TypedDict):
    """How objects are read."""

    format: str


class Config(TypedDict):
    """The parts that this server reads. Every value is text, as it is written in the YAML."""

    schema: list[TableColumn]
    source: TableSource
    parser: Parser


CONFIG = TypeAdapter(Config)


def parse_config(text: str) -> tuple[Config | None, str | None]:
    """Parse the YAML of a table, which an administrator of the stack wrote. Return it, or why it cannot be read."""
    value, problem = parse_yaml(text)
    if problem:
        return None, problem
    try:
        return CONFIG.validate_python(value), None
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, problem['loc'])) or 'the whole'} {PROBLEMS.get(problem['type'], 'has another form')}"
            for problem in error.errors()[:3]
        )
        return None, f"The configuration does not have the documented form: {problems}."


class _Table(Named):
    config: str


class _Tables(TypedDict):
    tables: list[_Table]


class _BucketWithTables(Named):
    tables: list[Named]


class TabulatorBucket(TypedDict):
    """One bucket.

    Attributes:
        name: its name.
        tables: the names of its first 50 tables, sorted; null if the source is Athena.
        table_count: the number of its tables; null if the source is Athena.
        uri: the URI of its tables with their columns.
    """

    name: str
    tables: list[str] | None
    table_count: int | None
    uri: str


class TabulatorAnswer(Paged):
    """The answer of tabulator://buckets.

    Attributes:
        buckets: the buckets of this page, which have tables, sorted by name.
        source: "registry" is the Quilt stack, "athena" tabulator's data catalog.
        source_note: why the stack was not the source; null if it was.
    """

    buckets: list[TabulatorBucket]
    source: Literal["registry", "athena"]
    source_note: str | None


class TabulatorTable(TypedDict):
    """One table.

    Attributes:
        name: its name.
        sql_name: the name to use in a query in Athena; null if the name of the stack is unknown.
        columns: the columns that its configuration lists; null if the configuration cannot be read.
        captured_columns: the columns that Quilt adds for named groups in the patterns; null as above.
        source: null as above.
        format: the format of the objects, such as csv or parquet; null as above.
        config: the configuration, in YAML, cut at 10,000 characters.
        config_truncated: true if it is cut; absent if not.
        config_error: why the configuration cannot be read; null if it can.
    """

    name: str
    sql_name: str | None
    columns: list[TableColumn] | None
    captured_columns: list[str] | None
    source: TableSource | None
    format: str | None
    config: str
    config_truncated: NotRequired[Literal[True]]
    config_error: str | None


class TabulatorTablesAnswer(Paged):
    """A page of the tabulator tables of a bucket.

    Attributes:
        bucket: its name.
        data_catalog: the data catalog of the tables in Athena; null if the name of the stack is unknown.
        database: the database of the tables in it.
        packages: the URI of the packages whose files the tables read.
        tables: the tables of this page, sorted by name.
    """

    bucket: str
    data_catalog: str | None
    database: str
    packages: str
    tables: list[TabulatorTable]


def tabulator_buckets_list(cursor: str | None = None, limit: str | None = None) -> TabulatorAnswer:
    """The buckets with tabulator tables.

    They are sorted by name, 50 per page: `?cursor=` and the `next_cursor` of a page read the next one. Sends a GraphQL
    request. If the stack refuses it, the buckets come from tabulator's data catalog in Athena: `source` is then
    "athena", `source_note` says why, and the tables are null, because the data catalog does not contain them.
    """
    caller = current_caller()
    source: Literal["registry", "athena"]
    try:
        rows, source, note = _read_stack(caller), "registry", None
    except QueryRefused as refusal:
        rows, source, note = _read_athena(caller, refusal), "athena", _explain(refusal)
    page = cut_page(
        rows,
        lambda bucket: bucket["name"],
        build=_shorten,
        cursor=cursor,
        limit=limit,
        scope=("tabulator buckets", caller.login.stack.registry_url, source),
    )
    return {
        "buckets": page.rows,
        "count": page.total,
        "next_cursor": page.next_cursor,
        "source": source,
        "source_note": note,
    }


def _shorten(bucket: TabulatorBucket) -> TabulatorBucket:
    return {**bucket, "tables": None if bucket["tables"] is None else bucket["tables"][:MAX_NAMES]}


def _explain(refusal: QueryRefused) -> str:
    if isinstance(refusal, QueryNotUnderstood):
        return "The Quilt stack does not know this query. Stacks list tabulator tables since October 2024."
    return f"{refusal.message} ({refusal.details})"


def tabulator_tables_list(bucket: str, cursor: str | None = None, limit: str | None = None) -> TabulatorTablesAnswer:
    """A bucket's tabulator tables and columns.

    Columns have types, sources are patterns of keys. Each table also has its format and its raw YAML. In queries, Quilt
    adds `captured_columns` to the columns, and $pkg_name, $logical_key, $physical_key, $top_hash and $issue.
    `sql_name` is the name of a table in a query. A table with a configuration
    that cannot be parsed has a `config_error`; Quilt checks more. Sends one GraphQL request.
    """
    caller = current_caller()
    found = caller.find("bucketTabulatorTablesList", _Tables, "bucketConfig", name=bucket)
    if found is None:
        raise NotFound(
            f"The bucket {bucket!a} was not found in the Quilt stack.",
            details="It is not a bucket of the stack, or your role does not include it.",
            suggested_actions=[
                "Read tabulator://buckets for the buckets with tables.",
                "Read quilt://buckets for all buckets of the stack that you can see.",
            ],
        )
    prefix = fetch_stack_prefix(caller)
    catalog = make_tabulator_catalog(prefix) if prefix else None
    page = cut_page(
        found["tables"],
        lambda table: table["name"],
        build=lambda table: _table_row(table, catalog, bucket),
        cursor=cursor,
        limit=limit,
        scope=("tabulator tables", caller.login.stack.registry_url, bucket),
    )
    return {
        "bucket": bucket,
        "data_catalog": catalog,
        "database": bucket,
        "packages": f"quilt://buckets/{bucket}/packages",
        "tables": page.rows,
        "count": page.total,
        "next_cursor": page.next_cursor,
    }


def read_table_names(caller: "Caller") -> dict[str, list[str]]:
    """Return the names of the tabulator tables of each bucket that has some, with one GraphQL request."""
    return {row["name"]: row["tables"] or [] for row in _read_stack(caller)}


def list_buckets_with_tables(prefix: str) -> list[str]:
    caller = current_caller()
    rows = _read_stack(caller) if caller.login.signed_in else []
    return [row["name"] for row in rows if row["name"].startswith(prefix)]


def _table_row(table: _Table, catalog: str | None, bucket: str) -> TabulatorTable:
    text = table["config"]
    shown, is_cut = cut_text(text, MAX_SHOWN)
    config, error = parse_config(text)
    source = config["source"] if config else None
    captured = _list_groups(source["package_name"], source["logical_key"]) if source else None
    row: TabulatorTable = {
        "name": table["name"],
        "sql_name": ".".join(map(quote_sql, (catalog, bucket, table["name"]))) if catalog else None,
        "columns": config["schema"] if config else None,
        "captured_columns": captured,
        "source": source,
        "format": config["parser"]["format"] if config else None,
        "config": shown,
        "config_error": error,
    }
    if is_cut:
        row["config_truncated"] = True
    return row


def _list_groups(*patterns: str) -> list[str]:
    """List the names of the groups of patterns, each once. What is escaped, or in brackets, is no group."""
    return list(dict.fromkeys(name for pattern in patterns for name in _GROUP.findall(pattern) if name))


def _read_stack(caller: "Caller") -> list[TabulatorBucket]:
    configs = caller.send_query("tabulatorBuckets", list[_BucketWithTables], "bucketConfigs")
    tables = {bucket["name"]: sorted(table["name"] for table in bucket["tables"]) for bucket in configs}
    return [
        {"name": name, "tables": names, "table_count": len(names), "uri": _make_uri(name)}
        for name, names in sorted(tables.items())
        if names
    ]


def _read_athena(caller: "Caller", refusal: QueryRefused) -> list[TabulatorBucket]:
    """List the buckets in tabulator's data catalog.

    Raises:
        QueryRefused: they cannot be listed. This is the refusal of the stack, with the failure in its details.
    """
    prefix = fetch_stack_prefix(caller)
    if prefix is None:
        raise refusal
    try:
        catalog = make_tabulator_catalog(prefix)
        listed = caller.aws.list_items("athena", "list_databases", "DatabaseList", CatalogName=catalog)
        names = sorted(database["Name"] for database in listed)
    except ResourceFailure as failure:
        refusal.details = f"{refusal.details}; then Athena: {failure.details or failure.message}"
        raise refusal from failure
    return [{"name": name, "tables": None, "table_count": None, "uri": _make_uri(name)} for name in names]


def _make_uri(bucket: str) -> str:
    return f"tabulator://buckets/{quote(bucket, safe='')}/tables"
