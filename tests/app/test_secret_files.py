"""Secret settings that are given as files."""

import os
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from quilt_mcp.app.secret_files import MAX_BYTES, can_be_in_file, find_exposed_files, name_variables
from quilt_mcp.commands.cli import main
from tests.support.settings import Settings

CANARY = "zq-canary-8f3a"
VALUES = {
    "state_url": f"redis://:{CANARY}@localhost",
    "workflows_url": f"postgresql://u:{CANARY}@localhost/x",
    "database_url": f"postgresql://u:{CANARY}@localhost/x",
}
IN_FILES = [name for name, field in Settings.model_fields.items() if can_be_in_file(field)]


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text(f"{CANARY}\n")
    path.chmod(0o600)
    return path


def content(settings: Settings, name: str) -> str:
    value = getattr(settings, name)
    return value if isinstance(value, str) else str(value.get_secret_value())


def invalid_line(capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["serve"]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert CANARY not in line
    return line


def test_every_secret_setting_can_be_in_a_file() -> None:
    assert set(IN_FILES) == {
        *("api_key", "workflows_url", "database_url", "metrics_token", "jwt_public_key", "oidc_client_secret"),
        *("introspection_client_secret", "static_tokens", "state_url"),
    }


@pytest.mark.parametrize("name", IN_FILES)
@pytest.mark.parametrize(("variable", "mark"), [("unset", ""), ("empty", "\ufeff")])
def test_the_value_is_that_of_the_file_without_its_byte_order_mark_and_the_last_line_breaks(
    name: str, variable: str, mark: str, secret: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    value = VALUES.get(name, f"  {CANARY}\nsecond line")
    secret.write_text(f"{mark}{value}\r\n\n", encoding="utf-8")
    [own] = name_variables(Settings, name)
    if variable == "empty":
        monkeypatch.setenv(own, "")
    monkeypatch.setenv(f"{own}_FILE".lower(), str(secret))
    needed: dict[str, Any] = {"jwt_issuer": "x", "jwt_audience": "x"} if name == "jwt_public_key" else {}
    if name in {"oidc_client_secret", "introspection_client_secret"}:
        kind = name.partition("_")[0]
        needed = {f"{kind}_client_id": "x"}
        needed |= {"oidc_config_url": "https://x", "public_url": "https://x"} if kind == "oidc" else {}
        needed |= dict.fromkeys(("introspection_issuer", "introspection_audience"), "x") if kind != "oidc" else {}
        needed |= {"introspection_url": "https://x"} if kind != "oidc" else {}
    assert content(Settings(**needed), name) == value


def test_an_error_in_the_content_names_the_variable_of_the_file(
    secret: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("QUILT_MCP_STATE_URL_FILE", str(secret))
    assert "QUILT_MCP_STATE_URL_FILE: must start with valkey://" in invalid_line(capsys)
    with pytest.raises(ValidationError) as error:
        Settings()
    assert CANARY not in str(error.value)
    monkeypatch.setenv("QUILT_MCP_STATE_URL", CANARY)  # a setting cannot be given both ways
    assert "QUILT_MCP_STATE_URL and QUILT_MCP_STATE_URL_FILE are both set" in invalid_line(capsys)


def test_a_file_that_cannot_be_used_is_named(
    secret: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = {"is empty": b" \n", "is not valid UTF-8": b"\xff", f"has more than {MAX_BYTES} bytes": b"x" * 300_000}
    for problem, data in broken.items():
        secret.write_bytes(data)
        monkeypatch.setenv("QUILT_MCP_METRICS_TOKEN_FILE", str(secret))
        assert f"QUILT_MCP_METRICS_TOKEN_FILE: the file {secret} {problem}" in invalid_line(capsys)
    for path, problem in ((secret.parent, "is not a regular file"), (secret.parent / "none", "cannot be read (")):
        monkeypatch.setenv("QUILT_MCP_METRICS_TOKEN_FILE", str(path))
        assert f"the file {path} {problem}" in invalid_line(capsys)
    pipe = secret.parent / "pipe"
    os.mkfifo(pipe)
    monkeypatch.setenv("QUILT_MCP_METRICS_TOKEN_FILE", str(pipe))
    assert "is not a regular file" in invalid_line(capsys)


NO_PATHS = dict.fromkeys((CANARY, f"./{CANARY}", f"~{CANARY}/x"), "is not an absolute path") | dict.fromkeys(
    (f"/{CANARY}", f"/{CANARY}/x", "/" + CANARY * 200, f"/{CANARY}" * 1000), "is not a path in an existing directory"
)


def test_a_secret_in_place_of_a_path_is_not_repeated(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for value, problem in NO_PATHS.items():
        monkeypatch.setenv("QUILT_MCP_METRICS_TOKEN_FILE", value)
        assert f"QUILT_MCP_METRICS_TOKEN_FILE {problem}" in invalid_line(capsys)


def test_a_path_can_start_with_the_home_directory(secret: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(secret.parent))
    monkeypatch.setenv("QUILT_MCP_METRICS_TOKEN_FILE", "~/secret")
    assert content(Settings(), "metrics_token") == CANARY


IGNORED = {
    "QUILT_MCP_METRIC_TOKEN": " Did you mean QUILT_MCP_METRICS_TOKEN?",
    "quilt_mcp_oidc_client_id_file": " Did you mean QUILT_MCP_OIDC_CLIENT_ID?",  # it is no secret
    "QUILT_MCP_ZQ": "",
}


def test_the_log_warns_of_files_that_every_user_can_read_and_of_variables_that_are_ignored(
    secret: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = {"QUILT_MCP_METRICS_TOKEN_FILE": str(secret), "QUILT_MCP_JWT_PUBLIC_KEY_FILE": str(secret)}
    assert find_exposed_files(Settings, given) == []
    secret.chmod(0o644)
    [warning] = find_exposed_files(Settings, given)  # a public key is no secret
    assert f"QUILT_MCP_METRICS_TOKEN_FILE: every user of this machine can read the file {secret}" in warning
    assert find_exposed_files(Settings, given, of_container=secret.parent) == []
    monkeypatch.setenv("QUILT_MCP_METRICS_TOKEN_FILE", str(secret))
    monkeypatch.setenv("QUILT_MCP_JWT_PUBLIC_KEY_FILE", "")  # unset
    for name in (*IGNORED, "QUILT_API_KEY_FILES"):
        monkeypatch.setenv(name, CANARY)
    assert main(["get", "metadata://examples", "--demo", "admin"]) == 0
    log = capsys.readouterr().err
    ignored = [f"{name} is ignored: there is no such setting.{advice}\n" for name, advice in IGNORED.items()]
    assert [one in log for one in (warning, *ignored)] == [True] * 4
    assert (log.count("is ignored"), CANARY in log) == (len(ignored), False)
