"""athena://: databases, workgroups and past queries. Reads metadata only; no function runs a query."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

from quilt_mcp.core.answers import iso
from quilt_mcp.core.errors import ResourceFailure
from quilt_mcp.services.athena_answers import DatabaseRow, DatabasesAnswer
from quilt_mcp.services.athena_history import athena_query_history
from quilt_mcp.services.athena_recommendation import DATA_CATALOG
from quilt_mcp.services.athena_responses import AWSDatabase
from quilt_mcp.services.athena_tables import cut_parameters, describe_link
from quilt_mcp.services.athena_workgroups import athena_workgroups_list
from quilt_mcp.services.stack.callers import current_caller
from quilt_mcp.services.stack.errors import RefusedByAWS

if TYPE_CHECKING:
    from quilt_mcp.services.stack.aws_clients import AWSClients

__all__ = ["athena_databases_list", "athena_query_history", "athena_workgroups_list"]


def athena_databases_list() -> DatabasesAnswer:
    """The databases of the Glue data catalog.

    Each has its name, description, location, creation time and parameters. If you may not list databases in Glue,
    Athena is asked, which in most accounts needs the same right. If Athena lists them, `source` is "athena", and the
    location and creation time are null, because Athena does not return them.
    """
    aws = current_caller().aws
    source: Literal["glue", "athena"] = "glue"
    try:
        rows = _database_rows(aws.list_items("glue", "get_databases", "DatabaseList", MaxResults=100))
    except RefusedByAWS as refusal:
        source, rows = "athena", _list_in_athena(aws, refusal)
    return {
        "databases": rows,
        "data_catalog_name": DATA_CATALOG,
        "count": len(rows),
        "source": source,
        "region": aws.region,
    }


def _list_in_athena(aws: "AWSClients", refusal: RefusedByAWS) -> list[DatabaseRow]:
    """List the databases in Athena.

    Raises:
        RefusedByAWS: Athena did not list them. This is the refusal of Glue, because its right is what the caller needs.
    """
    try:
        return _database_rows(
            aws.list_items("athena", "list_databases", "DatabaseList", CatalogName=DATA_CATALOG, MaxResults=50)
        )
    except ResourceFailure as failure:
        refusal.details = f"{refusal.details}; then Athena: {failure.details or failure.message}"
        raise refusal from failure


def _database_rows(databases: Iterable[AWSDatabase]) -> list[DatabaseRow]:
    rows = [_database_row(database) for database in databases]
    return sorted(rows, key=lambda row: row["name"])


def _database_row(database: AWSDatabase) -> DatabaseRow:
    parameters, federation = database.get("Parameters", {}), database.get("FederatedDatabase", {})
    kept = cut_parameters(parameters)
    return {
        "name": database["Name"],
        "description": database.get("Description", ""),
        "location_uri": database.get("LocationUri"),
        "create_time": iso(database.get("CreateTime")),
        "parameters": kept,
        "parameters_truncated": kept != parameters,
        "link_target": describe_link(database.get("TargetDatabase")),
        "federated_source": federation.get("ConnectionName") or federation.get("Identifier"),
    }
