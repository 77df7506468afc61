"""Fixtures of the tests of the demo worlds."""

from tests.support.botocore_events import event_names_translated_once  # noqa: F401 - a fixture
