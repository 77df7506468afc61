"""Fixtures of the tests of what reaches Quilt and AWS."""

from tests.support.botocore_events import event_names_translated_once  # noqa: F401 - a fixture
