"""The failures of the workflow database."""

from quilt_mcp.app.database.failures import DatabaseFailures
from quilt_mcp.workflows.settings import FILE_NAME

SCHEMA = "quilt_mcp_workflows"
"""The schema of the tables in PostgreSQL."""

FAILURES = DatabaseFailures(
    name="workflow database",
    setting="QUILT_MCP_WORKFLOWS_URL",
    file_name=FILE_NAME,
    check="If the error persists, check QUILT_MCP_WORKFLOWS_URL.",
    grant=f"Let the user of QUILT_MCP_WORKFLOWS_URL create the schema {SCHEMA}, or make it the schema's owner.",
)
