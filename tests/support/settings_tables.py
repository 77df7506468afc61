"""The tables of settings for docs/settings.md, from the classes that declare the settings."""

import inspect
from collections.abc import Iterator
from ipaddress import IPv4Network, IPv6Network
from typing import Literal, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import AliasChoices
from pydantic.fields import FieldInfo

from quilt_mcp.app.secret_files import can_be_in_file
from quilt_mcp.app.settings import Group, SettingsGroup
from tests.support.settings import Settings

PREFIX = "QUILT_MCP_"

TITLES = (
    "Local use",
    "Time limits and lists",
    "Storage and log",
    "Requirements",
    "Workflows",
    "Analysis",
    "Serving a team: sign-in",
    "Serving a team: limits and shared state",
    "Serving a team: network",
)
"""The order of the groups. Groups of other domains follow."""

COMPUTED = {"data_dir": "the user data directory", "analysis_concurrency": "the number of cores, at most 64"}
"""Defaults that depend on the machine."""


def grouped_settings() -> dict[Group, list[str]]:
    """Return the names of the settings of each group: that of the class that declares the setting."""
    groups: dict[Group, list[str]] = {}
    for name in Settings.model_fields:
        declared_by = next(cls for cls in Settings.__mro__ if name in inspect.get_annotations(cls))
        assert issubclass(declared_by, SettingsGroup)
        groups.setdefault(declared_by.group, []).append(name)
    return dict(sorted(groups.items(), key=lambda found: (*TITLES, found[0].title).index(found[0].title)))


def settings_tables() -> str:
    """Return a section with a table for each group."""
    parts: list[str] = []
    for group, names in grouped_settings().items():
        rows = [_row(name, Settings.model_fields[name]) for name in names]
        head = ["| variable | default | values | description |", "| --- | --- | --- | --- |"]
        parts += [f"## {group.title}", "", group.introduction, "", *head, *rows, ""]
    return "\n".join(parts).rstrip()


def name_variable(name: str) -> str:
    """Return the environment variable of a setting. Those of Quilt's own documentation have no prefix."""
    alias = Settings.model_fields[name].validation_alias
    return alias if isinstance(alias, str) else f"{PREFIX}{name.upper()}"


def _row(name: str, field: FieldInfo) -> str:
    default = COMPUTED.get(name, "computed") if field.default_factory else _code(_typed(field.default))
    aliases = field.validation_alias.choices if isinstance(field.validation_alias, AliasChoices) else []
    older = [f"`{alias}`" for alias in aliases if not str(alias).startswith(PREFIX)]
    also = f" Older name: {', '.join(older)}." if older else ""
    also += f" Or a file: `{name_variable(name)}_FILE`." if can_be_in_file(field) else ""
    return f"| `{name_variable(name)}` | {default} | {_values(field)} | {field.description}{also} |"


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _typed(value: object) -> str:
    """The value as a person types it in an environment variable; nothing for None and empty lists."""
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case float():
            return f"{value:g}"
        case tuple():
            return ", ".join(_typed(one) for one in value)
        case IPv4Network() | IPv6Network() if value.num_addresses == 1:
            return str(value.network_address)
        case _:
            return str(value)


def _values(field: FieldInfo) -> str:
    """Which values the setting takes, if its type or its limits say so."""
    if field.annotation is bool:
        return "`true`, `false`"
    if get_origin(field.annotation) is Literal:
        return ", ".join(f"`{choice}`" for choice in get_args(field.annotation))
    limits = dict(_limits(field))
    if limits.keys() == {"at least", "at most"}:
        return f"{limits['at least']} to {limits['at most']}"
    return ", ".join(f"{words} {number}" for words, number in limits.items())


def _limits(field: FieldInfo) -> Iterator[tuple[str, object]]:
    for limit in field.metadata:
        match limit:
            case Ge(ge):
                yield "at least", ge
            case Gt(gt):
                yield "more than", gt
            case Le(le):
                yield "at most", le
            case Lt(lt):
                yield "less than", lt
