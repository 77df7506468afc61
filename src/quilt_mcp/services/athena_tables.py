"""athena://databases/{database}/tables: tables, their columns and their partitions."""

import base64
import binascii
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Literal, NotRequired
from urllib.parse import quote

from typing_extensions import TypedDict

from quilt_mcp.core.answers import iso
from quilt_mcp.core.cursors import compute_tag, decode, encode, parse_limit
from quilt_mcp.core.cuts import fit, fit_beside
from quilt_mcp.core.errors import InvalidTemplateVariable, NotFound, ResourceFailure
from quilt_mcp.services.pages import Paged, cut_page
from quilt_mcp.services.stack.callers import current_caller
from quilt_mcp.services.table_formats import Field, Layout, TableFormat, read_layout

if TYPE_CHECKING:
    from types_boto3_glue import type_defs as glue

    from quilt_mcp.services.stack.aws import AWSClients

DATA_CATALOG = "AwsDataCatalog"
VIEW = "VIRTUAL_VIEW"
MAX_SQL = 20_000
_COMMENT = re.compile(r"\s*/\*\s*Presto View:\s*([A-Za-z0-9+/=]+)\s*\*/\s*")
PAGE = 100  # the maximum for GetTables and GetDatabases
MAX_TABLES = 5000
MAX_COLUMNS = 200
"""On a page."""
MAX_KEYS = 50
MAX_TYPE = 2000
MAX_MARK = 60
"""Characters of a name in a cursor."""
MAX_NAME = 255
MAX_PARAMETERS, MAX_PARAMETER = 4_000, 1000
"""Characters of all parameters, and of one."""
MAX_EXAMPLE_DATABASES = 10
LIST_DATABASES = "Read athena://databases for the existing databases."
OF_PACKAGES = re.compile(r"([a-z0-9.-]{3,63})_package_(?:revision|tag|manifest|entry)")


class TableBase(TypedDict):
    """What lists and the answer about one table have.

    Attributes:
        name: its name.
        type: such as EXTERNAL_TABLE or VIRTUAL_VIEW; null if Glue does not say.
        description: its description; empty if there is none.
        location: where its data is; null if Glue does not say, as for a view.
        link_target: for a resource link, the table or database to which it points; null otherwise.
        column_count: the number of columns, without partition keys; null if Glue does not hold columns.
        created_at: ISO 8601 in UTC; null if unknown.
        updated_at: ISO 8601 in UTC; null if unknown.
    """

    name: str
    type: str | None
    description: str
    location: str | None
    link_target: str | None
    column_count: int | None
    created_at: str | None
    updated_at: str | None


class TableRow(TableBase):
    """One table of a list."""

    table_format: TableFormat | None
    """Null for a table that consists only of its files."""
    partition_keys: list[str] | None
    """The names of the partition keys, in their order; null if Glue does not hold them: for an Iceberg or Delta table,
    whose own metadata has them, and for a resource link."""
    uri: str
    """The URI of the table with its columns."""


class TablesAnswer(Paged):
    """A page of the tables of a database.

    Attributes:
        database: the name of the database.
        tables: the tables of this page, sorted by name.
        count_is_exact: false if the database has more tables than `count`, the maximum that this server lists.
        data_catalog: the data catalog that contains the database.
        region: the AWS region.
    """

    database: str
    tables: list[TableRow]
    count_is_exact: bool
    data_catalog: str
    region: str


class Column(TypedDict):
    """A column, or a partition key.

    Attributes:
        name: its name.
        type: its type in Athena, such as bigint; null if Glue does not say.
        type_truncated: true if the type is cut at 2,000 characters; absent if not.
        comment: its comment; null if there is none.
    """

    name: str
    type: str | None
    type_truncated: NotRequired[Literal[True]]
    comment: str | None


