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
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx2
import pytest
import trustme

import quilt_mcp.http
from quilt_mcp.http.server import listen
from tests.http.load import Load, during
from tests.http.web import request, with_headers
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
    authority = trustme.CA()
    made = authority.issue_cert(HOST)
    authority.cert_pem.write_to_path(directory / "authority.pem")
    made.cert_chain_pems[0].write_to_path(directory / "cert.pem")
    made.private_key_pem.write_to_path(directory / "key.pem")


def write_configuration(directory: Path, servers: tuple[int, int], changed: Mapping[str, str] | None = None) -> int:
    """Write the package's configuration with the ports and files of this test, and a certificate. Return the port."""
    with listen("127.0.0.1", 0) as free:
        port: int = free.getsockname()[1]
    write_certificate(directory)
    user = "user root;\n" if os.geteuid() == 0 else ""  # otherwise its worker cannot read the directory
    text = AROUND.format(user=user, site=CONFIGURATION.read_text(encoding="utf-8"))
    places = {
        "listen 443 ssl": f"listen 127.0.0.1:{port} ssl",
        "127.0.0.1:8001": f"127.0.0.1:{servers[0]}",
        "127.0.0.1:8002": f"127.0.0.1:{servers[1]}",
        "/etc/ssl/certs/mcp.example.com.pem": str(directory / "cert.pem"),
        "/etc/ssl/private/mcp.example.com.key": str(directory / "key.pem"),
    }
    for old, new in (places | dict(changed or {})).items():
        assert re.search(re.escape(old) + r"(?!\w)", text), old
        text = re.sub(re.escape(old) + r"(?!\w)", new, text, count=0 if old in (changed or {}) else 1)
    (directory / "nginx.conf").write_text(text, encoding="utf-8")
    return port


def command(directory: Path) -> tuple[str, ...]:
    return str(NGINX), "-p", str(directory), "-c", str(directory / "nginx.conf")


@asynccontextmanager
async def proxying(
    directory: Path, *servers: int, changed: Mapping[str, str] | None = None
) -> AsyncIterator[httpx2.AsyncClient]:
    port = write_configuration(directory, (servers[0], servers[-1]), changed)
    process = await asyncio.create_subprocess_exec(*command(directory))
    try:
        await until((directory / "nginx.pid").exists)
        tls = trusting(directory)
        async with httpx2.AsyncClient(base_url=f"https://127.0.0.1:{port}", verify=tls, trust_env=False) as client:
            client.timeout = SECONDS
            yield client
    finally:
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(SECONDS):
            await process.wait()


def trusting(directory: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=directory / "authority.pem")


def ours(asked: dict[str, Any], **headers: Any) -> dict[str, Any]:
    return with_headers(asked, Host=HOST, **headers) | {"extensions": OURS["extensions"]}


@pytest.mark.soak
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_no_read_is_lost_when_one_of_two_servers_ends(number: signal.Signals, tmp_path: Path) -> None:
    """As in a deployment: nginx repeats the reads at the other server; the client does not."""
    async with (
        serve_http(tmp_path, **PUBLIC) as first,
        serve_http(tmp_path, **PUBLIC) as second,
        proxying(tmp_path, first.port, second.port) as client,
    ):
        load = Load(client.base_url.port or 0, repeats=False, host=HOST, tls=trusting(tmp_path))
        await during(load, 16, 2000, 400, lambda: first.process.send_signal(number))
        assert (load.answered, load.broken, load.wrong) == (2000, 0, {})
        async with asyncio.timeout(SECONDS):
            assert await first.process.wait() == (0 if number == signal.SIGTERM else -number)
        for server in (first, second):
            assert (server.log.count(" surface=") > 0, "Traceback" in server.log) == (True, False)
        await check_forwarded_requests(client)


async def check_forwarded_requests(client: httpx2.AsyncClient) -> None:
    hidden = ("/metrics", "/ready", "//metrics", "/%6Detrics", "/x/../metrics")
    for path, status in {"/health": HTTPStatus.OK, **dict.fromkeys(hidden, HTTPStatus.NOT_FOUND)}.items():
        assert (await client.get(path, **OURS)).status_code == status, path
    write = request("tools/call", name="workflow_create", arguments={"workflow_id": "one", "name": "One"})
    answer = await client.post(**ours(write))
    assert answer.json()["result"]["structuredContent"]["workflow"]["name"] == "One"
    for origin, status in (("https://attacker.example.com", HTTPStatus.FORBIDDEN), (f"https://{HOST}", HTTPStatus.OK)):
        assert (await client.post(**ours(write, Origin=origin))).status_code == status


@pytest.mark.soak
async def test_long_bodies_of_one_caller_do_not_count_as_requests_of_others(tmp_path: Path) -> None:
    """nginx shares its connections: an identity that outlived its request was that of the next one, of anybody."""
    tokens = {name: {"client_id": name} for name in ("ann", "ben")}
    given = {"QUILT_MCP_STATIC_TOKENS": json.dumps(tokens), "QUILT_MCP_RATE_LIMIT": "20/minute"}
    long = request("tools/call", name="get_resource", arguments={"uri": "x" * 400_000})
    async with serve_http(tmp_path, **PUBLIC, **given) as server, proxying(tmp_path, server.port) as client:
        for name in tokens:
            answer = await client.post(**ours(long, Authorization=f"Bearer {name}"))
            assert answer.status_code == HTTPStatus.OK
        asked = [await client.get("/health", **OURS) for _ in range(60)]
    assert {answer.status_code for answer in asked} == {HTTPStatus.OK}


async def test_one_address_cannot_send_too_fast_or_take_all_connections(tmp_path: Path) -> None:
    """With smaller limits than those of the package, and without a queue. The first request does not end by itself."""
    changed = {"rate=200r/s": "rate=1r/m", "burst=400": "burst=3 nodelay", "connections 200": "connections 1"}
    waiting, release = asyncio.Event(), asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        waiting.set()
        await release.wait()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    address = server.sockets[0].getsockname()[1]
    async with server, proxying(tmp_path, address, changed=changed) as client:
        first = asyncio.create_task(client.get("/health", **OURS))
        await waiting.wait()
        assert (await client.get("/health", **OURS)).status_code == HTTPStatus.TOO_MANY_REQUESTS
        release.set()
        assert (await first).status_code == HTTPStatus.OK
        found = [(await client.get("/health", **OURS)).status_code for _ in range(3)]
    assert found == [HTTPStatus.OK, HTTPStatus.OK, HTTPStatus.TOO_MANY_REQUESTS]


def test_only_reads_are_repeated() -> None:
    text = CONFIGURATION.read_text(encoding="utf-8")
    [pattern] = re.findall(r'"~(\^.*)" 1;', text)
    for method in ("resources/read", "resources/list", "tools/list", "server/discover"):
        assert re.match(pattern, f"2026-07-28 {method} any name")
        assert not re.match(pattern, f"2025-11-25 {method} any name")  # no server compares these headers with the body
    assert re.findall(r'"(.*tools/call .*)" 1;', text) == ["2026-07-28 tools/call get_resource"]
    for asked in ("2026-07-28 tools/call workflow_create", "2026-07-28 initialize ", "  ", "2026-07-28 resources/read"):
        assert not re.match(pattern, asked)
