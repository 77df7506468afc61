"""server.json: the entry of the server in the MCP registry.

The package is the bundle on the release. The name `quilt-mcp` on the Python package index belongs to another server.
The registry requires a namespace that the publisher owns, and the checksum of the bundle. Both are known at the
release, so the entry in this repository has a name and an address of example.com.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo

from distribution.project import BUNDLE, DESCRIPTION, PROJECT, TITLE, is_secret, local_settings, types_of

SCHEMA = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
EXAMPLE = "com.example", "https://example.com"
FORMATS: dict[object, str] = {bool: "boolean", int: "number", float: "number", Path: "filepath"}


def write_entry(path: Path, repository: str | None, bundle: Path | None) -> None:
    """Write the entry: of this repository, or of the release of a repository on GitHub with this bundle."""
    entry = describe_entry(repository, bundle.read_bytes() if bundle else None)
    path.write_text(json.dumps(entry, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def describe_entry(repository: str | None, bundle: bytes | None) -> dict[str, Any]:
    """Return the entry."""
    namespace, url = EXAMPLE
    if repository:
        namespace, url = f"io.github.{repository.partition('/')[0]}", f"https://github.com/{repository}"
    version = PROJECT["version"]
    return {
        "$schema": SCHEMA,
        "name": f"{namespace}/{PROJECT['name']}",
        "title": TITLE,
        "description": DESCRIPTION,
        **({"repository": {"url": url, "source": "github"}} if repository else {}),
        "version": version,
        "packages": [
            {
                "registryType": "mcpb",
                "identifier": f"{url}/releases/download/v{version}/{BUNDLE}",
                **({"fileSha256": hashlib.sha256(bundle).hexdigest()} if bundle else {}),
                "transport": {"type": "stdio"},
                "environmentVariables": [describe_variable(name, field) for name, field in local_settings().items()],
            }
        ],
    }


def describe_variable(name: str, field: FieldInfo) -> dict[str, Any]:
    """Return the description of an environment variable."""
    kinds = types_of(field.annotation)
    form = next((form for kind, form in FORMATS.items() if kind in kinds), "string")
    return {
        "name": name,
        "description": field.description,
        "format": form,
        "isRequired": field.is_required(),
        "isSecret": is_secret(field),
        **({} if field.default_factory or field.default is None else {"default": write_default(field.default)}),
    }


def write_default(value: object) -> str:
    """Return a default as a person types it."""
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)
