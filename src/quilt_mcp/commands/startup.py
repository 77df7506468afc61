"""Creating the server for a command."""

import logging
import os

from cyclopts import CycloptsError

from quilt_mcp.app.domain import InvalidDomain
from quilt_mcp.app.secret_files import find_exposed_files
from quilt_mcp.http.auth import MisconfiguredSignIn
from quilt_mcp.server import QuiltServer, create_server
from quilt_mcp.settings import Settings

STARTUP_ERRORS = (InvalidDomain, MisconfiguredSignIn)


logger = logging.getLogger(__name__)


def open_server() -> QuiltServer:
    """Create the server with the settings of the environment.

    Raises:
        CycloptsError: the server cannot start; the message names the cause.
    """
    try:
        server = create_server()
    except STARTUP_ERRORS as error:
        raise CycloptsError(msg=f"{str(error).rstrip('.')}.") from error
    for problem in find_exposed_files(Settings, os.environ):
        logger.warning(problem)
    return server
