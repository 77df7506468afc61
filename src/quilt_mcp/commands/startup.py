"""Creating the server for a command."""

import logging
import os

from quilt_mcp.app.secret_files import find_exposed_files
from quilt_mcp.commands.misuse import Misuse
from quilt_mcp.server import STARTUP_ERRORS, QuiltServer, create_server
from quilt_mcp.settings import Settings

logger = logging.getLogger(__name__)


def open_server() -> QuiltServer:
    """Create the server with the settings of the environment.

    Raises:
        Misuse: the server cannot start; the message names the cause.
    """
    try:
        server = create_server()
    except STARTUP_ERRORS as error:
        raise Misuse(f"{str(error).rstrip('.')}.") from error
    for problem in find_exposed_files(Settings, os.environ):
        logger.warning(problem)
    return server
