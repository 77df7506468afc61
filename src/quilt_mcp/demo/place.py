"""The place of a demo world: its environment and its directory. Cheap, so that a server can start before its world.

A server that is created here reads the settings of the world. `quilt_mcp.demo.world` then furnishes the place, with the
stack, the AWS account and the data.
"""

import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from quilt_mcp.app import default_app
from quilt_mcp.demo.account import REGION

LIBRARIES = ("duckdb", "graphql", "moto", "trustme")
"""What the extra `demo` adds."""
LOOPBACK = "127.0.0.1,localhost"
TRUST = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")

_occupied = threading.Lock()


def is_installed() -> bool:
    """Return whether the libraries of the demo are installed."""
    return all(map(find_spec, LIBRARIES))


@contextmanager
def open_place() -> Iterator[Path]:
    """Put this process into the place of a demo world until the context ends. Then everything is restored.

    Raises:
        RuntimeError: this process is already in a world.
    """
    if not _occupied.acquire(blocking=False):
        raise RuntimeError("This process is already in a demo world. Leave it before you enter another.")
    try:
        # First, so that it is restored last: a thread that outlives the world cannot make an app of it meanwhile.
        with default_app.replace_temporarily(), tempfile.TemporaryDirectory(prefix="quilt-mcp-demo-") as name:
            directory = Path(name).resolve()
            with isolate_environment(directory):
                yield directory
    finally:
        _occupied.release()


@contextmanager
def isolate_environment(directory: Path) -> Iterator[None]:
    """Let the environment name a directory for AWS, Quilt and this project until the context ends."""
    before = dict(os.environ)
    try:
        for name in [name for name in os.environ if _is_theirs(name)]:
            del os.environ[name]
        os.environ.update(
            AWS_CONFIG_FILE=str(directory / "aws-config"),
            AWS_SHARED_CREDENTIALS_FILE=str(directory / "aws-credentials"),
            BOTO_CONFIG=str(directory / "boto-config"),  # boto3 still reads credentials from this file
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
    finally:
        os.environ.clear()
        os.environ.update(before)


def _is_theirs(name: str) -> bool:
    return name.startswith(("AWS_", "QUILT_API", "QUILT_CATALOG", "QUILT_REGISTRY")) or (
        name.lower().endswith("_proxy") or name in TRUST
    )
