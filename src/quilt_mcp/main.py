"""`mcp`, the server object, for `fastmcp run`, for hosts that import it, and for `quilt-mcp serve`."""

import sys
from collections.abc import Callable

from pydantic import ValidationError

from quilt_mcp.app.home import NoHomeError
from quilt_mcp.server import STARTUP_ERRORS, QuiltServer, create_server, find_domains, settings_class
from quilt_mcp.settings import TITLE, describe_setting


def create_or_exit(create: Callable[[], QuiltServer] = create_server) -> QuiltServer:
    """Create the server. If it cannot start, exit with one line that names the cause.

    `fastmcp run` would show a traceback of many lines. Hosts that handle the errors call `create_server`.
    """
    try:
        return create()
    except (*STARTUP_ERRORS, NoHomeError) as error:
        reason = f"{str(error).rstrip('.')}."
    except ValidationError as error:
        if error.title != TITLE:  # not a setting, so a bug
            raise
        reason = describe_setting(error, lambda: settings_class(find_domains()))
    sys.exit(f"quilt-mcp: {' '.join(reason.split())}")


mcp = create_or_exit()
