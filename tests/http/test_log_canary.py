"""The log of a server at DEBUG contains nothing that clients send, in headers, queries, bodies and tokens."""

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.client.transports import SSETransport
from fastmcp.server.auth.providers.jwt import RSAKeyPair
from mcp.shared.exceptions import MCPError

from quilt_mcp.commands.logs import Format
from quilt_mcp.commands.process import configure_logging
from tests.contract.canaries import leaks
from tests.http.test_audit_log import ANN, CANARY, READ, REQUESTS, TOKEN, audited, with_headers
from tests.support.waiting import SECONDS

EMAIL = "ann@example.com"
FORMS = {CANARY, TOKEN, EMAIL}


pytestmark = pytest.mark.parametrize("form", ["console", "json"])


@contextmanager
def debug_log(form: Format, capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[[], str]]:
    """Log as `QUILT_MCP_LOG_LEVEL=debug quilt-mcp serve` does. Not a fixture: pytest replaces stderr after setup."""

    def read() -> str:
        logging.root.handlers[0].flush()
        log = capsys.readouterr().err
        assert "the log works" in log
        assert "could not be written" not in log
        return log

    with configure_logging("DEBUG", form):
        logging.getLogger("quilt_mcp").debug("the log works")
        yield read


@pytest.mark.soak
async def test_hostile_requests_leave_none_of_their_texts(
    form: Format, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with debug_log(form, capsys) as read_log:
        async with audited(tmp_path) as (client, _):
            for _, verb, asked, _ in REQUESTS:
                headers = {name: value for name, value in (ANN | asked.get("headers", {})).items() if value}
                await client.request(verb, **asked | {"headers": headers})
        log = read_log()
        assert "surface=resource" in log
        assert leaks(log, FORMS) == []


@pytest.mark.soak
async def test_messages_over_sse_leave_none_of_their_texts(
    form: Format, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with debug_log(form, capsys) as read_log:
        async with audited(tmp_path, "sse") as (client, _):
            url = f"{str(client.base_url).rstrip('/')}/sse"
            async with Client(SSETransport(url, headers=ANN), timeout=SECONDS, mode="legacy") as user:
                with pytest.raises(MCPError):
                    await user.read_resource(f"metadata://{CANARY}")
                session = user.session
                assert session
            for query in ("", f"session_id={CANARY}", "session_id=" + "0" * 32):
                body: dict[str, Any] = {
                    "content": f'{{"{CANARY}'.encode(),
                    "headers": ANN | {"Content-Type": "application/json"},
                }
                assert (await client.post(f"/messages/?{query}", **body)).status_code >= 400
        assert leaks(read_log(), FORMS) == []


async def test_tokens_and_their_claims_are_not_logged(
    form: Format, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with debug_log(form, capsys) as read_log:
        pair, issuer = RSAKeyPair.generate(), "https://id.example.com"
        signed = pair.create_token(subject=EMAIL, issuer=issuer, audience="quilt", scopes=["read"])
        expired = pair.create_token(subject=EMAIL, issuer=issuer, audience="quilt", expires_in_seconds=-10)
        foreign = RSAKeyPair.generate().create_token(subject=EMAIL, issuer=issuer, audience="quilt")
        other = pair.create_token(subject=EMAIL, issuer=f"https://{CANARY}", audience=CANARY)
        tokens = [signed, expired, foreign, other, signed[:-4] + "AAAA", f"{CANARY}.{CANARY}.{CANARY}"]
        key = {"jwt_public_key": pair.public_key, "jwt_issuer": issuer, "jwt_audience": "quilt", "static_tokens": None}
        async with audited(tmp_path, **key) as (client, lines):
            for token in tokens:
                await client.post(**with_headers(READ, Authorization=f"Bearer {token}"))
        statuses = [line["status"] for line in lines.all()]
        assert statuses == [200] + [401] * 5
        secrets = FORMS | {part for token in tokens for part in token.split(".")}
        log = read_log()
        assert "surface=resource" in log
        assert leaks(log, secrets) == []
        assert leaks(json.dumps(lines.all()), secrets - {EMAIL}) == []
