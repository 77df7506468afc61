"""The parts of a user's machine that a demo world replaces: environment variables and the paths of quilt3's files."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType
from unittest.mock import patch

import quilt3
import quilt3.api
import quilt3.packages
import quilt3.session
import quilt3.telemetry
import quilt3.util

from quilt_mcp.commands.demo.http_server import Certificate
from quilt_mcp.commands.demo.records import REGION

LOOPBACK = "127.0.0.1,localhost"
TRUST = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


@contextmanager
def isolate(directory: Path) -> Iterator[None]:
    """Let AWS, Quilt and this project use only a directory until the context ends. Then everything is restored."""
    with patch.dict(os.environ), _move_quilt3(directory / "quilt"):
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


def _is_theirs(name: str) -> bool:
    """Return whether a variable says how the user reaches AWS, Quilt or the network."""
    return name.startswith(("AWS_", "QUILT_API", "QUILT_CATALOG", "QUILT_REGISTRY")) or (
        name.lower().endswith("_proxy") or name in TRUST
    )


def route_to(port: int, certificate: Certificate, directory: Path) -> None:
    """Let this process and its children reach the hosts of the demo, and no others, at a port of 127.0.0.1.

    `isolate` restores the environment.
    """
    authority = directory / "certificate-authority.pem"
    authority.write_bytes(certificate.authority)
    proxy = f"http://127.0.0.1:{port}"
    os.environ |= dict.fromkeys(("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"), proxy)
    os.environ |= dict.fromkeys(("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"), str(authority))


@contextmanager
def _move_quilt3(directory: Path) -> Iterator[None]:
    """Let quilt3 keep its files in a directory until the context ends."""
    with ExitStack() as stack:
        for owner, values in _list_constants(directory):
            for name, value in values.items():
                stack.enter_context(patch.object(owner, name, value))
        quilt3.session.clear_session()
        stack.callback(quilt3.session.clear_session)
        yield


def _list_constants(directory: Path) -> list[tuple[ModuleType | type, dict[str, object]]]:
    """Return the constants that quilt3 computes from the environment at import, computed for a directory instead."""
    config, cache = directory / "config.yml", directory / "cache"
    util_constants = {
        "BASE_DIR": str(directory),
        "BASE_PATH": directory,
        "CONFIG_PATH": config,
        "CONFIG_TEMPLATE": quilt3.util.CONFIG_TEMPLATE.replace(quilt3.util.BASE_PATH.as_uri(), directory.as_uri()),
        "CACHE_PATH": cache,
        "TEMPFILE_DIR_PATH": directory / "tempfiles",
    }
    session_constants = {
        "BASE_PATH": directory,
        "AUTH_PATH": directory / "auth.json",
        "CREDENTIALS_PATH": directory / "credentials.json",
        "_api_key": None,
    }
    return [
        (quilt3.util, util_constants),
        (quilt3.session, session_constants),
        (quilt3.api, {"CONFIG_PATH": config}),
        (quilt3.packages, {"CACHE_PATH": cache}),
        (quilt3.telemetry.ApiTelemetry, {"telemetry_disabled": True}),
    ]
