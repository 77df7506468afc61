"""The answers' models, as Python callers use them."""

import pytest
from pydantic import ValidationError

from quilt_mcp.models.responses import GetResourceError, GetResourceSuccess, ResourceMetadata, to_json


def test_a_success_is_read_as_attributes_and_as_items() -> None:
    response = GetResourceSuccess(uri="auth://status", resource_name="Auth Status", data={"authenticated": True})
    assert response.success is True
    assert response.uri == response["uri"] == response.get("uri") == "auth://status"
    assert "data" in response
    assert "error" not in response
    assert response.get("error", "none") == "none"
    assert response.timestamp.tzinfo is not None
    with pytest.raises(KeyError):
        response["error"]


def test_an_error_takes_its_message_also_as_cause() -> None:
    by_cause = GetResourceError.model_validate(
        {
            "error": "InvalidURI",
            "cause": "Resource not found",
            "suggested_actions": ["Check it"],
            "valid_uris": ["auth://status"],
        }
    )
    by_message = GetResourceError(
        error="InvalidURI", message="Resource not found", suggested_actions=["Check it"], valid_uris=["auth://status"]
    )
    assert by_cause == by_message
    assert by_cause.success is False


def test_an_error_says_what_to_do_next() -> None:
    with pytest.raises(ValidationError):
        GetResourceError(error="NotFound", message="gone", suggested_actions=[])


def test_the_body_holds_valid_uris_only_where_there_are_some_and_never_the_code() -> None:
    error = GetResourceError(error="NotFound", message="gone", suggested_actions=["look"], code=-32003)
    assert error.body().keys() == {"success", "uri", "error", "message", "details", "suggested_actions", "transient"}
    assert "valid_uris" in error.model_copy(update={"valid_uris": ["a://b"]}).body()


def test_json_refuses_what_is_no_json() -> None:
    with pytest.raises(TypeError, match="set is not a JSON type"):
        to_json({"a": {1}})


def test_metadata_needs_no_variables() -> None:
    row = ResourceMetadata(
        uri="a://b", name="B", description="x", is_template=False, requires_admin=False, category="a"
    )
    assert row["template_variables"] == []
