"""The failures that only the requirements domain has."""

from quilt_mcp.core.errors import Unauthorized


class UnknownUser(Unauthorized):
    """The caller is signed in but is not a user of the requirements database."""

    reason = "unknown user"
    default_actions = ("Ask an administrator of the requirements database to add you as a user and to a project.",)
