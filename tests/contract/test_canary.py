"""No secret leaks: not in an answer (test_parity checks each), a golden, a log line, stdout or stderr."""

import base64
import os
import re
import subprocess
import sys

import pytest

from quilt_mcp.demo.world import World
from tests.contract.canaries import PLANTED, leaks, secrets_of
from tests.support.golden import GOLDEN
from tests.support.worlds import in_world

LOUD_WORLDS = ("admin", "expired", "aws_denied", "stack_error_html")
MORE_LOUD_WORLDS = ("revoked", "aws_expired", "stack_refused")
FORM_OF_A_SECRET = re.compile(r"demo-(access|refresh)-\d|\b(ASIA|AKIA)[A-Z0-9]{12,}|X-Amz-Signature|eyJ[\w-]{10,}\.")


@in_world("admin")
def test_the_secrets_are_known_and_found_in_each_form(world: World) -> None:
    secrets = secrets_of(world)
    assert {PLANTED, "demo-access-1", "demo-refresh-1"} <= secrets
    assert len(secrets) >= 6
    for form in (PLANTED, PLANTED.encode().hex(), base64.b64encode(PLANTED.encode()).decode()):
        assert leaks(f"before {form} after", secrets)
    assert leaks("nothing here", secrets) == []


def test_no_golden_contains_the_form_of_a_secret() -> None:
    forms = {path.name: FORM_OF_A_SECRET.findall(path.read_text(encoding="utf-8")) for path in GOLDEN.rglob("*.json")}
    assert {name: found for name, found in forms.items() if found} == {}


@pytest.mark.soak
@pytest.mark.parametrize("worlds", [LOUD_WORLDS, pytest.param(MORE_LOUD_WORLDS, marks=pytest.mark.soak)])
def test_no_secret_is_printed_or_logged_even_at_debug(worlds: tuple[str, ...]) -> None:
    """Run in a separate process with the log of `quilt-mcp serve`. The output of libraries counts too."""
    environment = os.environ | {"QUILT_MCP_LOG_LEVEL": "DEBUG", "SOME_API_KEY": PLANTED}
    command = [sys.executable, "-m", "tests.contract.observe", *worlds, "--log"]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200, check=True)
    printed = ran.stdout + ran.stderr
    assert "surface=resource" in ran.stderr
    assert FORM_OF_A_SECRET.findall(printed) == []
    assert leaks(printed, {PLANTED}) == []
    assert "@acme.example.com" not in ran.stderr
    assert "SELECT" not in ran.stderr
