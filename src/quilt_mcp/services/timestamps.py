"""How every answer writes a point in time."""

from datetime import UTC, datetime


def iso(moment: datetime | None) -> str | None:
    """ISO 8601 in UTC with a `Z`, to the second; a moment without a zone is taken as UTC. None stays None."""
    if moment is None:
        return None
    aware = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    return aware.strftime("%Y-%m-%dT%H:%M:%SZ")
