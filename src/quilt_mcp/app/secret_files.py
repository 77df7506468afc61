"""Secrets in files: a secret setting X can also be given as X_FILE, as Docker and Kubernetes mount secrets.

The file contains the value, which ends before the last line breaks. It is read whenever the settings are read. Messages
contain the name of a file, and never what it contains.
"""

import os
import stat
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, get_args

from pydantic import AliasChoices, SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import InitErrorDetails, PydanticCustomError, ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource

SUFFIX = "_FILE"
MAX_BYTES = 262_144
READABLE_BY_OTHERS = stat.S_IROTH
OF_CONTAINER = Path("/run/secrets")
"""Where Docker puts secrets, with the mode of their files: only the users of the container reach them."""

Variables = dict[str, tuple[str, str]]
"""Environment variables and their values, by their names in upper case."""


class InFile:
    """Marks a setting that can be in a file although it is not a secret."""


Text = Annotated[str, InFile()]
"""The type of settings such as a public key."""


class SecretFiles(PydanticBaseSettingsSource):
    """Reads the secret settings that the environment gives as files."""

    def __init__(self, settings_cls: type[BaseSettings]) -> None:
        super().__init__(settings_cls)
        self._given = list_variables(os.environ)

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[object, str, bool]:
        """Return the value of a setting and its name; the value is None if no file is given for it."""
        path = find_file(self.settings_cls, field_name, self._given)
        alias = field.validation_alias  # under which the environment gives a value, which can be empty
        return read_secret(*path) if path else None, alias if isinstance(alias, str) else field_name, False

    def __call__(self) -> dict[str, object]:
        """Return the values.

        Raises:
            ValidationError: a file cannot be used, or a setting is given twice.
        """
        try:
            found = [self.get_field_value(field, name) for name, field in self.settings_cls.model_fields.items()]
        except PydanticCustomError as error:
            details = InitErrorDetails(type=error, loc=(), input=None)
            raise ValidationError.from_exception_data(self.settings_cls.__name__, [details], hide_input=True) from None
        return {name: value for value, name, _ in found if value is not None}


def can_be_in_file(field: FieldInfo) -> bool:
    parts = list(_flatten((field.annotation, *field.metadata)))
    return SecretStr in parts or any(isinstance(part, InFile) for part in parts)


def is_secret(field: FieldInfo) -> bool:
    """Return whether the value of a setting must not be shown."""
    return SecretStr in _flatten((field.annotation,))


def name_variables(kind: type[BaseSettings], name: str) -> list[str]:
    """Return the environment variables of a setting, in upper case. The first that is set is used."""
    match kind.model_fields[name].validation_alias:
        case str(alias):
            return [alias.upper()]
        case AliasChoices(choices=choices):
            return [str(choice).upper() for choice in choices]
        case _:
            return [f"{kind.model_config.get('env_prefix', '')}{name}".upper()]


def list_variables(environment: Mapping[str, str]) -> Variables:
    """Return the variables of an environment, by their names in upper case: the names of settings have no case."""
    return {variable.upper(): (variable, value) for variable, value in environment.items()}


def find_file(kind: type[BaseSettings], name: str, given: Variables) -> tuple[str, str] | None:
    """Return the variable that names the file of a setting, and the name of the file; None if there is none.

    Args:
        kind: the class of the settings.
        name: the name of the setting.
        given: from `list_variables`.

    Raises:
        PydanticCustomError: the setting is given both ways.
    """
    variables = name_variables(kind, name)
    files = [given[one + SUFFIX] for one in variables if given.get(one + SUFFIX, ("", ""))[1]]
    if not files or not can_be_in_file(kind.model_fields[name]):
        return None
    values = [given[one][0] for one in variables if given.get(one, ("", ""))[1]]
    if files and values:
        raise PydanticCustomError("secret_file", f"{values[0]} and {files[0][0]} are both set: remove one of them")
    return files[0]


def read_secret(variable: str, path: str) -> str:
    """Return the content of a file, without the line breaks at its end.

    Raises:
        PydanticCustomError: it cannot be used. The message repeats the path only if its directory exists, because
            otherwise it can be the secret itself.
    """
    place = Path(os.path.expanduser(path))  # noqa: PTH111 - Path.expanduser raises an error for an unknown user
    if not place.is_absolute():
        raise PydanticCustomError("secret_file", f"{variable} is not an absolute path of a file")
    if place.parent == Path(place.anchor) or not os.path.isdir(place.parent):  # noqa: PTH112 - is_dir raises errors
        raise PydanticCustomError("secret_file", f"{variable} is not a path in an existing directory below the root")
    try:
        if not stat.S_ISREG(place.stat().st_mode):  # a pipe would block
            raise _refuse(variable, path, "is not a regular file")
        with place.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        text = content.decode("utf-8-sig").rstrip("\r\n")
    except UnicodeDecodeError:
        raise _refuse(variable, path, "is not valid UTF-8") from None
    except OSError as error:
        raise _refuse(variable, path, f"cannot be read ({error.strerror})") from None
    if len(content) > MAX_BYTES:
        raise _refuse(variable, path, f"has more than {MAX_BYTES} bytes")
    if not text.strip():
        raise _refuse(variable, path, "is empty")
    return text


def find_exposed_files(
    kind: type[BaseSettings], environment: Mapping[str, str], *, of_container: Path = OF_CONTAINER
) -> list[str]:
    """Return a message for each file with a secret that every user of this machine can read, but for Docker's."""
    if sys.platform == "win32":
        return []
    secret = [name for name, field in kind.model_fields.items() if is_secret(field)]
    given = list_variables(environment)
    found = [file for name in secret if (file := find_file(kind, name, given))]
    return [
        f"{variable}: every user of this machine can read the file {path}"
        for variable, path in found
        if of_container not in Path(path).parents and Path(path).expanduser().stat().st_mode & READABLE_BY_OTHERS
    ]


def _refuse(variable: str, path: str, problem: str) -> PydanticCustomError:
    return PydanticCustomError("secret_file", "{variable}: the file {path} {problem}", locals())


def _flatten(parts: tuple[object, ...]) -> list[object]:
    return [one for part in parts for one in (part, *_flatten(get_args(part)), *getattr(part, "__metadata__", ()))]
