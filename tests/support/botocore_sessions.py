"""Lets botocore prepare once for all of its sessions what it prepares for each: most of the time to create one."""

from collections.abc import Iterator
from functools import cache
from unittest.mock import patch

import botocore.session
import pytest
from botocore.hooks import EventAliaser


@pytest.fixture(scope="session", autouse=True)
def event_names_translated_once() -> Iterator[None]:
    """Share the translated names of events: each session registers 190 handlers."""
    translate = vars(EventAliaser)["_alias_event_name"]
    known: dict[str, str] = {}

    def recall(events: EventAliaser, name: str) -> str:
        if name not in known:
            known[name] = translate(events, name)
        return known[name]

    with patch.object(EventAliaser, "_alias_event_name", recall):
        yield


@pytest.fixture(scope="session", autouse=True)
def services_described_once() -> Iterator[None]:
    """Share the descriptions of the AWS services. moto, which changes some, loads its own."""
    with patch.object(botocore.session, "create_loader", cache(botocore.session.create_loader)):
        yield
