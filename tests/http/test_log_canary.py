"""The log of a server at DEBUG contains nothing that clients send, in headers, queries, bodies and tokens."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fastmcp import Client
from fastmcp.client.transports import SSETransport
from fastmcp.server.auth.providers.jwt import RSAKeyPair
from mcp.shared.exceptions import MCPError

from quilt_mcp.commands.logs import Format
from quilt_mcp.commands.process import configure_logging
from tests.contract.canaries import leaks
from tests.http.test_audit_log import ANN, CANARY, READ, REQUESTS, TOKEN, audited, send, with_headers
from tests.support.waiting import SECONDS

EMAIL = "ann@example.com"
FORMS = {CANARY, TOKEN, EMAIL}


pytestmark = pytest.mark.parametrize("form", ["console", "json"])


@contextmanager
def debug_log(form: Format, capsys: pytest.CaptureFixture[str], secrets: set[str]) -> Iterator[None]:
    """Log as `QUILT_MCP_LOG_LEVEL=debug quilt-mcp serve` does, and look for the secrets at the end.

    Not a fixture: pytest replaces stderr after setup.
    """
    with configure_logging("DEBUG", form):
        yield
    log = capsys.readouterr().err
    assert "surface=resource" in log
    assert "could not be written" not in log
    assert leaks(log, secrets) == []


@pytest.mark.soak
async def test_hostile_requests_leave_none_of_their_texts(
    form: Format, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with debug_log(form, capsys, FORMS):
        async with audited(tmp_path) as (client, _):
            for _, asked, _ in REQUESTS:
                await send(client, asked)


@pytest.mark.soak
async def test_messages_over_sse_leave_none_of_their_texts(
    form: Format, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with debug_log(form, capsys, FORMS):
        async with audited(tmp_path, "sse") as (client, _):
            url = f"{str(client.base_url).rstrip('/')}/sse"
            async with Client(SSETransport(url, headers=ANN), timeout=SECONDS, mode="legacy") as user:
                with pytest.raises(MCPError):
                    await user.read_resource(f"metadata://{CANARY}")
            for query in ("", f"session_id={CANARY}", "session_id=" + "0" * 32):
                body = {"content": f'{{"{CANARY}'.encode(), "headers": ANN | {"Content-Type": "application/json"}}
                assert (await send(client, body | {"url": f"/messages/?{query}"})).status_code >= 400


async def test_tokens_and_their_claims_are_not_logged(
    form: Format, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    pair, issuer = RSAKeyPair.generate(), "https://id.example.com"
    signed = pair.create_token(subject=EMAIL, issuer=issuer, audience="quilt", scopes=["read"])
    expired = pair.create_token(subject=EMAIL, issuer=issuer, audience="quilt", expires_in_seconds=-10)
    foreign = RSAKeyPair.generate().create_token(subject=EMAIL, issuer=issuer, audience="quilt")
    other = pair.create_token(subject=EMAIL, issuer=f"https://{CANARY}", audience=CANARY)
    tokens = [signed, expired, foreign, other, signed[:-4] + "AAAA", f"{CANARY}.{CANARY}.{CANARY}"]
    secrets = FORMS | {part for token in tokens for part in token.split(".")}
    key = {"jwt_public_key": pair.public_key, "jwt_issuer": issuer, "jwt_audience": "quilt", "static_tokens": None}
    with debug_log(form, capsys, secrets):
        async with audited(tmp_path, **key) as (client, lines):
            for token in tokens:
                await send(client, with_headers(READ, Authorization=f"Bearer {token}"))
    assert [line["status"] for line in lines.all()] == [200] + [401] * 5
    assert leaks(json.dumps(lines.all()), secrets - {EMAIL}) == []