class TableAnswer(TableBase):
    """One table.

    Attributes:
        database: the name of its database.
        sql_name: the name to use in a query in Athena.
        table_format: null for a table that consists only of its files.
        columns: the columns of this page, without partition keys, in their order; null if Glue does not hold columns.
            Columns that were dropped from an Iceberg table are left out.
        columns_reason: why columns are unknown, or where they are from if Glue's own list is not true; null otherwise.
        next_cursor: the `cursor` of the next page of columns; null on the last page.
        partition_keys: the columns by which its data is partitioned, in their order; null if Glue does not hold them:
            for an Iceberg or Delta table, whose own metadata has them, and for a resource link. `SHOW CREATE TABLE` in
            Athena shows them. At most 50.
        classification: the format of its data, as its parameters state it, such as parquet; null if they do not.
        input_format: the Hadoop class that reads its files; null if Glue does not say.
        serde: the Hadoop class that parses its rows; null if Glue does not say.
        parameters: its parameters, sorted. Of many or long ones, only a part.
        parameters_truncated: true if parameters are left out or cut: one has at most 1,000 characters, and all of them
            have about 4,000; absent if not.
        is_registered_with_lake_formation: if true, Lake Formation can leave columns and rows out for a role, here and
            in queries; null if Glue does not say.
        packages: for a table of the Quilt stack about packages, the URI of the packages of its bucket; null otherwise.
        view_sql: the query of a view; null for other tables, and if Glue does not contain a query that can be read.
        view_sql_truncated: true if the query is cut at 20,000 characters; absent if not.
        data_catalog: the data catalog that contains the database.
        region: the AWS region.
    """

    database: str
    sql_name: str
    table_format: TableFormat | None
    columns: list[Column] | None
    columns_reason: str | None
    next_cursor: str | None
    partition_keys: list[Column] | None
    classification: str | None
    input_format: str | None
    serde: str | None
    parameters: dict[str, str]
    parameters_truncated: NotRequired[Literal[True]]
    is_registered_with_lake_formation: bool | None
    packages: str | None
    view_sql: str | None
    view_sql_truncated: NotRequired[Literal[True]]
    data_catalog: str
    region: str


def read_view_sql(table: "glue.TableTypeDef") -> str | None:
    """Return the query of a view; None for another table, and for a view of another form than Athena's.

    A view that another engine has created can have its query as plain text. Athena cannot run it, so it is left out. A
    view of several dialects has a query for each engine.
    """
    for one in table.get("ViewDefinition", {}).get("Representations", []):
        if one.get("Dialect") == "ATHENA" and one.get("ViewOriginalText"):
            return one["ViewOriginalText"]
    found = _COMMENT.fullmatch(table.get("ViewOriginalText", "")) if table.get("TableType") == VIEW else None
    if found is None:
        return None
    try:
        definition = json.loads(base64.b64decode(found[1], validate=True))
    except (binascii.Error, ValueError, RecursionError):
        return None
    sql = definition.get("originalSql") if isinstance(definition, dict) else None
    return sql if isinstance(sql, str) else None


def athena_tables_list(
    database: str, cursor: str | None = None, limit: str | None = None, *, max_tables: int = MAX_TABLES
) -> TablesAnswer:
    """A database's tables and views.

    They come from the Glue data catalog and are sorted by name. Each has its type, description, location, number of
    columns, partition keys and times. Glue cannot start a list in the middle, so each page reads all tables of the
    database, 100 per call and at most 5,000. If there are more, `count_is_exact` is false; the others can still be read
    by name.
    """
    name = _check_name("database", database)
    aws = current_caller().aws
    try:
        tables = list(islice(read_tables(aws, name), max_tables + 1))
    except NotFound as failure:
        raise _make_unknown_database(aws, name, failure) from failure
    page = cut_page(
        tables[:max_tables],
        lambda table: table["Name"],
        build=lambda table: _table_row(table, database),
        cursor=cursor,
        limit=limit,
        scope=("glue tables", aws.region, name),
    )
    return {
        "database": name,
        "tables": page.rows,
        "count": page.total,
        "count_is_exact": len(tables) <= max_tables,
        "next_cursor": page.next_cursor,
        "data_catalog": DATA_CATALOG,
        "region": aws.region,
    }


