"""The Dockerfile and the compose file. No container engine is needed."""

import importlib
import json
import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fastmcp.server.auth.providers.jwt import RSAKeyPair

import quilt_mcp.http
from quilt_mcp.commands.cli import list_commands
from quilt_mcp.console.parser import create_app
from tests.distribution.dockerfile import build, is_sent, machine, run_image, stages
from tests.http.web import request
from tests.support.server_process import ROOT
from tests.support.settings import Settings
from tests.support.settings_tables import name_variable

yaml = importlib.import_module("yaml")  # it has no type information
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "deploy" / "compose.yml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
SERVERS = ("server-1", "server-2")
DIGEST = re.compile(r"[a-z/]+:[\w.-]+@sha256:[0-9a-f]{64}")
DEADLINE = Settings.model_fields["deadline_seconds"].default
VARIABLES = {name_variable(name) for name in Settings.model_fields}
ISSUER, AUDIENCE = "https://id.example.com", "quilt-mcp"
DRIVER = """
import json, os, subprocess, sys, time, urllib.error, urllib.request

command, check, ask = (json.loads(os.environ[name]) for name in ("IMAGE_COMMAND", "IMAGE_HEALTH_CHECK", "ASK"))
server = subprocess.Popen(command, stderr=open("/tmp/log", "w"))
while subprocess.run(check, stderr=subprocess.DEVNULL).returncode and server.poll() is None:
    time.sleep(0.2)


def status(headers):
    body = json.dumps(ask["json"]).encode()
    sent = urllib.request.Request("http://127.0.0.1:8000" + ask["url"], body, ask["headers"] | headers)
    try:
        with urllib.request.urlopen(sent, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, ""


def can_write(path):
    try:
        open(path, "w").close()
    except OSError as error:
        return error.strerror
    return True


result = {
    "refused": status({})[0],
    "answer": status({"Authorization": "Bearer " + os.environ["TOKEN"]}),
    "writes": {path: can_write(path) for path in ("/srv/x", "/srv/quilt-mcp/x", "/x", "/srv/data/x", "/tmp/x")},
}
server.terminate()
result["exit"] = server.wait(60)
result["log"] = open("/tmp/log").read()
print(json.dumps(result))
"""


def test_the_image_runs_as_a_user_without_rights_and_has_what_it_copies() -> None:
    *_, final = stages()
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", final.last("USER"))
    create_app(list_commands()).parse_args(final.command[1:])
    assert final.environment.keys() - {"PATH", "HOME"} <= VARIABLES
    images = [stage.image for stage in stages()]
    assert images[0] == images[1]
    assert images[0].startswith("python:3.13-slim@")  # a short name: the engine finds its registry
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    extras = re.findall(r"^(\w+) = \[", project.partition("[project.optional-dependencies]")[2], re.MULTILINE)
    assert set(stages()[0].environment["EXTRAS"].split(",")) <= set(extras)


@pytest.mark.parametrize(
    ("path", "sent"),
    [("src/quilt_mcp/py.typed", True), ("LICENSE", True), (".git/config", False), (".venv/pyvenv.cfg", False)],
)
def test_the_engine_sees_only_what_the_image_needs(path: str, sent: bool) -> None:  # noqa: FBT001 - a case
    assert is_sent(path) is sent


@pytest.mark.install
def test_the_image_builds_and_serves_on_a_read_only_file_system() -> None:
    first, final = stages()
    keys = RSAKeyPair.generate()
    with machine() as host:
        host.check()
        built = build(first, host)
        srv = host.make("srv")
        copied = [rest.split() for instruction, rest in final.instructions if instruction == "COPY"]
        for *_, source, target in copied:
            (built / Path(source).relative_to("/srv")).rename(srv / Path(target).relative_to("/srv"))
        environment = {
            "QUILT_MCP_JWT_PUBLIC_KEY": keys.public_key,
            "QUILT_MCP_JWT_ISSUER": ISSUER,
            "QUILT_MCP_JWT_AUDIENCE": AUDIENCE,
            "TOKEN": keys.create_token(issuer=ISSUER, audience=AUDIENCE),
            "ASK": json.dumps(request("resources/read", uri="workflow://workflows")),
        }
        found = json.loads(run_image(final, srv, host, DRIVER, environment))
    status, answer = found["answer"]
    assert (found["refused"], status) == (401, 200), found
    assert found["exit"] in {0, 128 + signal.SIGTERM}
    assert json.loads(json.loads(answer)["result"]["contents"][0]["text"])["workflows"] == []
    written = [path for path, outcome in found["writes"].items() if outcome is True]
    assert written == ["/srv/data/x", "/tmp/x"]  # noqa: S108 - of the image
    assert "Traceback" not in found["log"]


