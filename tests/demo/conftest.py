"""Fixtures of the tests of the demo worlds."""

from tests.support.botocore_sessions import (  # noqa: F401 - fixtures
    event_names_translated_once,
    services_described_once,
)
