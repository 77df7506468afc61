"""The tables of settings for docs/settings.md, from the classes that declare the settings."""

from collections.abc import Callable, Iterator
from ipaddress import IPv4Network, IPv6Network
from typing import Literal, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import AliasChoices
from pydantic.fields import FieldInfo

from quilt_mcp.app.secret_files import can_be_in_file
from quilt_mcp.settings import Settings

PREFIX = "QUILT_MCP_"

Match = Callable[[str, str], bool]


def _of(*names: str) -> Match:
    """Match settings that one of these classes declares, or with names that start with one of these."""
    return lambda name, declared_by: declared_by in names or name.startswith(names)


GROUPS: tuple[tuple[str, str, Match], ...] = (
    (
        "Local use",
        "Quilt and AWS, for one person over stdio. The defaults suit most users; a slow network needs longer timeouts.",
        lambda name, declared_by: (
            declared_by in {"StackSettings", "QuiltSettings"} and name not in {"catalog_url", "quilt_token_header"}
        ),
    ),
    ("Time limits and lists", "Every transport.", _of("DispatchSettings")),
    ("Storage and log", "Every transport.", _of("StorageSettings", "log_", "audit_")),
    ("Requirements", "See [requirements.md](requirements.md).", _of("RequirementsSettings")),
    ("Workflows", "See [deploy.md](deploy.md#state-that-processes-share).", _of("WorkflowSettings")),
    ("Analysis", "See [analysis.md](analysis.md).", _of("AnalysisSettings")),
    (
        "Serving a team: sign-in",
        "How callers prove who they are, and how they reach Quilt. See [deploy.md](deploy.md#sign-in).",
        _of("jwt_", "oidc_", "introspection_", "static_tokens", "required_scopes", "catalog_url", "quilt_token_header"),
    ),
    (
        "Serving a team: limits and shared state",
        "See [deploy.md](deploy.md#limits).",
        _of("rate_limit", "concurrent_", "max_", "state_url"),
    ),
    (
        "Serving a team: network",
        "For servers over HTTP. See [deploy.md](deploy.md).",
        _of("HTTPSettings"),
    ),
    ("Other domains", "Settings of the other domains.", lambda _, __: True),
)
"""Title, introduction, and which settings belong to the group. A setting belongs to the first group that matches."""

COMPUTED = {"data_dir": "the user data directory", "analysis_concurrency": "the number of cores, at most 64"}
"""Defaults that depend on the machine."""


def grouped_settings() -> dict[str, list[str]]:
    """Return the names of the settings of each group."""
    groups: dict[str, list[str]] = {title: [] for title, _, _ in GROUPS}
    for name in Settings.model_fields:
        declared_by = next(cls.__name__ for cls in Settings.__mro__ if name in getattr(cls, "__annotations__", {}))
        title = next(title for title, _, matches in GROUPS if matches(name, declared_by))
        groups[title].append(name)
    return groups


def settings_tables() -> str:
    """Return a section with a table for each group."""
    names = grouped_settings()
    parts: list[str] = []
    for title, introduction, _ in GROUPS:
        if names[title]:
            rows = [_row(name, Settings.model_fields[name]) for name in names[title]]
            head = ["| variable | default | values | description |", "| --- | --- | --- | --- |"]
            parts += [f"## {title}", "", introduction, "", *head, *rows, ""]
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
