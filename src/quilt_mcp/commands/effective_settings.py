"""The settings as they are in effect, and where each comes from, for `quilt-mcp doctor`."""

import re
from collections.abc import Mapping
from typing import Literal, TypedDict
from urllib.parse import urlsplit

from pydantic import SecretStr

from quilt_mcp.app.secret_files import Variables, find_file, list_variables, name_variables
from quilt_mcp.settings import Settings

MASK = "********"
"""Replaces every secret, regardless of its length."""
LOGIN = re.compile(r"(?<=://)[^/?#]*@")


class EffectiveSetting(TypedDict):
    """One setting.

    `value` is null if it is unset, and does not contain secrets. `variable` is the environment variable that sets it,
    or could. `file` is the name of the file that contains it, if `source` is `file`.
    """

    variable: str
    value: str | None
    source: Literal["default", "environment", "file"]
    file: str | None


def describe_settings(settings: Settings, environment: Mapping[str, str]) -> list[EffectiveSetting]:
    """Return all settings, sorted by their variables.

    Args:
        settings: as they were read from the environment.
        environment: the environment variables.
    """
    given = list_variables(environment)
    return sorted((_describe(settings, name, given) for name in Settings.model_fields), key=_by_variable)


def _describe(settings: Settings, name: str, variables: Variables) -> EffectiveSetting:
    file = find_file(Settings, name, variables)
    known = name_variables(Settings, name)
    given = next((one for one in known if one in variables), None)
    value = _mask(getattr(settings, name))
    if file:
        return {"variable": file[0], "value": value, "source": "file", "file": file[1]}
    return {
        "variable": given or known[0],
        "value": value,
        "source": "environment" if given else "default",
        "file": None,
    }


def _mask(value: object) -> str | None:
    match value:
        case None:
            return None
        case SecretStr():
            return MASK if value.get_secret_value() else None
        case bool():
            return str(value).lower()
        case tuple():
            return ", ".join(map(str, value))
        case _:
            return LOGIN.sub(f"{MASK}@", str(value)) if urlsplit(str(value)).netloc else str(value)


def _by_variable(setting: EffectiveSetting) -> str:
    return setting["variable"]
