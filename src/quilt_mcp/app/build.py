"""How this installation was made: the commit that it was built from, and the command that adds an extra."""

import json
import os
import re
import shlex
import sys
from importlib.metadata import PackageNotFoundError, distribution, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
FILE = "commit.txt"
"""Written beside this module by src/build_commit.py, when a wheel is built."""
PACKAGE = Path(__file__).resolve().parents[1]
EXTRAS = {"analysis": "crosshair", "demo": "moto", "postgres": "psycopg", "preview": "pypdf", "valkey": "redis"}
"""A module of each extra."""
UV_CACHES = {"archive-v0", "builds-v0", "environments-v2"}
"""Directories in uv's cache from which uvx runs commands."""


def find_version() -> str:
    """Return the version of the installed package."""
    return version("quilt-mcp")


def find_commit(package: Path = PACKAGE) -> str | None:
    """Return the commit of the sources; None if it is not known.

    It is in a file of the wheel, or in the metadata of an installation from a repository.

    Args:
        package: the directory of the package.
    """
    file = package / "app" / FILE
    written = file.read_text(encoding="ascii", errors="replace") if file.is_file() else None
    source = _read_origin().get("vcs_info")
    return _check(written) or _check(source.get("commit_id") if isinstance(source, dict) else None)


def describe_version() -> str:
    return f"quilt-mcp {find_version()} ({find_commit() or 'unknown commit'})"


def _check(text: object) -> str | None:
    found = text.strip() if isinstance(text, str) else ""
    return found if COMMIT.fullmatch(found) else None


def advise_extra(extra: str) -> str:
    """Return how to install an extra into the environment that runs, which keeps the extras that it has."""
    return f"install the extra `{extra}`: `{shlex.join([*_find_installer(), *_name_source(extra)])}`"


def advise_permanent_install(command: Path) -> str | None:
    """Return how to install this package, if the command is in a cache that uvx or `pipx run` can delete; else None."""
    parts = set(command.parts)
    if parts & UV_CACHES:
        return shlex.join(["uv", "tool", "install", *_name_source()])
    is_cached = "pipx" in parts and parts & {".cache", "cache", "Cache"}
    return shlex.join(["pipx", "install", *_name_source()]) if is_cached else None


def _name_source(*extras: str) -> list[str]:
    """Return the arguments of an installer for this package with its extras and more.

    The name of the package alone is not enough: it can be installed from a clone or a repository (PEP 610).
    """
    wanted = ",".join(sorted({*extras, *(name for name, module in EXTRAS.items() if find_spec(module))}))
    brackets = f"[{wanted}]" if wanted else ""
    origin = _read_origin()
    url = origin.get("url", "")
    if isinstance(vcs := origin.get("vcs_info"), dict):
        return [f"quilt-mcp{brackets} @ {vcs.get('vcs')}+{url}@{vcs.get('commit_id')}"]
    if not url.startswith("file:"):
        return [f"quilt-mcp{brackets}"]
    path = unquote(urlsplit(url).path)
    path = path.lstrip("/") if os.name == "nt" else path
    return [*(["-e"] if origin.get("dir_info", {}).get("editable") else []), f"{path}{brackets}"]


def _find_installer() -> list[str]:
    """Return the command that installs into the environment of this process."""
    parts = Path(sys.prefix).parts
    if "pipx" in parts:
        return ["pipx", "install", "--force"]
    if "uv" in parts and "tools" in parts:
        return ["uv", "tool", "install", "--force"]
    if find_spec("pip"):
        return [sys.executable, "-m", "pip", "install"]
    return ["uv", "pip", "install", "--python", sys.executable]


def _read_origin() -> dict[str, Any]:
    """Return what the installer wrote about the origin of this installation (PEP 610); empty if it wrote nothing."""
    try:
        origin: object = json.loads(distribution("quilt-mcp").read_text("direct_url.json") or "null")
    except (PackageNotFoundError, ValueError):
        return {}
    return origin if isinstance(origin, dict) else {}
