"""A home directory for the configurations of MCP clients."""

import pwd
from pathlib import Path

import pytest

from quilt_mcp.commands import install


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home directory."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return tmp_path


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], dict[str, str]]]:
    """Record which servers would be started."""
    calls: list[tuple[list[str], dict[str, str]]] = []
    monkeypatch.setattr(install, "check_start", lambda command, variables: calls.append((command, variables)))
    return calls


def remove_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove what names a home directory: the variables of the environment, and the account."""

    def find_account(number: int) -> None:
        raise KeyError(number)

    for name in ("HOME", "USERPROFILE", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", find_account)
