"""The bundle for Claude Desktop: a zip file with the sources and a manifest, as `mcpb` of Anthropic defines it.

The server type is uv: Claude Desktop installs Python and the dependencies on the user's machine, for its platform. The
versions are those that this project tests.
"""

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from distribution.project import BUNDLE, DESCRIPTION, PROJECT, ROOT, TITLE, is_secret, local_settings
from quilt_mcp.main import mcp

MANIFEST_VERSION = "0.4"  # the first with the server type uv
ENTRY_POINT = "server.py"
START = '''"""Serves Quilt's resources to Claude Desktop."""

import sys

try:
    from quilt_mcp.commands.entry import main
except ModuleNotFoundError as error:
    sys.exit(f"{error}. uv installs what this file needs: uv run --directory DIRECTORY_OF_THIS_FILE server.py")

sys.argv[1:] = ["serve"]
sys.exit(main())
'''
ASKED = {"catalog_url": ("Quilt catalog", "QUILT_CATALOG_URL"), "api_key": ("Quilt API key", "QUILT_API_KEY")}
"""What Claude Desktop asks the user: the key in the manifest, its title, and the environment variable."""
EPOCH = (1980, 1, 1, 0, 0, 0)
"""The time of every file, so that the same sources give the same bytes."""


def write_bundle(path: Path) -> None:
    """Write the bundle."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with ZipFile(path, "w") as bundle:
        for name, content in sorted(find_files()):
            member = ZipInfo(name, EPOCH)
            member.compress_type = ZIP_DEFLATED
            member.external_attr = 0o644 << 16
            bundle.writestr(member, content)


def find_files() -> Iterator[tuple[str, bytes]]:
    """Yield the name and the content of each file of the bundle."""
    yield "manifest.json", (json.dumps(describe_bundle(), indent=2, ensure_ascii=False) + "\n").encode()
    yield ENTRY_POINT, START.encode()
    yield "pyproject.toml", write_project().encode()
    for name in (PROJECT["readme"], *PROJECT["license-files"]):
        yield name, (ROOT / name).read_bytes()
    for path in (ROOT / "src" / "quilt_mcp").rglob("*"):
        if path.is_file() and path.parent.name != "__pycache__":
            yield path.relative_to(ROOT).as_posix(), path.read_bytes()


def describe_bundle() -> dict[str, Any]:
    """Return the manifest."""
    settings = local_settings()
    return {
        "manifest_version": MANIFEST_VERSION,
        "name": Path(BUNDLE).stem,
        "display_name": TITLE,
        "version": PROJECT["version"],
        "description": DESCRIPTION,
        "long_description": PROJECT["description"],
        "author": PROJECT["authors"][0],
        "license": PROJECT["license"],
        "keywords": PROJECT["keywords"],
        "server": {
            "type": "uv",
            "entry_point": ENTRY_POINT,
            "mcp_config": {
                "command": "uv",
                "args": ["run", "--directory", "${__dirname}", ENTRY_POINT],
                "env": {variable: f"${{user_config.{key}}}" for key, (_, variable) in ASKED.items()},
            },
        },
        "tools": [{"name": tool.name, "description": tool.title} for tool in asyncio.run(mcp.list_tools())],
        "compatibility": {
            "platforms": ["darwin", "win32", "linux"],
            "runtimes": {"python": PROJECT["requires-python"]},
        },
        "user_config": {
            key: {
                "type": "string",
                "title": title,
                "description": settings[variable].description,
                "required": False,
                "default": "",  # without one, Claude Desktop passes the name of the variable as its value
                "sensitive": is_secret(settings[variable]),
            }
            for key, (title, variable) in ASKED.items()
        },
    }


def write_project() -> str:
    """Return the bundle's pyproject.toml: that of the project without its extras and tools, with tested versions."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    tables = re.split(r"^(?=\[)", text, flags=re.MULTILINE)
    kept = (
        "[build-system]",
        "[project]",
        "[project.scripts]",
        '[project.entry-points."quilt_mcp.domains"]',
        "[tool.hatch.build.targets.wheel]",
    )
    versions = re.findall(
        r"^[\w.-]+==\S+", (ROOT / ".ci" / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE
    )
    lines = "".join(f"  {json.dumps(version)},\n" for version in versions)
    return "".join(table for table in tables if table.startswith(kept)) + (
        f"[tool.uv]\nconstraint-dependencies = [\n{lines}]\n"
    )
