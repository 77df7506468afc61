"""The answers of athena://databases/{database}/tables and athena://databases/{database}/tables/{table}."""

from typing import Literal

from typing_extensions import TypedDict  # pydantic needs it before Python 3.12


class TableRow(TypedDict):
    """One table.

    Attributes:
        name: its name.
        type: such as EXTERNAL_TABLE or VIRTUAL_VIEW; null if Glue does not say.
        description: its description; empty if there is none.
        location: where its data is; null if Glue does not say, as for a view.
        link_target: for a resource link, the table or database to which it points; null otherwise.
        column_count: the number of columns, without partition keys; null if Glue does not list columns.
        partition_keys: the names of the partition keys, in their order; null for an Iceberg table, because its
            partitioning is hidden: it is in its metadata, and not in Glue.
        create_time: ISO 8601 in UTC; null if unknown.
        update_time: ISO 8601 in UTC; null if unknown.
    """

    name: str
    type: str | None
    description: str
    location: str | None
    link_target: str | None
    column_count: int | None
    partition_keys: list[str] | None
    create_time: str | None
    update_time: str | None


class TablesAnswer(TypedDict):
    """A page of the tables of a database.

    Attributes:
        database: the name of the database.
        tables: the tables of this page, sorted by name.
        count: the total of all pages.
        count_is_exact: false if the database has more tables than `count`, the maximum that this server lists.
        next_cursor: the `cursor` of the next page; null on the last page.
        data_catalog_name: the data catalog that contains the database.
        region: the AWS region.
    """

    database: str
    tables: list[TableRow]
    count: int
    count_is_exact: bool
    next_cursor: str | None
    data_catalog_name: str
    region: str


class Column(TypedDict):
    """A column, or a partition key.

    Attributes:
        name: its name.
        type: its type in Athena, such as bigint; null if Glue does not say.
        type_truncated: whether the type is cut at 2,000 characters.
        comment: its comment; null if there is none.
    """

    name: str
    type: str | None
    type_truncated: bool
    comment: str | None


class TableAnswer(TypedDict):
    """One table.

    Attributes:
        name: its name.
        database: the name of its database.
        sql_name: the name to use in a query in Athena.
        type: such as EXTERNAL_TABLE or VIRTUAL_VIEW; null if Glue does not say.
        description: its description; empty if there is none.
        table_format: "iceberg" for an Iceberg table; null for others.
        columns: its columns, without partition keys, in their order; null if Glue does not list columns. At most 2,000.
            Columns that were dropped from an Iceberg table are left out.
        column_count: the number of all columns; null if Glue does not list columns.
        partition_keys: the columns by which its data is partitioned, in their order; null for an Iceberg table, because
            its partitioning is hidden: it is in its metadata, and not in Glue. `SHOW CREATE TABLE` in Athena shows it.
        link_target: for a resource link, the table or database to which it points; null otherwise.
        location: where its data is; null if Glue does not say, as for a view.
        classification: the format of its data, as its parameters state it, such as parquet; null if they do not.
        input_format: the Hadoop class that reads its files; null if Glue does not say.
        serde: the Hadoop class that parses its rows; null if Glue does not say.
        parameters: its parameters, sorted. Of many or long ones, only a part.
        parameters_truncated: whether parameters are left out or cut: at most 100, with 1,000 characters each.
        packages: for a table of the Quilt stack about packages, the URI of the packages of its bucket; null otherwise.
        view_sql: the query of a view; null for other tables, and if Glue does not contain a query that can be read.
        view_sql_truncated: whether the query is cut at 20,000 characters.
        create_time: ISO 8601 in UTC; null if unknown.
        update_time: ISO 8601 in UTC; null if unknown.
        data_catalog_name: the data catalog that contains the database.
        region: the AWS region.
    """

    name: str
    database: str
    sql_name: str
    type: str | None
    description: str
    table_format: Literal["iceberg"] | None
    columns: list[Column] | None
    column_count: int | None
    partition_keys: list[Column] | None
    link_target: str | None
    location: str | None
    classification: str | None
    input_format: str | None
    serde: str | None
    parameters: dict[str, str]
    parameters_truncated: bool
    packages: str | None
    view_sql: str | None
    view_sql_truncated: bool
    create_time: str | None
    update_time: str | None
    data_catalog_name: str
    region: str
