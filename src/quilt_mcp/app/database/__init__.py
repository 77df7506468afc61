"""Storage that domains share, on SQLAlchemy Core, and its settings."""

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, SecretStr

from quilt_mcp.app.build import advise_extra
from quilt_mcp.app.home import find_data_directory
from quilt_mcp.app.settings import STORAGE_AND_LOG, Seconds, SettingsGroup

_DRIVER = "psycopg"
_POSTGRESQL = frozenset({"postgresql", "postgres", f"postgresql+{_DRIVER}"})


def check_url(url: SecretStr, *, others: tuple[str, ...] = ()) -> SecretStr:
    """Check the scheme of a database URL, and that the driver for PostgreSQL is installed.

    Args:
        url: the URL.
        others: the schemes that are valid in addition to postgresql:// and postgres://, and need no driver.
    """
    scheme = urlsplit(url.get_secret_value()).scheme
    if scheme not in _POSTGRESQL | set(others):
        raise ValueError(" or ".join(f"{name}://" for name in ("it must start with postgresql", *others[:1])))
    if scheme not in others and find_spec(_DRIVER) is None:
        raise ValueError(advise_extra("postgres"))
    return url


def _choose_directory(given: object) -> Path:
    """Return a directory. Programs that start this server set variables to nothing, and have no shell for the ~."""
    path = os.path.expanduser(str(given).strip())  # noqa: PTH111 - Path.expanduser raises an error for such a user
    if path.startswith("~"):
        raise ValueError("it names the home directory of an unknown user")
    return Path(path) if path else find_data_directory()


class StorageSettings(SettingsGroup):
    """Settings of local databases, and the timeout of all databases."""

    group = STORAGE_AND_LOG

    data_dir: Annotated[Path, BeforeValidator(_choose_directory)] = Field(
        default_factory=find_data_directory,
        description="Directory for workflows and the embedded requirements database.",
    )
    database_timeout_seconds: Seconds = Field(
        5.0, description="Timeout for connecting to a database, and for each statement."
    )
