"""Endpoints that replace AWS: each is named, and the session of a Quilt login is not sent to one without TLS."""

import os
from pathlib import Path
from typing import Any

import pytest
import quilt3

from quilt_mcp.core.errors import ResourceExecutionError, Unavailable
from quilt_mcp.demo.world import World
from quilt_mcp.services.diagnosis import check_aws_identity
from quilt_mcp.services.permissions_service import discover_permissions
from quilt_mcp.services.stack.aws import SERVICES, Service
from quilt_mcp.services.stack.callers import current_caller
from tests.services.stack_calls import find_role
from tests.services.test_situations import answering, identity
from tests.support.raw_server import make_response, raw_server
from tests.worlds.mishaps import CLOSED_PORT

REMOTE = "http://minio.example.com:9000"
OPERATIONS = {
    "athena": "list_work_groups",
    "cloudwatch": "list_metrics",
    "glue": "get_databases",
    "s3": "list_buckets",
    "sts": "get_caller_identity",
}


def replace(how: str, service: str, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace one service, or all of them, as botocore documents it."""
    configs = {
        "profile": f"[profile work]\nendpoint_url = {url}\n",
        "services": f"[profile work]\nservices = local\n[services local]\n{service} =\n  endpoint_url = {url}\n",
    }
    if how in configs:
        Path(os.environ["AWS_CONFIG_FILE"]).write_text(configs[how], encoding="utf-8")
        monkeypatch.setenv("AWS_PROFILE", "work")
    else:
        monkeypatch.setenv(f"AWS_ENDPOINT_URL{f'_{service.upper()}' if how == 'variable' else ''}", url)


@pytest.mark.parametrize("how", ["variable", "services"])
@pytest.mark.parametrize("service", SERVICES)
def test_an_endpoint_that_replaces_one_service_is_named(
    service: Service, how: str, fresh_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace(how, service, REMOTE, monkeypatch)
    assert current_caller().aws.find_replacements() == {service: "minio.example.com"}


@pytest.mark.parametrize("how", ["variable for all", "profile"])
def test_an_endpoint_that_replaces_all_services_is_named(
    how: str, fresh_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace(how, "", REMOTE, monkeypatch)
    assert current_caller().aws.find_replacements() == dict.fromkeys(SERVICES, "minio.example.com")


def test_without_a_replacement_nothing_is_named(fresh_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", REMOTE)
    monkeypatch.setenv("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true")
    assert current_caller().aws.find_replacements() is None
    assert discover_permissions()["user_identity"]["aws_endpoint"] is None


def test_the_answer_and_doctor_name_a_replaced_s3(fresh_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """MinIO and LocalStack listen on this machine without TLS: what they say is not said by AWS."""
    refusal = b"<Error><Code>AccessDenied</Code><Message>No.</Message></Error>"
    with raw_server(lambda _: [make_response("403 Forbidden", refusal)]) as s3:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", s3.url)
        found = discover_permissions()
        assert s3.requests
    assert found["user_identity"]["aws_endpoint"] == {"s3": "127.0.0.1"}
    sign_in: Any = {"state": "ok"}
    check = check_aws_identity({"success": True, "data": found}, sign_in)
    assert check["detail"] == f"{found['user_identity']['arn']} with s3 at 127.0.0.1"


@pytest.mark.parametrize("how", ["variable", "services"])
@pytest.mark.parametrize("service", SERVICES)
def test_the_session_of_a_login_is_not_sent_to_another_machine_without_tls(
    service: Service, how: str, fresh_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace(how, service, REMOTE, monkeypatch)
    with answering({}), pytest.raises(ResourceExecutionError, match="is not encrypted, so the AWS session") as caught:
        current_caller().aws.call(service, OPERATIONS[service])
    assert (caught.value.details, caught.value.transient) == (f"{service}: http instead of https", False)
    assert f"AWS_ENDPOINT_URL_{service.upper()}" in caught.value.suggested_actions[0]


@pytest.mark.parametrize("url", [CLOSED_PORT, CLOSED_PORT.replace("http:", "https:")])
def test_this_machine_and_tls_are_not_refused(url: str, fresh_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    replace("variable", "s3", url, monkeypatch)
    with pytest.raises(Unavailable, match="AWS cannot be reached"):
        current_caller().aws.call("s3", "list_buckets")


def test_credentials_of_this_machine_are_sent_where_its_owner_says(
    fresh_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    quilt3.logout()
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "made-up")
    monkeypatch.setenv("AWS_ENDPOINT_URL", REMOTE)
    with answering(identity("arn:aws:sts::1:assumed-role/Quilt-Lab/ann")):
        assert find_role(current_caller().aws) == "Lab"


@pytest.mark.parametrize("service", SERVICES)
def test_an_endpoint_that_is_not_a_url_is_explained(
    service: Service, fresh_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace("variable", service, "localhost:9000", monkeypatch)
    aws = current_caller().aws
    with pytest.raises(ResourceExecutionError, match=f"{service} is not a valid URL") as caught:
        aws.call(service, OPERATIONS[service])
    assert f"AWS_ENDPOINT_URL_{service.upper()}" in caught.value.suggested_actions[0]
    assert aws.find_replacements() is None
