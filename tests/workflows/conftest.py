"""Fixtures of the tests of workflows."""

from tests.support.compiled_statements import statements_compiled_once  # noqa: F401 - a fixture
