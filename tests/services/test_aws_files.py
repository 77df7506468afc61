"""AWS files that botocore cannot use: a Quilt login works without them, and otherwise the failure names the file."""

import os
from pathlib import Path

import pytest
import quilt3

from quilt_mcp.core.errors import NotSignedIn, ResourceFailure
from quilt_mcp.demo.world import World
from quilt_mcp.services.permissions_service import discover_permissions
from quilt_mcp.services.stack.callers import current_caller
from tests.services.stack_calls import find_role
from tests.services.test_situations import answering, identity

SECRET = "wJalrXUtnFEMI"
BROKEN_FILES = {
    "a key twice": f"[default]\nregion = us-east-1\naws_secret_access_key = {SECRET}\nregion = us-east-1\n",
    "a section twice": "[default]\nregion = us-east-1\n[default]\nregion = us-east-1\n",
    "a section without an end": f"[default\naws_secret_access_key = {SECRET}\n",
    "text before the first section": f"aws_secret_access_key = {SECRET}\n[default]\n",
    "no text": "\udcff\x00[default]\n",
    "an unknown STS endpoint": "[default]\nsts_regional_endpoints = x\n",
    "an unknown checksum": "[default]\nrequest_checksum_calculation = x\n",
    "unknown defaults": "[default]\ndefaults_mode = x\n",
    "services that are missing": "[default]\nservices = local\n",
    "an unknown mode of account IDs": "[default]\naccount_id_endpoint_mode = x\n",
    "an unknown style of S3": "[default]\ns3 =\n  addressing_style = x\n",
    "a timeout that is no number": "[default]\nmetadata_service_timeout = x\n",
    "a compression below zero": "[default]\nrequest_min_compression_size_bytes = -5\n",
}
"""With these, botocore creates no session or no client."""
ROLE = "role_arn = arn:aws:iam::123456789012:role/x"
BROKEN_CREDENTIALS = {
    "an SSO session that is missing": "[default]\nsso_session = gone\nsso_account_id = 1\nsso_role_name = x\n",
    "a source that is missing": f"[default]\n{ROLE}\nsource_profile = gone\n",
    "a profile without keys that is its own source": f"[default]\n{ROLE}\nsource_profile = default\n",
    "a command that is missing": "[default]\ncredential_process = /nonexistent/command\n",
    "a command that prints no JSON": f"[default]\ncredential_process = echo {SECRET}\n",
    "a command with one quote": "[default]\ncredential_process = 'x\n",
    "a token that is missing": f"[default]\n{ROLE}\nweb_identity_token_file = /nonexistent/token\n",
}
"""With these, botocore finds no credentials."""
BROKEN = {**BROKEN_FILES, **BROKEN_CREDENTIALS}
OF_S3 = "[default]\ns3 = signature_version = s3v4\n"
UNUSED = {
    "a value where a section of S3 belongs": OF_S3,
    "an unknown retry mode": "[default]\nretry_mode = x\n",
    "attempts that are no number": "[default]\nmax_attempts = x\n",
}
"""STS does without these: they concern S3, or this server has its own values."""
WITHOUT_HARM_TO_A_LOGIN = {**BROKEN, **UNUSED}


def write_config(text: str) -> Path:
    path = Path(os.environ["AWS_CONFIG_FILE"])
    path.write_bytes(text.encode(errors="surrogateescape"))
    return path


@pytest.mark.parametrize("fault", WITHOUT_HARM_TO_A_LOGIN)
def test_a_quilt_login_works_without_aws_files(fault: str, fresh_world: World) -> None:
    write_config(WITHOUT_HARM_TO_A_LOGIN[fault])
    assert find_role() == "DataPlatform"
    assert discover_permissions()["count"] > 1


@pytest.mark.parametrize("fault", ["a key twice", "a section without an end", "no text"])
def test_a_quilt_login_works_without_a_credentials_file(fault: str, fresh_world: World) -> None:
    Path(os.environ["AWS_SHARED_CREDENTIALS_FILE"]).write_bytes(BROKEN[fault].encode(errors="surrogateescape"))
    assert find_role() == "DataPlatform"


@pytest.mark.parametrize("fault", BROKEN)
def test_without_a_login_the_failure_names_the_file_and_no_content(fault: str, fresh_world: World) -> None:
    quilt3.logout()
    path = write_config(BROKEN[fault])
    with pytest.raises(ResourceFailure) as found:
        find_role()
    failure = found.value
    assert failure.message == "The AWS settings of this machine cannot be used."
    named = {"a command that is missing": "/nonexistent/command", "a token that is missing": "/nonexistent/token"}
    assert named.get(fault, str(path)) in str(failure.details)
    assert SECRET not in f"{failure} {failure.details}"
    assert not failure.transient


@pytest.mark.parametrize("text", UNUSED.values(), ids=UNUSED)
def test_what_a_call_does_not_need_does_no_harm(text: str, fresh_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    quilt3.logout()
    write_config(text)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "made-up")
    with answering(identity("arn:aws:sts::1:assumed-role/Quilt-Lab/ann")):
        assert find_role() == "Lab"


def test_settings_of_s3_that_cannot_be_used_are_named(fresh_world: World) -> None:
    quilt3.logout()
    path = write_config(OF_S3)
    with pytest.raises(ResourceFailure, match="The AWS settings of this machine cannot be used") as found:
        current_caller().aws.call("s3", "list_buckets")
    assert str(path) in str(found.value.details)


def test_a_line_that_cannot_be_parsed_is_named(fresh_world: World) -> None:
    quilt3.logout()
    path = write_config(BROKEN["a key twice"])
    with pytest.raises(ResourceFailure) as found:
        find_role()
    assert found.value.details == f"ConfigParseError: {path}, line 4"


def test_variables_hold_without_the_files(fresh_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    write_config(OF_S3)
    monkeypatch.setenv("AWS_ENDPOINT_URL_GLUE", "https://glue.internal.example")
    assert current_caller().aws.find_replacements() == {"glue": "glue.internal.example"}


def test_a_variable_that_cannot_be_used_is_named(fresh_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_STS_REGIONAL_ENDPOINTS", "x")
    with pytest.raises(ResourceFailure, match="The AWS settings of this machine cannot be used") as found:
        find_role()
    assert "an AWS_ variable" in str(found.value.details)


def test_a_session_of_sso_that_has_ended_says_how_to_renew_it(fresh_world: World) -> None:
    quilt3.logout()
    write_config(
        "[default]\nsso_session = work\nsso_account_id = 123456789012\nsso_role_name = x\n"
        "[sso-session work]\nsso_region = us-east-1\nsso_start_url = https://example.awsapps.com/start\n"
    )
    with pytest.raises(NotSignedIn, match="The AWS session of this machine has ended") as found:
        find_role()
    assert "`aws sso login`" in found.value.suggested_actions[0]


def test_a_region_that_is_none_is_named(fresh_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    quilt3.config(region="US EAST")
    with pytest.raises(ResourceFailure, match="The AWS region has a form that no region has"):
        find_role()
