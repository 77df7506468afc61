"""The nginx configuration of the package, in front of two servers."""

import asyncio
import json
import os
import re
import shutil
import signal
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

import quilt_mcp.http
from quilt_mcp.http.server import listen
from tests.http.load import Load, during
from tests.http.web import request
from tests.support.server_process import serve_http
from tests.support.waiting import SECONDS, until

NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
pytestmark = pytest.mark.skipif(NGINX is None, reason="nginx is not installed")

CONFIGURATION = Path(quilt_mcp.http.__file__).with_name("nginx.conf")
HOST = "mcp.example.com"
OURS: dict[str, Any] = {"headers": {"Host": HOST}, "extensions": {"sni_hostname": HOST}}
PUBLIC = {"QUILT_MCP_PUBLIC_URL": f"https://{HOST}"}
AROUND = """\
{user}daemon off;
worker_processes 1;
pid nginx.pid;
error_log stderr warn;
events {{ worker_connections 512; }}
http {{
    access_log off;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
{site}
}}
"""


def write_certificate(directory: Path) -> None:
    """Write a self-signed certificate for HOST and its key to cert.pem and key.pem."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, HOST)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(HOST)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    (directory / "cert.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (directory / "key.pem").write_bytes(private)


def site(directory: Path, port: int, servers: tuple[int, int]) -> str:
    """The package's configuration with the ports and files of this test."""
    text = CONFIGURATION.read_text(encoding="utf-8")
    for old, new in (
        ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
        ("127.0.0.1:8001", f"127.0.0.1:{servers[0]}"),
        ("127.0.0.1:8002", f"127.0.0.1:{servers[1]}"),
        ("/etc/ssl/certs/mcp.example.com.pem", str(directory / "cert.pem")),
        ("/etc/ssl/private/mcp.example.com.key", str(directory / "key.pem")),
    ):
        text, count = re.subn(re.escape(old) + r"\b", new, text, count=1)
        assert count == 1, old
    return text


@asynccontextmanager
async def proxying(
    directory: Path, *servers: int, changed: Mapping[str, str] | None = None
) -> AsyncIterator[tuple[int, ssl.SSLContext]]:
    """Run nginx in front of two servers; the value is its port and a context that trusts its certificate.

    Args:
        directory: for its files.
        servers: their ports.
        changed: replaces texts of the configuration.
    """
    with listen("127.0.0.1", 0) as free:
        port = free.getsockname()[1]
    write_certificate(directory)
    user = "user root;\n" if os.geteuid() == 0 else ""  # otherwise its worker cannot read the directory
    text = AROUND.format(user=user, site=site(directory, port, (servers[0], servers[1])))
    for old, new in (changed or {}).items():
        assert old in text, old
        text = text.replace(old, new)
    configuration = directory / "nginx.conf"
    configuration.write_text(text)
    process = await asyncio.create_subprocess_exec(str(NGINX), "-p", str(directory), "-c", str(configuration))
    try:
        await until((directory / "nginx.pid").exists)
        yield port, ssl.create_default_context(cafile=directory / "cert.pem")
    finally:
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(SECONDS):
            await process.wait()


@pytest.mark.soak
async def test_no_read_is_lost_when_one_of_two_servers_is_killed(tmp_path: Path) -> None:
    """nginx repeats the reads; the client does not."""
    async with (
        serve_http(tmp_path, **PUBLIC) as first,
        serve_http(tmp_path, **PUBLIC) as second,
        proxying(tmp_path, first.port, second.port) as (port, tls),
    ):
        load = Load(port, repeats=False, host=HOST, tls=tls)
        await during(load, 16, 2000, 400, lambda: first.process.send_signal(signal.SIGKILL))
        assert (load.answered, load.broken, load.wrong) == (2000, 0, {})
        assert first.log.count(" surface=") > 0
        assert second.log.count(" surface=") > 0

        address = f"https://127.0.0.1:{port}"
        async with httpx2.AsyncClient(base_url=address, verify=tls, trust_env=False, timeout=SECONDS) as client:
            await check_forwarded_requests(client)


