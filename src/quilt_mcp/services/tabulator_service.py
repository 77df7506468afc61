"""tabulator://: the buckets that have tabulator tables."""

from typing import Any

from quilt_mcp import runtime_context
from quilt_mcp.errors import QueryRefused
from quilt_mcp.services.auth_metadata import catalog_info

QUERY = "query tabulatorBuckets { bucketConfigs { name tabulatorTables { name } } }"


def tabulator_buckets_list() -> dict[str, Any]:
    """The buckets with tabulator tables, each with its tables' names, sorted by name.

    One GraphQL request tells all. Where the registry is too old for it, the buckets come from tabulator's data catalog
    in Athena: `source` is then "athena", and the tables, which that does not tell, are null.
    """
    try:
        source, rows = "registry", _from_registry()
    except QueryRefused:
        catalog = catalog_info()["tabulator_data_catalog"]
        if catalog is None:
            raise
        source, rows = "athena", _from_athena(catalog)
    return {"buckets": rows, "count": len(rows), "source": source}


def _from_registry() -> list[dict[str, Any]]:
    configs = runtime_context.caller().graphql("tabulatorBuckets", QUERY)["bucketConfigs"]
    tables = {one["name"]: sorted(table["name"] for table in one["tabulatorTables"]) for one in configs}
    return [
        {"name": name, "tables": names, "table_count": len(names)} for name, names in sorted(tables.items()) if names
    ]


def _from_athena(catalog: str) -> list[dict[str, Any]]:
    pages = runtime_context.caller().aws.pages("athena", "list_databases", "DatabaseList", CatalogName=catalog)
    return [{"name": name, "tables": None, "table_count": None} for name in sorted(one["Name"] for one in pages)]
