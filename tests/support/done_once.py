"""What libraries do once in a process of tests, and would do again for each server, session, client or command."""

import json
import os
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from functools import cache, partial
from importlib import import_module
from typing import Any, cast
from unittest.mock import patch

import botocore.session
import pytest
import yaml
from botocore import hooks
from botocore.hooks import EventAliaser
from cyclopts import App, ArgumentCollection
from fastmcp.tools.function_parsing import ParsedFunction
from joserfc import jwk
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it ships no type information
from pydantic.fields import FieldInfo
from pydantic_settings import EnvSettingsSource
from sqlalchemy import ClauseElement, Compiled, Dialect
from sqlalchemy.util import LRUCache

from quilt_mcp.core.answers import JSONObject


@pytest.fixture(scope="session", autouse=True)
def _tools_parsed_once() -> Iterator[None]:
    """Let FastMCP derive the schemas of each of our tools once, and a client check each once: not in each test."""
    parse = ParsedFunction.from_function
    known: dict[object, tuple[ParsedFunction, str]] = {}

    def recall(function: Callable[..., object], **options: bool) -> ParsedFunction:
        if not getattr(function, "__module__", "").startswith("quilt_mcp.") or "<locals>" in function.__qualname__:
            return parse(function, **options)
        key = (function, *sorted(options.items()))
        if key not in known:
            found = parse(function, **options)
            known[key] = found, json.dumps((found.input_schema, found.output_schema))
        found, schemas = known[key]
        input_schema, output_schema = json.loads(schemas)
        return replace(found, input_schema=input_schema, output_schema=output_schema)

    check = Draft202012Validator.check_schema
    valid: set[str] = set()

    def check_once(schema: JSONObject) -> None:
        text = json.dumps(schema)
        if text not in valid:
            check(schema)
            valid.add(text)

    with (
        patch.object(ParsedFunction, "from_function", recall),
        patch.object(Draft202012Validator, "check_schema", check_once),
    ):
        yield


@pytest.fixture(scope="session", autouse=True)
def _yaml_parsed_in_c() -> Iterator[None]:
    """Let quilt3 read its configuration with PyYAML's faster parser: each world and many reads do."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    with patch.object(yaml, "safe_load", partial(yaml.load, Loader=loader)):
        yield


@pytest.fixture(scope="session", autouse=True)
def _aws_models_parsed_once() -> Iterator[None]:
    """Let all sessions of botocore share what they read from its files, and what they find out about its handlers.

    A client of a test took 20 ms before, now 6. moto has its own loader, and changes the models of services in it.
    """
    with (
        patch.object(botocore.session, "create_loader", cache(botocore.session.create_loader)),
        patch.object(hooks, "accepts_kwargs", cache(hooks.accepts_kwargs)),
        _remembering(EventAliaser, "_alias_event_name", lambda _, name: name),
    ):
        yield


@pytest.fixture(scope="session", autouse=True)
def _authorities_loaded_once() -> Iterator[None]:
    """Let HTTP clients share a TLS context: each would load all certificate authorities of this machine."""
    transports = import_module("httpx2._transports.default")
    create = transports.create_ssl_context
    known: dict[object, ssl.SSLContext] = {}

    def recall(**options: object) -> ssl.SSLContext:
        if options.get("verify", True) is not True:  # a context of the test
            return cast("ssl.SSLContext", create(**options))
        key = *options.items(), os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
        if key not in known:
            known[key] = create(**options)
        return known[key]

    with (
        patch.object(transports, "create_ssl_context", recall),
        patch.object(import_module("httpx2"), "create_ssl_context", recall),
    ):
        yield


@pytest.fixture(scope="session", autouse=True)
def _keys_loaded_once() -> Iterator[None]:
    """Let FastMCP load each key once: the primes of a private key are checked each time."""
    load, load_once = jwk.import_key, cache(jwk.import_key)
    with patch.object(jwk, "import_key", lambda key, *of: (load_once if isinstance(key, str) else load)(key, *of)):
        yield


@pytest.fixture(scope="session", autouse=True)
def _settings_inspected_once() -> Iterator[None]:
    """Let pydantic-settings find out once, and not for each instance, which variables belong to a setting."""

    def identify(source: EnvSettingsSource, field: FieldInfo, *names: str) -> object:
        return (
            source.settings_cls,
            source.env_prefix,
            source.case_sensitive,
            id(field),
            *names,
        )  # the class keeps fields

    with (
        _remembering(EnvSettingsSource, "_extract_field_info", identify),
        _remembering(EnvSettingsSource, "_field_is_complex", identify),
    ):
        yield


@pytest.fixture(scope="session", autouse=True)
def _commands_inspected_once() -> Iterator[None]:
    """Let cyclopts inspect the function of each command once, and not for each call of the command line."""
    assemble = App.assemble_argument_collection
    known: dict[Callable[..., Any] | None, ArgumentCollection] = {}

    def recall(app: App, **options: Any) -> ArgumentCollection:
        if options:
            return assemble(app, **options)
        if app.default_command not in known:
            known[app.default_command] = assemble(app)
        arguments = [copy(one) for one in known[app.default_command]]
        for one in arguments:
            one.tokens = []
        return ArgumentCollection(arguments)  # type: ignore[no-untyped-call]  # cyclopts does not annotate it

    with patch.object(App, "assemble_argument_collection", recall):
        yield


@pytest.fixture(scope="session", autouse=True)
def _statements_compiled_once() -> Iterator[None]:
    """Let SQLAlchemy compile each statement once for all SQLite engines: its own cache is for one engine."""
    name = "_compile_w_cache"
    compile_ = vars(ClauseElement)[name]
    compiled: LRUCache[Any, Compiled] = LRUCache(2000)
    dialects: dict[type[Dialect], Dialect] = {}

    def recall(self: ClauseElement, dialect: Dialect, *, compiled_cache: Any, **options: Any) -> object:
        if dialect.name == "sqlite" and compiled_cache is not None:
            dialect, compiled_cache = dialects.setdefault(type(dialect), dialect), compiled
        return compile_(self, dialect, compiled_cache=compiled_cache, **options)

    with patch.object(ClauseElement, name, recall):
        yield


@contextmanager
def _remembering(owner: type, name: str, identify: Callable[..., object]) -> Iterator[None]:
    """Let a method find each of its results once. Calls with the same identity have the same result."""
    find = getattr(owner, name)
    known: dict[object, object] = {}

    def recall(*arguments: object) -> object:
        key = identify(*arguments)
        if key not in known:
            known[key] = find(*arguments)
        return known[key]

    with patch.object(owner, name, recall):
        yield