def test_the_compose_file_has_two_equal_servers_without_rights() -> None:
    first, second = (dict(SERVICES[name]) for name in SERVERS)
    addresses = [server.pop("networks")["default"]["ipv4_address"] for server in (first, second)]
    assert first == second
    assert len(set(addresses)) == 2
    assert (first["read_only"], first["cap_drop"], first["tmpfs"]) == (True, ["ALL"], ["/tmp"])  # noqa: S108 - of the image
    assert int(first["stop_grace_period"].removesuffix("s")) > DEADLINE
    assert first["ulimits"]["nofile"] > Settings.model_fields["max_connections"].default
    assert {name.removesuffix("_FILE") for name in first["environment"]} <= VARIABLES
    proxy = SERVICES["nginx"]["networks"]["default"]["ipv4_address"]
    assert first["environment"]["QUILT_MCP_TRUSTED_PROXIES"] == proxy
    create_app(list_commands()).parse_args(SERVICES["migrate"]["command"])
    images = {service["image"].partition(":")[0] for service in SERVICES.values()}
    assert images == {"quilt-mcp", "nginx", "valkey/valkey", "postgres"}
    assert all(service["security_opt"] == ["no-new-privileges:true"] for service in SERVICES.values())


def test_images_have_digests_and_secrets_are_files() -> None:
    others = [service["image"] for service in SERVICES.values() if service["image"] != "quilt-mcp"]
    assert [image for image in (*others, *(stage.image for stage in stages())) if not DIGEST.fullmatch(image)] == []
    text = (ROOT / "deploy" / "compose.yml").read_text(encoding="utf-8")
    assert "PASSWORD: " not in text
    given = {name for service in SERVICES.values() for name in service.get("secrets", ())}
    assert given == COMPOSE["secrets"].keys() == set(re.findall(r"^#   ([a-z_.]+)   ", text, re.MULTILINE))
    for service in SERVICES.values():
        files = [value for name, value in service.get("environment", {}).items() if name.endswith("_FILE")]
        assert {Path(file).name for file in files} <= set(service.get("secrets", ()))


@pytest.mark.soak
@pytest.mark.skipif(shutil.which("check-jsonschema") is None, reason="check-jsonschema is not installed")
def test_the_compose_file_has_the_form_of_the_compose_specification() -> None:
    command = ["check-jsonschema", "--builtin-schema", "vendor.compose-spec", str(ROOT / "deploy" / "compose.yml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_every_variable_of_the_compose_file_is_required_and_described() -> None:
    text = (ROOT / "deploy" / "compose.yml").read_text(encoding="utf-8")
    head, _, rest = text.partition("\nname:")
    used = re.findall(r"(?<!\$)\$\{(\w+)([^}]*)\}", rest)
    assert {suffix for _, suffix in used} == {":?"}  # compose refuses to start without a value
    assert {name for name, _ in used} == set(re.findall(r"^#   (\w+)=", head, re.MULTILINE))


def test_only_nginx_can_be_reached_from_outside() -> None:
    assert {name for name, service in SERVICES.items() if "ports" in service} == {"nginx"}


def test_every_dependency_that_must_be_healthy_has_a_health_check() -> None:
    named = [service["depends_on"] for service in SERVICES.values() if isinstance(service.get("depends_on"), dict)]
    needed = {name for one in named for name in one if one[name]["condition"] == "service_healthy"}
    assert needed <= {name for name, service in SERVICES.items() if "healthcheck" in service}


@pytest.mark.parametrize(("status", "code"), [("200 OK", 0), ("503 Service Unavailable", 1)])
def test_the_health_check_of_the_image_asks_the_server_and_no_proxy(status: str, code: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(30)
        _, *arguments = (one.replace("8000", str(listener.getsockname()[1])) for one in stages()[-1].health_check)
        with subprocess.Popen([sys.executable, *arguments], env={"http_proxy": "http://127.0.0.1:9"}) as check:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n".encode())
                assert check.wait(30) == code


@pytest.mark.skipif(shutil.which("sed") is None, reason="sed is not installed")
def test_nginx_of_the_compose_file_reaches_both_servers(tmp_path: Path) -> None:
    shell, option, script = SERVICES["nginx"]["command"]
    source = Path(quilt_mcp.http.__file__).with_name("nginx.conf")
    mounted = dict(volume.split(":")[:2] for volume in SERVICES["nginx"]["volumes"])
    assert (ROOT / "deploy" / "../src/quilt_mcp/http/nginx.conf").samefile(source)
    script = script.replace("$$", "$").replace(mounted["../src/quilt_mcp/http/nginx.conf"], str(source))
    script = script.replace("/etc/nginx/conf.d/default.conf", str(tmp_path / "default.conf"))
    script, _, started = script.partition("exec ")
    assert started.startswith("nginx ")
    environment = {"PUBLIC_URL": "https://quilt.acme.example.com/", "PATH": "/usr/bin:/bin"}
    subprocess.run([shell, option, script], env=environment, check=True)
    text = (tmp_path / "default.conf").read_text(encoding="utf-8")
    port = stages()[-1].last("EXPOSE")
    for name in SERVERS:
        assert f"server {SERVICES[name]['networks']['default']['ipv4_address']}:{port} " in text
    assert "127.0.0.1" not in re.sub(r"#.*", "", text)
    assert "server_name quilt.acme.example.com;" in text
    for path in (volume.split(":")[1] for volume in SERVICES["nginx"]["volumes"][1:]):
        assert path in text
