"""Lets botocore translate the names of its events once, and not for each of its sessions."""

from collections.abc import Iterator
from unittest.mock import patch

import pytest
from botocore.hooks import EventAliaser


@pytest.fixture(scope="session", autouse=True)
def event_names_translated_once() -> Iterator[None]:
    """Share the translations of the handlers of all sessions: they took nine tenths of the time to create a session."""
    translate = vars(EventAliaser)["_alias_event_name"]
    known: dict[str, str] = {}

    def recall(events: EventAliaser, name: str) -> str:
        if name not in known:
            known[name] = translate(events, name)
        return known[name]

    with patch.object(EventAliaser, "_alias_event_name", recall):
        yield
