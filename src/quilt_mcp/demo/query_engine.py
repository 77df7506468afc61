"""Runs the SQL of Athena over the tables of the company, with DuckDB, so that the results in a demo are true.

DuckDB has the data catalogs as databases in memory. Their tables are filled on the first query: those of Glue from
their records, those of Quilt about packages from the packages, and those of tabulator from the files in the packages.

| part                        | here                                                                          |
|-----------------------------|-------------------------------------------------------------------------------|
| SELECT                      | translated from Trino's dialect; functions that DuckDB lacks fail             |
| SHOW TABLES, and the like   | from the records; other statements fail, and say that the demo lacks them     |
| bytes scanned               | 1,024 for each row of each table in the query                                 |
| values                      | written as Athena writes them in results                                      |
| EXPLAIN                     | the plan of DuckDB                                                            |
"""

import csv
import io
import json
import math
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import yaml

from quilt_mcp.demo.packages import compute_hash
from quilt_mcp.demo.records import Bucket, Company, Table

if TYPE_CHECKING:
    import duckdb
    from sqlglot import exp

GLUE = "awsdatacatalog"
SCANNED_PER_ROW = 1024
NOT_HERE = "NOT_SUPPORTED: The demo does not run this statement."
LARGEST_PLAIN, SMALLEST_PLAIN = 1e7, 1e-3
"""Java writes other doubles with an exponent."""
NOT_FINITE = frozenset({"nan", "infinity"})
"""Functions that DuckDB has as values of a cast only."""
TABULATOR_COLUMNS = ("$pkg_name", "$logical_key", "$physical_key", "$top_hash", "$issue")


class ResultColumn(NamedTuple):
    """A column of a result, with its type in Athena."""

    name: str
    type: str


class Result(NamedTuple):
    """How a query ended.

    Attributes:
        columns: the columns of its result.
        rows: the values, as Athena writes them.
        tables: the catalog, the database and the name of each table that it reads.
        scanned_bytes: the bytes that it scanned.
        failure: why it failed; None if it succeeded.
    """

    columns: Sequence[ResultColumn] = ()
    rows: Sequence[Sequence[str | None]] = ()
    tables: Sequence[tuple[str, str, str]] = ()
    scanned_bytes: int = 0
    failure: str | None = None


class Filled(NamedTuple):
    """A table with its data. The types of its columns are those of Hive."""

    columns: Sequence[tuple[str, str]]
    rows: Sequence[Sequence[object]]
    sql: str | None = None