def athena_table_get(database: str, table: str, cursor: str | None = None, limit: str | None = None) -> TableAnswer:
    """A table's columns and location.

    It also has partition keys. Columns have their types and comments, and there are at most 200 per page. The answer
    also has the format. `sql_name` is the name to use in a query. Long values are cut, and the answer says so. For a
    view, `view_sql` is its query.
    """
    size = parse_limit(limit, default=MAX_COLUMNS)
    names = _check_name("database", database), _check_name("table", table)
    aws = current_caller().aws
    try:
        found: glue.TableTypeDef = aws.call("glue", "get_table", DatabaseName=names[0], Name=names[1])["Table"]
    except NotFound as failure:
        raise _make_unknown_table(aws, *names, failure) from failure
    tag = compute_tag("glue columns", aws.region, *names)
    layout = read_layout(found)
    columns = layout.columns
    start = _find_start(columns or [], cursor, tag) if cursor else 0
    answer = _table_answer(found, layout, names[0], aws.region)
    if columns is not None:
        page = fit_beside([_column(one) for one in columns[start : start + size]], answer)
        end = start + len(page)
        answer["columns"] = page
        answer["next_cursor"] = (
            encode(f"{end} {columns[end - 1]['Name'][:MAX_MARK]}", tag) if end < len(columns) else None
        )
    return answer


def _find_start(columns: Sequence[Field], cursor: str, tag: str) -> int:
    number, name = decode(cursor, tag, r"[1-9][0-9]{0,5} .*").split(" ", 1)
    if int(number) > len(columns) or columns[int(number) - 1]["Name"][:MAX_MARK] != name:
        raise InvalidTemplateVariable(
            "The cursor's page cannot be found.",
            details="The columns of the table are not those of the page before.",
            suggested_actions=["Start without a cursor."],
        )
    return int(number)


def list_databases(prefix: str) -> list[str]:
    """List databases with a prefix; empty for callers who are not signed in.

    Without a prefix, a database with tables comes first, if one of the first few has any: it is the example.
    """
    caller = current_caller()
    if not caller.login.signed_in:
        return []
    aws = caller.aws
    names = _list_databases(aws, prefix)
    tried = [] if prefix else names[:MAX_EXAMPLE_DATABASES]
    first = next((name for name in tried if _list_tables(aws, name)), None)
    return names if first is None else [first, *(name for name in names if name != first)]


def list_tables(prefix: str, known: Mapping[str, str]) -> list[str]:
    """List tables with a prefix: of the database that is known, else of the first one that has such tables."""
    caller = current_caller()
    if not caller.login.signed_in:
        return []
    aws = caller.aws
    databases = [known["database"]] if "database" in known else _list_databases(aws, "")[:MAX_EXAMPLE_DATABASES]
    for database in databases:
        if names := [name for name in _list_tables(aws, database) if name.startswith(prefix)]:
            return names
    return []


def _list_databases(aws: "AWSClients", prefix: str) -> list[str]:
    return sorted(one["Name"] for one in read_databases(aws) if one["Name"].startswith(prefix))


def read_databases(aws: "AWSClients") -> "Iterator[glue.DatabaseTypeDef]":
    return aws.list_items("glue", "get_databases", "DatabaseList", MaxResults=PAGE)


def read_tables(aws: "AWSClients", database: str, **given: str) -> "Iterator[glue.TableTypeDef]":
    return aws.list_items("glue", "get_tables", "TableList", DatabaseName=database, MaxResults=PAGE, **given)


def _list_tables(aws: "AWSClients", database: str) -> list[str]:
    try:
        return sorted(one["Name"] for one in islice(read_tables(aws, database), MAX_TABLES))
    except ResourceFailure:
        return []  # the caller may not use this database; the others are still tried


def _check_name(variable: str, name: str) -> str:
    """Return the name in the form in which Glue stores it: in lower case.

    Raises:
        InvalidTemplateVariable: Glue does not allow this name.
    """
    if len(name) > MAX_NAME or "/" in name:
        raise InvalidTemplateVariable(
            f"This is not a valid name of a {variable}.",
            details=f"A name has 1-{MAX_NAME} characters after percent-decoding, and no slash.",
            suggested_actions=[LIST_DATABASES],
        )
    return name.lower()


def _make_unknown_database(aws: "AWSClients", database: str, failure: NotFound) -> NotFound:
    message, actions = f"The database {database!a} was not found.", list[str]()
    if target := _find_link(aws, database):
        message = f"The database {database!a} is a link to {target}, which Glue does not find or does not show to you."
        actions = ["Ask the owner of the linked database whether it still exists, and is shared with your role."]
    return NotFound(message, details=failure.details, suggested_actions=[*actions, LIST_DATABASES])


def _find_link(aws: "AWSClients", database: str) -> str | None:
    try:
        found: glue.DatabaseTypeDef = aws.call("glue", "get_database", Name=database)["Database"]
    except ResourceFailure:
        return None
    return describe_link(found.get("TargetDatabase"))


