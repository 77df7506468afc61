"""How this installation was made: the commit that it was built from, and the command that adds an extra."""

import json
import os
import re
import shlex
import sys
from importlib.metadata import PackageNotFoundError, distribution, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from packaging.requirements import Requirement

COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
FILE = "commit.txt"
"""Written beside this module by src/build_commit.py, when a wheel is built."""
PACKAGE = Path(__file__).resolve().parents[1]
NAME = "quilt-mcp"
UV_CACHES = {"archive-v0", "builds-v0", "environments-v2"}
"""Directories in uv's cache from which uvx runs commands."""


def find_version() -> str:
    """Return the version of the installed package."""
    return version(NAME)


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
    wanted = ",".join(sorted({*extras, *_find_extras()}))
    brackets = f"[{wanted}]" if wanted else ""
    origin = _read_origin()
    url = origin.get("url", "")
    if isinstance(vcs := origin.get("vcs_info"), dict):
        return [f"{NAME}{brackets} @ {vcs.get('vcs')}+{url}@{vcs.get('commit_id')}"]
    if not url.startswith("file:"):
        return [f"{NAME}{brackets}"]
    path = unquote(urlsplit(url).path)
    path = path.lstrip("/") if os.name == "nt" else path
    return [*(["-e"] if origin.get("dir_info", {}).get("editable") else []), f"{path}{brackets}"]


def _find_extras() -> list[str]:
    """Return the extras of this installation: those whose requirements are all installed, by the package's metadata."""
    from packaging.requirements import Requirement  # noqa: PLC0415 - heavy, and only advice needs it

    own = distribution(NAME)
    requirements = [Requirement(text) for text in own.requires or []]

    def is_there(extra: str) -> bool:
        needed = [one for one in requirements if one.marker and _needs(one, extra) and not _needs(one, "")]
        return bool(needed) and all(
            all(map(is_there, one.extras)) if one.name == NAME else _is_installed(one.name) for one in needed
        )

    return [extra for extra in own.metadata.get_all("Provides-Extra") or [] if is_there(extra)]


def _needs(requirement: "Requirement", extra: str) -> bool:
    """Return whether this environment needs a requirement for an extra; the empty extra stands for none."""
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


def _is_installed(name: str) -> bool:
    try:
        return bool(distribution(name))
    except PackageNotFoundError:
        return False


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
        origin: object = json.loads(distribution(NAME).read_text("direct_url.json") or "null")
    except (PackageNotFoundError, ValueError):
        return {}
    return origin if isinstance(origin, dict) else {}