class QueryEngine:
    """The data of a company, and DuckDB, which the first query opens. It is thread-safe."""

    def __init__(self, company: Company | None = None) -> None:
        self._company = company
        self._lock = threading.Lock()
        self._results: dict[tuple[str, str, str], Result] = {}

    def run(self, sql: str, database: str, catalog: str = GLUE) -> Result:
        """Return the result of a statement. The same statement has the same result, because the data do not change."""
        key = (sql, database.lower(), catalog.lower())
        with self._lock:
            if key not in self._results:
                self._results[key] = self._run(*key)
            return self._results[key]

    def _run(self, sql: str, database: str, catalog: str) -> Result:
        word = sql.split(None, 1)[0].upper() if sql.strip() else ""
        if word == "EXPLAIN":
            inner = re.sub(r"(?is)^\s*EXPLAIN\s+(ANALYZE\s+)?(VERBOSE\s+)?(\([^)]*\)\s*)?", "", sql)
            found = self._select(inner, database, catalog, explain=True)
            return found if "ANALYZE" in sql[:40].upper() else found._replace(scanned_bytes=0)
        if word in {"SELECT", "WITH", "("}:
            return self._select(sql, database, catalog)
        return self._show(sql, database, catalog)

    @cached_property
    def _tables(self) -> dict[tuple[str, str, str], Filled]:
        company = self._company
        if company is None:
            return {}
        found: dict[tuple[str, str, str], Filled] = {}
        for base in company.databases:
            for table in base.tables:
                found[GLUE, base.name, table.name] = _fill(company, table)
        for bucket in company.buckets:
            for name, config in bucket.tables.items():
                found[f"quilt-{company.stack_name}-tabulator", bucket.name, name] = _read_packages(bucket, config)
        return found

    @cached_property
    def _connection(self) -> "duckdb.DuckDBPyConnection":
        import duckdb  # noqa: PLC0415 - heavy, and only queries need it

        connection = duckdb.connect(config={"threads": 1, "enable_external_access": "false"})
        connection.execute("SET TimeZone = 'UTC'")
        bases = {(GLUE, one.name) for one in (self._company.databases if self._company else ())} | {(GLUE, "default")}
        for catalog, database in sorted(bases | {key[:2] for key in self._tables}):
            connection.execute(f"ATTACH IF NOT EXISTS ':memory:' AS {_quote(catalog)}")
            connection.execute(f"CREATE SCHEMA {_quote(catalog)}.{_quote(database)}")
        for (catalog, database, name), table in self._tables.items():
            connection.execute(f"USE {_quote(catalog)}.{_quote(database)}")
            if table.sql:
                connection.execute(f"CREATE VIEW {_quote(name)} AS {table.sql}")
                continue
            columns = ", ".join(f"{_quote(column)} {_translate_type(kind)}" for column, kind in table.columns)
            connection.execute(f"CREATE TABLE {_quote(name)} ({columns})")
            if table.rows:
                marks = ", ".join("?" * len(table.columns))
                connection.executemany(f"INSERT INTO {_quote(name)} VALUES ({marks})", table.rows)  # noqa: S608 - our names
        return connection

    def _select(self, sql: str, database: str, catalog: str, *, explain: bool = False) -> Result:
        import duckdb  # noqa: PLC0415 - as above
        import sqlglot  # noqa: PLC0415 - as above
        from sqlglot import exp  # noqa: PLC0415 - as above

        try:
            tree = sqlglot.parse_one(sql, read="trino")
        except sqlglot.errors.ParseError as error:
            where = (error.errors or [{}])[0]
            return Result(failure=f"SYNTAX_ERROR: line {where.get('line')}:{where.get('col')}: mismatched input")
        defined = {one.alias_or_name.lower() for one in tree.find_all(exp.CTE)}
        named = [one for one in tree.find_all(exp.Table) if one.db or one.name.lower() not in defined]
        read = [(one.catalog.lower() or catalog, one.db.lower() or database, one.name.lower()) for one in named]
        for table, key in zip(named, read, strict=True):
            if key not in self._tables:
                line, column = _locate(sql, table.name)
                full = ".".join(key)
                return Result(failure=f"TABLE_NOT_FOUND: line {line}:{column}: Table '{full}' does not exist")
            table.set("catalog", exp.to_identifier(key[0], quoted=True))
            table.set("db", exp.to_identifier(key[1], quoted=True))
        for call in [one for one in tree.find_all(exp.Anonymous) if one.name.lower() in NOT_FINITE]:
            call.replace(exp.cast(exp.Literal.string(call.name), "double"))
        _name_columns(tree)
        translated = tree.sql(dialect="duckdb")
        connection = self._connection
        try:
            cursor = connection.execute(f"EXPLAIN {translated}" if explain else translated)
            described, values = cursor.description, cursor.fetchall()
        except duckdb.Error as error:
            return Result(tables=read, failure=_explain(error, sql))
        scanned = sum(SCANNED_PER_ROW * max(1, len(self._tables[key].rows)) for key in read)
        if explain:
            lines = "\n".join(str(row[-1]) for row in values).splitlines()
            return Result([ResultColumn("Query Plan", "varchar")], [[one] for one in lines], read, scanned)
        columns = [ResultColumn(name.lower(), _name_type(str(kind))) for name, kind, *_ in described]
        rows = [[_write(value) for value in row] for row in values]
        return Result(columns, rows, read, scanned)

    def _show(self, sql: str, database: str, catalog: str) -> Result:
        words = [one.strip("`\"'") for one in re.findall(r"`[^`]*`|\"[^\"]*\"|'[^']*'|[\w$-]+", sql)]
        match [word.upper() for word in words]:
            case ["SHOW", "DATABASES" | "SCHEMAS", *_]:
                names = [one.name for one in self._company.databases] if self._company else []
                return _list_names("database_name", sorted(names))
            case ["SHOW", "TABLES", *place]:
                base = words[3].lower() if place[:1] == ["IN"] else database
                return _list_names("tab_name", sorted(one[2] for one in self._tables if one[:2] == (catalog, base)))
            case ["SHOW", "COLUMNS" | "PARTITIONS" as kind, *_] | ["DESCRIBE" as kind, *_]:
                base, name = words[-2:] if "." in sql else (database, words[-1])
                return self._describe(kind, (catalog, base.lower(), name.lower()))
        return Result(failure=NOT_HERE)

    def _describe(self, kind: str, key: tuple[str, str, str]) -> Result:
        if key not in self._tables:
            return Result(failure=f"FAILED: SemanticException [Error 10001]: Table not found {key[2]}")
        columns = self._tables[key].columns
        if kind == "PARTITIONS":
            return _list_names("partition", sorted(self._list_partitions(key)))
        if kind == "COLUMNS":
            return _list_names("field", [name for name, _ in columns])
        described = [ResultColumn(name, "string") for name in ("col_name", "data_type", "comment")]
        return Result(described, [[f"{name:<20}\t{type_:<20}\t{'':<20}"] for name, type_ in columns])

    def _list_partitions(self, key: tuple[str, ...]) -> Iterator[str]:
        company = self._company
        found = [
            table
            for base in (company.databases if company else ())
            for table in base.tables
            if key[1:] == (base.name, table.name)
        ]
        for table in found:
            names = [one.name for one in table.partition_keys]
            values = {row[len(table.columns) :] for row in table.rows}
            yield from ("/".join(f"{name}={one}" for name, one in zip(names, row, strict=True)) for row in values)