def describe_link(target: "glue.DatabaseIdentifierTypeDef | glue.TableIdentifierTypeDef | None") -> str | None:
    """Return the target of a resource link: the account, the database, and the table if it is one."""
    if target is None:
        return None
    parts = [target.get(name) for name in ("CatalogId", "Region", "DatabaseName", "Name")]
    return "/".join(str(part) for part in parts if part) or None


def _make_unknown_table(aws: "AWSClients", database: str, table: str, failure: NotFound) -> NotFound:
    if _find_link(aws, database):
        return _make_unknown_database(aws, database, failure)
    return NotFound(
        f"The table {table!a} was not found in the database {database!a}.",
        details=failure.details,
        suggested_actions=[
            f"Read athena://databases/{quote(database, safe='')}/tables for its tables.",
            LIST_DATABASES,
        ],
    )


def _describe(table: "glue.TableTypeDef", layout: Layout) -> TableBase:
    return {
        "name": table["Name"],
        "type": table.get("TableType"),
        "description": table.get("Description", ""),
        "location": layout.location,
        "link_target": describe_link(table.get("TargetTable")),
        "column_count": None if layout.columns is None else len(layout.columns),
        "created_at": iso(table.get("CreateTime")),
        "updated_at": iso(table.get("UpdateTime")),
    }


def _table_row(table: "glue.TableTypeDef", database: str) -> TableRow:
    layout = read_layout(table)
    keys = layout.partition_keys
    return {
        **_describe(table, layout),
        "table_format": layout.format,
        "partition_keys": None if keys is None else [key["Name"] for key in keys],
        "uri": f"athena://databases/{quote(database, safe='')}/tables/{quote(table['Name'], safe='')}",
    }


def _table_answer(table: "glue.TableTypeDef", layout: Layout, database: str, region: str) -> TableAnswer:
    storage, parameters = table.get("StorageDescriptor", {}), table.get("Parameters", {})
    keys = layout.partition_keys
    view_sql, kept = read_view_sql(table), cut_parameters(parameters)
    answer: TableAnswer = {
        **_describe(table, layout),  # type: ignore[typeddict-item]  # mypy misses what is not required
        "database": database,
        "sql_name": f"{quote_sql(database)}.{quote_sql(table['Name'])}",
        "table_format": layout.format,
        "columns": None,
        "columns_reason": layout.columns_reason,
        "next_cursor": None,
        "partition_keys": None if keys is None else [_column(one) for one in keys[:MAX_KEYS]],
        "classification": parameters.get("classification") or None,
        "input_format": storage.get("InputFormat") or None,
        "serde": storage.get("SerdeInfo", {}).get("SerializationLibrary") or None,
        "parameters": kept,
        "is_registered_with_lake_formation": table.get("IsRegisteredWithLakeFormation"),
        "packages": _find_packages(table, layout),
        "view_sql": None if view_sql is None else view_sql[:MAX_SQL],
        "data_catalog": DATA_CATALOG,
        "region": region,
    }
    if kept != parameters:
        answer["parameters_truncated"] = True
    if view_sql is not None and len(view_sql) > MAX_SQL:
        answer["view_sql_truncated"] = True
    return answer


def _find_packages(table: "glue.TableTypeDef", layout: Layout) -> str | None:
    found = OF_PACKAGES.fullmatch(table["Name"]) if layout.format == "iceberg" else None
    return f"quilt://buckets/{found[1]}/packages" if found else None


def cut_parameters(parameters: Mapping[str, str]) -> dict[str, str]:
    """Return the parameters of a table or database, sorted; of many or long ones, only a part."""
    return dict(fit([(key, parameters[key][:MAX_PARAMETER]) for key in sorted(parameters)], MAX_PARAMETERS))


def quote_sql(name: str) -> str:
    """Quote a name for a query in Athena: it can contain hyphens, or start with a digit."""
    return '"' + name.replace('"', '""') + '"'


def _column(column: Field) -> Column:
    kind = column.get("Type")
    row: Column = {
        "name": column["Name"],
        "type": None if kind is None else kind[:MAX_TYPE],
        "comment": column.get("Comment") or None,
    }
    if kind is not None and len(kind) > MAX_TYPE:
        row["type_truncated"] = True
    return row
