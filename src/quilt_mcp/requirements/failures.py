"""The failures of the requirements database."""

from quilt_mcp.app.database.failures import DatabaseFailures
from quilt_mcp.requirements.settings import FILE_NAME

CHECK_STATUS = "Run `quilt-mcp requirements status` in a terminal to check the connection."

FAILURES = DatabaseFailures(
    name="requirements database",
    setting="QUILT_MCP_DATABASE_URL",
    file_name=FILE_NAME,
    check=CHECK_STATUS,
    grant="Grant the user SELECT on its tables. Imports and migrations need all privileges.",
)