def _fill(company: Company, table: Table) -> Filled:
    columns = [(one.name, one.type) for one in (*table.columns, *table.partition_keys)]
    rows = [tuple(row) for row in table.rows] if table.rows else list(_list_packages(company, table.name))
    return Filled(columns, rows, table.sql)


def _list_packages(company: Company, name: str) -> Iterator[tuple[object, ...]]:
    """Yield the rows of one of Quilt's tables about the packages of a bucket."""
    found = re.fullmatch(r"(.+)_package_(revision|tag|manifest|entry)", name)
    buckets = [one for one in company.buckets if found and one.name == found[1]]
    for bucket in buckets:
        for package in bucket.packages:
            for revision in package.revisions:
                top_hash = compute_hash(bucket, revision)
                match found and found[2]:
                    case "revision":
                        yield package.name, datetime.fromtimestamp(revision.created, UTC).replace(tzinfo=None), top_hash
                    case "manifest":
                        yield top_hash, revision.message, json.dumps(revision.user_meta)
                    case "entry":
                        yield from ((top_hash, path, bucket.locate(one)) for path, one in revision.entries.items())
                    case "tag" if revision is package.revisions[-1]:
                        yield package.name, "latest", top_hash


def _read_packages(bucket: Bucket, config: str) -> Filled:
    """Return a table of tabulator: the rows of the files in the newest revisions of packages."""
    read = yaml.safe_load(config)
    # a group can be named without the P, as in `captured_columns` of the answer
    forms = (re.sub(r"\(\?<(?![=!])", "(?P<", read["source"][name]) for name in ("package_name", "logical_key"))
    package_form, key_form = map(re.compile, forms)
    schema = [(one["name"], "double" if one["type"] == "DOUBLE" else one["type"].lower()) for one in read["schema"]]
    captured = [*package_form.groupindex, *key_form.groupindex]
    rows: list[tuple[object, ...]] = []
    for package in bucket.packages:
        revision, in_name = package.revisions[-1], package_form.search(package.name)
        for path, place in sorted(revision.entries.items()):
            in_key = key_form.search(path)
            if in_name is None or in_key is None:
                continue
            groups = {**in_name.groupdict(), **in_key.groupdict()}
            start = [groups[name] for name in captured]
            end = [package.name, path, bucket.locate(place), compute_hash(bucket, revision), None]
            found = _read_rows(bucket.read(place), read["parser"])
            rows += [(*(row[name] for name, _ in schema), *start, *end) for row in found]
    names = [*captured, *TABULATOR_COLUMNS]
    return Filled([*schema, *((name, "string") for name in names)], rows)


def _read_rows(content: bytes, parser: Mapping[str, str]) -> Iterable[Mapping[str, object]]:
    if parser["format"] == "parquet":
        from pyarrow import parquet  # noqa: PLC0415 - heavy, and only queries need it

        rows: list[Mapping[str, object]] = parquet.read_table(io.BytesIO(content)).to_pylist()
        return rows
    return csv.DictReader(io.StringIO(content.decode()), delimiter=parser.get("delimiter", ","))


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _translate_type(kind: str) -> str:
    from sqlglot import exp  # noqa: PLC0415 - heavy, and only queries need it

    return exp.DataType.build(kind, dialect="hive").sql("duckdb")


