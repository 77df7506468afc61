"""What of a person's machine a demo world replaces: environment variables, and the places of quilt3's files."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import quilt3
import quilt3.api
import quilt3.packages
import quilt3.session
import quilt3.telemetry
import quilt3.util

from quilt_mcp.demo.records import REGION

LOOPBACK = "127.0.0.1,localhost"


@contextmanager
def isolated(directory: Path) -> Iterator[None]:
    """Keep AWS, Quilt and this project inside a directory; on leaving, everything is as it was."""
    with patch.dict(os.environ), _quilt3_in(directory / "quilt"):
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            del os.environ[name]
        os.environ.update(
            AWS_CONFIG_FILE=str(directory / "aws-config"),
            AWS_SHARED_CREDENTIALS_FILE=str(directory / "aws-credentials"),
            BOTO_CONFIG=str(directory / "boto-config"),  # a file with credentials that boto3 still looks for
            AWS_EC2_METADATA_DISABLED="true",
            AWS_DEFAULT_REGION=REGION,
            XDG_DATA_HOME=str(directory / "share"),
            XDG_CACHE_HOME=str(directory / "cache"),
            QUILT_DISABLE_USAGE_METRICS="1",
            QUILT_MCP_DATA_DIR=str(directory / "data"),
            NO_PROXY=LOOPBACK,
            no_proxy=LOOPBACK,
        )
        yield


@contextmanager
def _quilt3_in(directory: Path) -> Iterator[None]:
    """Let quilt3 keep its files in a directory."""
    with ExitStack() as stack:
        for place, values in _quilt3_places(directory):
            stack.enter_context(patch.multiple(place, **values))
        quilt3.session.clear_session()
        stack.callback(quilt3.session.clear_session)
        yield


def _quilt3_places(directory: Path) -> list[tuple[ModuleType | type, dict[str, Any]]]:
    """What quilt3 works out from the environment when it is imported, worked out for a directory instead."""
    config, cache = directory / "config.yml", directory / "cache"
    of_util = {
        "BASE_DIR": str(directory),
        "BASE_PATH": directory,
        "CONFIG_PATH": config,
        "CONFIG_TEMPLATE": quilt3.util.CONFIG_TEMPLATE.replace(quilt3.util.BASE_PATH.as_uri(), directory.as_uri()),
        "CACHE_PATH": cache,
        "TEMPFILE_DIR_PATH": directory / "tempfiles",
    }
    of_session = {
        "BASE_PATH": directory,
        "AUTH_PATH": directory / "auth.json",
        "CREDENTIALS_PATH": directory / "credentials.json",
        "_api_key": None,
    }
    return [
        (quilt3.util, of_util),
        (quilt3.session, of_session),
        (quilt3.api, {"CONFIG_PATH": config}),
        (quilt3.packages, {"CACHE_PATH": cache}),
        (quilt3.telemetry.ApiTelemetry, {"telemetry_disabled": True}),
    ]
