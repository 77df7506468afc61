"""Tables that are more than their files: Iceberg, Delta and Hudi, and what Spark keeps in Glue about its tables.

The columns of such a table can be in its own metadata. Then Glue has none, old ones, or one that does not exist: Spark
registers a table that Hive cannot read with the column `col`, and keeps the columns in parameters
(`HiveExternalCatalog` in Spark's source).
"""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple, NotRequired

from typing_extensions import TypedDict

from quilt_mcp.app.json_depth import is_nested_too_deeply

if TYPE_CHECKING:
    from types_boto3_glue import type_defs as glue

TableFormat = Literal["iceberg", "delta", "hudi"]
FORMATS: tuple[TableFormat, ...] = ("iceberg", "delta", "hudi")
PROVIDER, SCHEMA = "spark.sql.sources.provider", "spark.sql.sources.schema"
PLACEHOLDER = [("col", "array<string>")]
NO_LOCATION = "-__PLACEHOLDER__"
"""The end of the location that Spark gives to a table whose data is elsewhere."""
MAX_PARTS = 1000
IN_LOG = (
    "Glue does not hold the columns of this table: they are in its own metadata, which engines read. "
    "`DESCRIBE` shows them, in Spark or, if Athena can read the table, in Athena."
)
FROM_SPARK = "They are those that Spark stored in the parameters of the table: Glue has only a placeholder."
HIVE_TYPES = {"byte": "tinyint", "integer": "int", "long": "bigint", "short": "smallint", "timestamp_ntz": "timestamp"}
"""The names that differ between Spark's schemas and Athena."""


class Field(TypedDict):
    """A column, or a partition key, in Glue's form."""

    Name: str
    Type: NotRequired[str]
    Comment: NotRequired[str]


class Layout(NamedTuple):
    """How the data of a table is arranged.

    Attributes:
        format: null for a table that consists only of its files.
        columns: those that exist, without partition keys; None if Glue does not hold them.
        columns_reason: why columns are unknown, or where they are from if Glue's own list is not true.
        partition_keys: None if they are unknown.
        location: where its data is; None if Glue does not say.
    """

    format: TableFormat | None
    columns: list[Field] | None
    columns_reason: str | None
    partition_keys: list[Field] | None
    location: str | None


def read_layout(table: "glue.TableTypeDef") -> Layout:
    """Return what Glue holds about the format, the columns and the location of a table."""
    storage, parameters = table.get("StorageDescriptor", {}), table.get("Parameters", {})
    kind = _find_format(parameters, storage.get("InputFormat", ""))
    location = storage.get("Location") or None
    if location and location.endswith(NO_LOCATION):
        location = storage.get("SerdeInfo", {}).get("Parameters", {}).get("path") or None
    columns = _list_columns(storage)
    keys = _list_fields(table.get("PartitionKeys", None if "TargetTable" in table else []))
    if kind == "iceberg":  # its partitioning is hidden
        return Layout(kind, columns, None, None, location)
    if kind == "delta":  # Glue's keys are none, or those of its symbolic links
        keys = keys or None
    if columns is None or not _is_placeholder(columns, parameters, kind):
        return Layout(kind, columns, None, keys, location)
    names = _read_partition_names(parameters)
    schema = _read_schema(parameters)
    if not schema:
        return Layout(kind, None, IN_LOG, keys, location)
    return Layout(
        kind,
        [one for one in schema if one["Name"] not in names],
        FROM_SPARK,
        [one for one in schema if one["Name"] in names] if names else keys,
        location,
    )


def _find_format(parameters: Mapping[str, str], input_format: str) -> TableFormat | None:
    """Return the format that engines see. Athena, Trino and crawlers state `table_type`, and Spark its provider."""
    for stated in (parameters.get("table_type", ""), parameters.get(PROVIDER, "")):
        for one in FORMATS:
            if stated.lower() == one:
                return one
    return "hudi" if input_format.startswith("org.apache.hudi.") else None


def _list_columns(storage: "glue.StorageDescriptorOutputTypeDef") -> list[Field] | None:
    """Return Glue's columns; None if it lists none. Glue keeps those that Iceberg tables had before."""
    if "Columns" not in storage:
        return None
    current = [one for one in storage["Columns"] if one.get("Parameters", {}).get("iceberg.field.current") != "false"]
    return _list_fields(current)


def _list_fields(columns: "list[glue.ColumnOutputTypeDef] | None") -> list[Field] | None:
    if columns is None:
        return None
    fields: list[Field] = []
    for one in columns:
        field: Field = {"Name": one["Name"]}
        if "Type" in one:
            field["Type"] = one["Type"]
        if one.get("Comment"):
            field["Comment"] = one["Comment"]
        fields.append(field)
    return fields


def _is_placeholder(columns: list[Field], parameters: Mapping[str, str], kind: TableFormat | None) -> bool:
    """Return whether these columns say nothing: Spark's, or none of a format that always has some."""
    if not columns:
        return kind is not None
    return PROVIDER in parameters and [(one["Name"], one.get("Type")) for one in columns] == PLACEHOLDER


def _read_partition_names(parameters: Mapping[str, str]) -> list[str]:
    count = _read_count(parameters, f"{SCHEMA}.numPartCols")
    return [parameters.get(f"{SCHEMA}.partCol.{at}", "") for at in range(count)]


def _read_schema(parameters: Mapping[str, str]) -> list[Field] | None:
    """Return the columns that Spark stored; None if there are none, or if they cannot be read."""
    count = _read_count(parameters, f"{SCHEMA}.numParts")
    parts = [parameters.get(f"{SCHEMA}.part.{at}", "") for at in range(count)] or [parameters.get(SCHEMA, "")]
    if not all(parts):
        return None
    text = "".join(parts)
    if is_nested_too_deeply(text.encode(errors="replace")):
        return None
    try:
        schema = json.loads(text)
        return [_read_field(one) for one in schema["fields"]]
    except (ValueError, KeyError, TypeError):
        return None


def _read_count(parameters: Mapping[str, str], name: str) -> int:
    text = parameters.get(name, "")
    return int(text) if text.isdecimal() and text.isascii() and len(text) <= len(str(MAX_PARTS)) else 0


def _read_field(field: Mapping[str, object]) -> Field:
    """Return a column of Spark's form.

    Raises:
        KeyError, TypeError: it is of another form.
    """
    found: Field = {"Name": _check_text(field["name"]), "Type": _write_type(field["type"])}
    metadata = field.get("metadata")
    if isinstance(metadata, dict) and isinstance(comment := metadata.get("comment"), str):
        found["Comment"] = comment
    return found


def _check_text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(type(value))
    return value


def _write_type(kind: object) -> str:
    """Return a type of Spark's form as Athena writes it, such as `array<struct<a:bigint>>`."""
    if not isinstance(kind, dict):
        return HIVE_TYPES.get(name := _check_text(kind), name)
    match kind["type"]:
        case "struct":
            fields = ",".join(f"{_check_text(one['name'])}:{_write_type(one['type'])}" for one in kind["fields"])
            return f"struct<{fields}>"
        case "array":
            return f"array<{_write_type(kind['elementType'])}>"
        case "map":
            return f"map<{_write_type(kind['keyType'])},{_write_type(kind['valueType'])}>"
        case "udt":
            return _write_type(kind["sqlType"])
        case other:
            return _check_text(other)
