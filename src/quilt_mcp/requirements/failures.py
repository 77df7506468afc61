"""The failures of the requirements database."""

from quilt_mcp.app.database.failures import DatabaseFailures
from quilt_mcp.core.errors import Unauthorized
from quilt_mcp.requirements.settings import FILE_NAME


class UnknownUser(Unauthorized):
    """The caller is signed in but is not a user of the requirements database."""

    reason = "unknown user"
    default_actions = ("Ask an administrator of the requirements database to add you as a user and to a project.",)


CHECK_STATUS = "Run `quilt-mcp requirements status` in a terminal to check the connection."

FAILURES = DatabaseFailures(
    name="requirements database",
    setting="QUILT_MCP_DATABASE_URL",
    file_name=FILE_NAME,
    check=CHECK_STATUS,
    grant="Grant the user SELECT on its tables. Imports and migrations need all privileges.",
)
