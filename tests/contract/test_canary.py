"""No secret leaves: not in an answer (test_parity looks at each), a golden, a log line, stdout or stderr."""

import base64
import os
import re
import subprocess
import sys

from quilt_mcp.demo.world import World
from tests.contract.canaries import PLANTED, leaks, secrets_of
from tests.golden import GOLDEN
from tests.worlds import in_world

LOUD_WORLDS = ("admin", "expired", "revoked", "aws_denied", "aws_expired", "stack_refused", "stack_error_html")
FORM_OF_A_SECRET = re.compile(r"demo-(access|refresh)-\d|\b(ASIA|AKIA)[A-Z0-9]{12,}|X-Amz-Signature|eyJ[\w-]{10,}\.")


@in_world("admin")
def test_the_secrets_are_known_and_found_in_each_form(world: World) -> None:
    secrets = secrets_of(world)
    assert {PLANTED, "demo-access-1", "demo-refresh-1"} <= secrets
    assert len(secrets) >= 6
    for form in (PLANTED, PLANTED.encode().hex(), base64.b64encode(PLANTED.encode()).decode()):
        assert leaks(f"before {form} after", secrets)
    assert leaks("nothing here", secrets) == []


def test_no_golden_holds_the_form_of_a_secret() -> None:
    held = {path.name: FORM_OF_A_SECRET.findall(path.read_text(encoding="utf-8")) for path in GOLDEN.rglob("*.json")}
    assert {name: found for name, found in held.items() if found} == {}


def test_nothing_of_it_is_printed_or_logged_even_at_debug() -> None:
    """In a process of its own, with the log as `quilt-mcp serve` sets it up: what libraries say counts too."""
    environment = os.environ | {"QUILT_MCP_LOG_LEVEL": "DEBUG", "SOME_API_KEY": PLANTED}
    command = [sys.executable, "-m", "tests.contract.observe", *LOUD_WORLDS, "--log"]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200, check=True)
    printed = ran.stdout + ran.stderr
    assert "surface=resource" in ran.stderr
    assert FORM_OF_A_SECRET.findall(printed) == []
    assert leaks(printed, {PLANTED}) == []
    assert "@acme.example.com" not in ran.stderr
    assert "SELECT" not in ran.stderr
