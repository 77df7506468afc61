"""The AWS configuration of this machine: the local user without a login to a stack calls AWS with it.

Imported on first use by `callers.py`, because it imports quilt3.
"""

import os
from pathlib import Path
from typing import NamedTuple

from quilt_mcp.services.stack.quilt_files import Stamp, read_stamp


class AWSFingerprint(NamedTuple):
    """What changes when the user configures AWS. It contains keys, so it is never shown."""

    variables: frozenset[tuple[str, str]]
    files: tuple[Stamp, ...]


def take_aws_fingerprint() -> AWSFingerprint:
    """Return a value that changes when the user writes the AWS files or sets AWS variables.

    A boto3 session reads them once, so it keeps the identity that they had.
    """
    variables = frozenset((name, value) for name, value in os.environ.items() if name.startswith("AWS_"))
    paths = (
        os.environ.get("AWS_SHARED_CREDENTIALS_FILE") or "~/.aws/credentials",
        os.environ.get("AWS_CONFIG_FILE") or "~/.aws/config",
    )
    # Without a home directory, pathlib fails.
    files = [Path(os.path.expanduser(path)) for path in paths]  # noqa: PTH111 - as above
    return AWSFingerprint(variables, tuple(map(read_stamp, files)))
