"""The answers' models, as Python callers use them."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from pydantic import ValidationError

from quilt_mcp.core.answers import GetResourceError, GetResourceSuccess, ResourceMetadata, iso


def test_a_success_gives_access_by_attribute_and_by_key() -> None:
    response = GetResourceSuccess(uri="auth://status", resource_name="Auth Status", data={"authenticated": True})
    assert response.success is True
    assert response.uri == response["uri"] == response.get("uri") == "auth://status"
    assert "data" in response
    assert "error" not in response
    assert response.get("error", "none") == "none"
    assert response.timestamp.tzinfo is not None
    with pytest.raises(KeyError):
        response["error"]


def test_an_error_accepts_its_message_as_cause() -> None:
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
    assert by_cause.cause == by_cause.message == "Resource not found"
    assert "cause" not in by_cause.body()


def test_an_error_must_have_a_suggested_action() -> None:
    with pytest.raises(ValidationError):
        GetResourceError(error="NotFound", message="gone", suggested_actions=[])


def test_the_body_has_valid_uris_only_if_there_are_some_and_never_the_code() -> None:
    error = GetResourceError(error="NotFound", message="gone", suggested_actions=["look"], code=-32003)
    assert error.body().keys() == {"success", "uri", "error", "message", "details", "suggested_actions", "transient"}
    assert "valid_uris" in error.model_copy(update={"valid_uris": ["a://b"]}).body()


def test_metadata_needs_no_variables() -> None:
    row = ResourceMetadata(
        uri="a://b", name="B", description="x", is_template=False, requires_admin=False, category="a"
    )
    assert row["template_variables"] == []


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "2026-01-02T03:04:05Z"),
        (datetime(2026, 1, 2, 3, 4, 5, 999_999, tzinfo=UTC), "2026-01-02T03:04:05Z"),
        (datetime(2026, 1, 2, 3, 4, 5), "2026-01-02T03:04:05Z"),  # noqa: DTZ001 - such values are accepted
        (datetime(2026, 1, 1, 1, 0, 0, 1, tzinfo=timezone(timedelta(hours=5, minutes=30))), "2025-12-31T19:30:00Z"),
        (datetime(2026, 1, 1, 23, 0, tzinfo=timezone(timedelta(hours=-2))), "2026-01-02T01:00:00Z"),
        (datetime(2026, 1, 1, tzinfo=timezone(timedelta(0), "GMT")), "2026-01-01T00:00:00Z"),
        (datetime(900, 1, 1, tzinfo=UTC), "0900-01-01T00:00:00Z"),
        (None, None),
    ],
)
def test_a_time_is_iso_8601_in_utc_to_the_second(moment: datetime | None, text: str | None) -> None:
    assert iso(moment) == text


def test_a_timestamp_without_a_time_zone_counts_as_utc() -> None:
    naive = datetime(2026, 1, 2, 3, 4, 5)  # noqa: DTZ001 - such values are accepted
    answer = GetResourceSuccess(uri="a://b", resource_name="B", data={}, timestamp=naive)
    assert answer.body()["timestamp"] == "2026-01-02T03:04:05Z"
