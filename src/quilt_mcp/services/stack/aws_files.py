"""The AWS settings of this machine: environment variables, `~/.aws/config` and `~/.aws/credentials`.

A login to Quilt brings credentials of its own, so it works without files that botocore cannot use. Without a login, the
failure names the file.
"""

import logging
import os
from collections.abc import Mapping
from configparser import Error as ConfigParserError

import botocore.session
from botocore.exceptions import BotoCoreError

from quilt_mcp.core.errors import ResourceExecutionError

UNUSABLE = (ArithmeticError, AttributeError, BotoCoreError, LookupError, OSError, RecursionError, TypeError, ValueError)
"""What botocore raises for settings that it cannot use, before it sends a request."""
NO_PROFILE = (None, None, None, None)
"""In the form of botocore: no name in a file, no environment variable, no default, no conversion."""
NO_FILE = (None, None, os.devnull, None)
FILES = {"AWS_CONFIG_FILE": "~/.aws/config", "AWS_SHARED_CREDENTIALS_FILE": "~/.aws/credentials"}

logger = logging.getLogger(__name__)


def create_session(*, with_files: bool = True) -> botocore.session.Session:
    """Create a botocore session for credentials that it does not have to find.

    It has the settings of the user's AWS profile if they can be used: the credentials in the files are not needed, so a
    missing profile and a damaged file do no harm. Variables of the environment hold in any case.
    """
    if with_files:
        try:
            session = botocore.session.get_session()
            if session.profile is None or session.profile in session.available_profiles:
                session.get_scoped_config()  # reads the files
                return session
            return botocore.session.get_session({"profile": NO_PROFILE})
        except UNUSABLE as error:
            note_unused(error)
    return botocore.session.get_session({"profile": NO_PROFILE, "config_file": NO_FILE, "credentials_file": NO_FILE})


def note_unused(error: Exception) -> None:
    logger.warning(
        "The AWS files of this machine cannot be used, so the Quilt login works without: %s", describe(error)
    )


def make_unusable(error: Exception) -> ResourceExecutionError:
    """Return the failure for what botocore raised because of the settings of this machine."""
    return ResourceExecutionError(
        "The AWS settings of this machine cannot be used.",
        details=describe(error),
        suggested_actions=[
            "Correct the AWS file or variable that `details` names. `aws configure list` shows what AWS's tools read.",
            "Or run `quilt-mcp login` in a terminal: a Quilt login needs no AWS files.",
        ],
    )


def describe(error: Exception) -> str:
    """Return what is wrong with which file. The texts of botocore can contain what is in the file."""
    given: Mapping[str, object] = getattr(error, "kwargs", {})
    if isinstance(error, OSError) and error.filename:
        return f"{type(error).__name__}: {os.fsdecode(error.filename)}"
    if path := given.get("path"):  # the one that cannot be parsed
        cause, line = given.get("error"), ""
        if isinstance(cause, ConfigParserError):
            found = getattr(cause, "errors", None)  # of lines that are no settings
            number = getattr(cause, "lineno", None) or (found[0][0] if found else None)
            line = f", line {number}" if isinstance(number, int) else ""
        return f"{type(error).__name__}: {path}{line}"
    option = f" ({given['config_key']})" if "config_key" in given else ""
    used = [os.environ.get(name) or default for name, default in FILES.items()]
    present = [path for path in used if os.path.exists(os.path.expanduser(path))]  # noqa: PTH110, PTH111 - without a home
    return f"{type(error).__name__}{option}: {' or '.join([*present, 'an AWS_ variable'])}"
