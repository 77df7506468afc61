"""tabulator://: the buckets that have tabulator tables."""

from typing import TYPE_CHECKING, Any

from typing_extensions import TypedDict  # pydantic needs it before Python 3.12

from quilt_mcp import runtime_context
from quilt_mcp.errors import QueryRefused, ResourceFailure
from quilt_mcp.services.auth_metadata import tabulator_data_catalog

if TYPE_CHECKING:
    from quilt_mcp.caller import Caller

QUERY = "query tabulatorBuckets { bucketConfigs { name tabulatorTables { name } } }"


class Table(TypedDict):
    """A tabulator table."""

    name: str


class BucketWithTables(TypedDict):
    """A bucket and its tabulator tables."""

    name: str
    tabulatorTables: list[Table]


class TabulatorAnswer(TypedDict):
    """The answer to the query."""

    bucketConfigs: list[BucketWithTables]


def tabulator_buckets_list() -> dict[str, Any]:
    """The buckets with tabulator tables, each with its tables' names, sorted by name.

    One GraphQL request tells all. Where the registry is too old for it, the buckets come from tabulator's data catalog
    in Athena: `source` is then "athena", and the tables, which that does not tell, are null.
    """
    caller = runtime_context.caller()
    try:
        source, rows = "registry", _from_registry(caller)
    except QueryRefused as refusal:
        source, rows = "athena", _from_athena(caller, refusal)
    return {"buckets": rows, "count": len(rows), "source": source}


def _from_registry(caller: "Caller") -> list[dict[str, Any]]:
    configs = caller.graphql("tabulatorBuckets", QUERY, TabulatorAnswer)["bucketConfigs"]
    tables = {one["name"]: sorted(table["name"] for table in one["tabulatorTables"]) for one in configs}
    return [
        {"name": name, "tables": names, "table_count": len(names)} for name, names in sorted(tables.items()) if names
    ]


def _from_athena(caller: "Caller", refusal: QueryRefused) -> list[dict[str, Any]]:
    try:
        catalog = tabulator_data_catalog(caller.catalog_config().get("analyticsBucket"))
    except ResourceFailure:
        catalog = None
    if catalog is None:
        raise refusal
    pages = caller.aws.pages("athena", "list_databases", "DatabaseList", CatalogName=catalog)
    return [{"name": name, "tables": None, "table_count": None} for name in sorted(one["Name"] for one in pages)]