@pytest.mark.soak
async def test_long_bodies_of_one_caller_do_not_count_as_requests_of_others(tmp_path: Path) -> None:
    """nginx shares its connections: an identity that outlived its request was that of the next one, of anybody."""
    tokens = {name: {"client_id": name} for name in ("ann", "ben")}
    given = {"QUILT_MCP_STATIC_TOKENS": json.dumps(tokens), "QUILT_MCP_RATE_LIMIT": "20/minute"}
    async with (
        serve_http(tmp_path, **PUBLIC, **given) as server,
        proxying(tmp_path, server.port, server.port) as (port, tls),
        connecting(port, tls) as client,
    ):
        for name in tokens:
            long = request("tools/call", name="get_resource", arguments={"uri": "x" * 400_000})
            headers = long["headers"] | OURS["headers"] | {"Authorization": f"Bearer {name}"}
            answer = await client.post(**long | {"headers": headers}, extensions=OURS["extensions"])
            assert answer.status_code == HTTPStatus.OK
        asked = [await client.get("/health", **OURS) for _ in range(60)]
        assert {answer.status_code for answer in asked} == {HTTPStatus.OK}


async def check_forwarded_requests(client: httpx2.AsyncClient) -> None:
    ours, sni = {"Host": HOST}, {"sni_hostname": HOST}
    for path, status in (
        ("/health", HTTPStatus.OK),
        ("/metrics", HTTPStatus.NOT_FOUND),
        ("/ready", HTTPStatus.NOT_FOUND),
        ("//metrics", HTTPStatus.NOT_FOUND),
        ("/%6Detrics", HTTPStatus.NOT_FOUND),
        ("/x/../metrics", HTTPStatus.NOT_FOUND),
    ):
        answer = await client.get(path, headers=ours, extensions=sni)
        assert (path, answer.status_code) == (path, status)
    write = request("tools/call", name="workflow_create", arguments={"workflow_id": "one", "name": "One"})
    answer = await client.post(**write | {"headers": write["headers"] | ours}, extensions=sni)
    assert answer.json()["result"]["structuredContent"]["workflow"]["name"] == "One"
    page = write["headers"] | ours | {"Origin": "https://attacker.example.com"}
    assert (await client.post(**write | {"headers": page}, extensions=sni)).status_code == HTTPStatus.FORBIDDEN
    same = write["headers"] | ours | {"Origin": f"https://{HOST}"}
    assert (await client.post(**write | {"headers": same}, extensions=sni)).status_code == HTTPStatus.OK


async def test_one_address_cannot_send_too_fast(tmp_path: Path) -> None:
    """With a smaller limit than that of the package, and without a queue."""
    changed = {"rate=200r/s": "rate=1r/m", "burst=400": "burst=1 nodelay"}
    async with (
        serve_http(tmp_path, **PUBLIC) as server,
        proxying(tmp_path, server.port, server.port, changed=changed) as (port, tls),
        connecting(port, tls) as client,
    ):
        statuses = [(await client.get("/health", **OURS)).status_code for _ in range(3)]
    assert statuses == [HTTPStatus.OK, HTTPStatus.OK, HTTPStatus.TOO_MANY_REQUESTS]


async def test_one_address_cannot_take_all_connections(tmp_path: Path) -> None:
    """With a smaller limit than that of the package. The first request does not end before the test."""
    waiting, release = asyncio.Event(), asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        waiting.set()
        await release.wait()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    address = server.sockets[0].getsockname()[1]
    async with (
        server,
        proxying(tmp_path, address, address, changed={"connections 200": "connections 1"}) as (port, tls),
        connecting(port, tls) as client,
    ):
        first = asyncio.create_task(client.get("/health", **OURS))
        await waiting.wait()
        assert (await client.get("/health", **OURS)).status_code == HTTPStatus.TOO_MANY_REQUESTS
        release.set()
        assert (await first).status_code == HTTPStatus.OK
        assert (await client.get("/health", **OURS)).status_code == HTTPStatus.OK


def connecting(port: int, tls: ssl.SSLContext) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=f"https://127.0.0.1:{port}", verify=tls, trust_env=False, timeout=SECONDS)


def test_only_reads_are_repeated() -> None:
    text = CONFIGURATION.read_text(encoding="utf-8")
    [pattern] = re.findall(r'"~(\^.*)" 1;', text)
    for method in ("resources/read", "resources/list", "tools/list", "server/discover"):
        assert re.match(pattern, f"2026-07-28 {method} any name")
        assert not re.match(pattern, f"2025-11-25 {method} any name")  # no server compares these headers with the body
    assert re.findall(r'"(.*tools/call .*)" 1;', text) == ["2026-07-28 tools/call get_resource"]
    for asked in ("2026-07-28 tools/call workflow_create", "2026-07-28 initialize ", "  ", "2026-07-28 resources/read"):
        assert not re.match(pattern, asked)
