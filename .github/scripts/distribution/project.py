"""The project and its settings, as packages for MCP clients describe them."""

import tomllib
from pathlib import Path
from typing import Any, get_args

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from quilt_mcp.app.settings import DispatchSettings
from quilt_mcp.services.settings import CallerSettings, QuiltSettings

ROOT = Path(__file__).parents[3]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
TITLE = "Quilt"
BUNDLE = "quilt.mcpb"
DESCRIPTION = PROJECT["description"].partition(":")[0] + "."
"""At most 100 characters, which is the limit of the MCP registry."""

NOT_LOCAL = CallerSettings.model_fields.keys() | DispatchSettings.model_fields.keys()
"""The settings of QuiltSettings that concern callers who sign in over HTTP, or every server."""


def local_settings() -> dict[str, FieldInfo]:
    """Return the settings of a local user's server, by environment variable."""
    fields = {name: field for name, field in QuiltSettings.model_fields.items() if name not in NOT_LOCAL}
    return {
        alias if isinstance(alias := field.validation_alias, str) else f"QUILT_MCP_{name.upper()}": field
        for name, field in fields.items()
    }


def types_of(annotation: object) -> set[object]:
    """Return a type and the types that it consists of, such as those of a union."""
    return {annotation}.union(*(types_of(part) for part in get_args(annotation)))


def is_secret(field: FieldInfo) -> bool:
    """Return whether nobody may see the value."""
    return SecretStr in types_of(field.annotation)