def _name_columns(tree: "exp.Expr") -> None:
    """Name the columns of a result without a name as Athena does: _col0, _col1."""
    from sqlglot import exp  # noqa: PLC0415 - as above

    for select in [tree] if isinstance(tree, exp.Select) else list(tree.find_all(exp.Select))[:1]:
        named = [
            one
            if one.is_star or isinstance(one, exp.Alias | exp.Column | exp.Dot)
            else exp.alias_(one, f"_col{number}")
            for number, one in enumerate(select.expressions)
        ]
        select.set("expressions", named)


def _list_names(column: str, names: Iterable[str]) -> Result:
    return Result([ResultColumn(column, "string")], [[one] for one in names])


def _locate(sql: str, name: str) -> tuple[int, int]:
    before = sql[: max(0, sql.lower().find(name.lower()))]
    return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1


def _explain(error: Exception, sql: str) -> str:
    """Return the failure of Athena for one of DuckDB."""
    text = str(error)
    if found := re.search(r'Referenced column "([^"]+)" not found', text):
        line, column = _locate(sql, found[1])
        return f"COLUMN_NOT_FOUND: line {line}:{column}: Column '{found[1].lower()}' cannot be resolved"
    if "Could not convert string" in text:
        found = re.search(r"Could not convert string '([^']*)' to (\w+)", text)
        kind, value = (CASTS.get(found[2], found[2].lower()), found[1]) if found else ("integer", "")
        return f"INVALID_CAST_ARGUMENT: Cannot cast '{value}' to {kind}"
    return f"GENERIC_USER_ERROR: {text.splitlines()[0]}"


ATHENA_TYPES = {
    "HUGEINT": "bigint",
    "INTEGER": "integer",
    "VARCHAR": "varchar",
    "FLOAT": "real",
    "BLOB": "varbinary",
    "TIMESTAMP_S": "timestamp",
    '"NULL"': "unknown",
}

CASTS = {"INT32": "integer", "INT64": "bigint"}


def _name_type(kind: str) -> str:
    if kind.endswith("]"):
        return "array"
    start = kind.partition("(")[0]
    return {**ATHENA_TYPES, "STRUCT": "row", "TIMESTAMP WITH TIME ZONE": "timestamp with time zone"}.get(
        start, start.lower()
    )


def _write(value: object) -> str | None:
    """Return a value as Athena writes it; None for NULL."""
    return None if value is None else _write_known(value)


def _write_known(value: object) -> str:
    """Return a value as Athena writes it; `null` for NULL, as inside of other values."""
    match value:
        case None | bool():
            text = {None: "null", True: "true", False: "false"}[value]
        case float():
            text = _write_double(value)
        case datetime():
            zone = f" {value.tzname()}" if value.tzinfo else ""
            text = f"{value:%Y-%m-%d %H:%M:%S}.{value.microsecond // 1000:03}{zone}"
        case bytes():
            text = value.hex(" ")
        case list() | tuple():
            text = f"[{', '.join(map(_write_known, value))}]"
        case dict():
            text = f"{{{', '.join(f'{_write_known(key)}={_write_known(one)}' for key, one in value.items())}}}"
        case _:
            text = str(value)
    return text


def _write_double(value: float) -> str:
    """Return a double as Java writes it."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or SMALLEST_PLAIN <= abs(value) < LARGEST_PLAIN:
        return repr(value)
    digits, _, exponent = f"{value!r}".partition("e")
    if not exponent:
        sign, plain = ("-", digits[1:]) if digits.startswith("-") else ("", digits)
        whole, _, part = plain.partition(".")
        if whole != "0":
            mantissa, power = whole + part, len(whole) - 1
        else:
            mantissa = part.lstrip("0")
            power = len(mantissa) - len(part) - 1
        mantissa = mantissa.rstrip("0") or "0"
        return f"{sign}{mantissa[0]}.{mantissa[1:] or '0'}E{power}"
    return f"{digits if '.' in digits else digits + '.0'}E{int(exponent)}"
