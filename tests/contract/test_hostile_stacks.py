"""A stack that answers badly: no read ends in a masked error of this server, and auth://status always answers."""

import json
import logging
from collections.abc import Iterable, Iterator
from http import HTTPStatus
from typing import Any

import pytest

from quilt_mcp.demo.http_server import Answer as Response
from quilt_mcp.demo.world import World
from tests.contract.cases import OF_QUILT, RESOURCES
from tests.contract.surfaces import Answer, AnyClient, ask
from tests.support.samples import choose_every
from tests.support.worlds import in_world

URIS = [row.example_uri for row in RESOURCES if row.category in OF_QUILT]
# One for each way in which a response of the stack is read.
SOME_URIS = (
    "auth://status",
    "admin://users",
    "admin://roles",
    "quilt://buckets",
    "tabulator://buckets",
    "tabulator://buckets/acme-raw-sequencing/tables",
    "permissions://buckets/acme-raw-sequencing/access",
)
EVERYWHERE = ("html", "data null", "data and errors", "errors of null", "deep", "me without a name")
STATUS = "auth://status"
ENDPOINTS = ("/graphql", "/config.json", "/api/auth/get_credentials")
LARGEST_ANSWER = 20_000_000

ME = {
    "name": "amara_osei",
    "email": "amara.osei@acme.example.com",
    "is_admin": True,
    "role": {"name": "DataPlatform"},
    "roles": [{"name": "DataPlatform"}],
}
ERROR = {"message": "x", "path": ["me"]}


def make_buckets(**changes: object) -> dict[str, Any]:
    """Return data for all queries about buckets."""
    bucket: dict[str, object] = {
        "name": "acme-raw-sequencing",
        "title": "Raw",
        "description": None,
        "tags": [],
        "relevance": 0,
        "collaborators": [],
        "tables": [],
    }
    row = {**bucket, **changes}
    return {"buckets": [row], "bucketConfigs": [row], "bucketConfig": row}


def make_data(**values: object) -> dict[str, object]:
    return {"data": {"me": ME, **make_buckets(), **values}}


BODIES: dict[str, object] = {
    "html": b"<!doctype html><title>Sign in</title>",
    "nothing": b"",
    "null": b"null",
    "list": [],
    "text": "ok",
    "number": 1,
    "no data": {},
    "data null": {"data": None},
    "data list": {"data": []},
    "data text": {"data": "x"},
    "data empty": {"data": {}},
    "me text": make_data(me="amara_osei"),
    "me without a name": make_data(me={**ME, "name": None}),
    "name is a number": make_data(me={**ME, "name": 7}),
    "isAdmin is text": make_data(me={**ME, "is_admin": "maybe"}),
    "role is text": make_data(me={**ME, "role": "DataPlatform"}),
    "role without a name": make_data(me={**ME, "role": {"name": None}}),
    "roles is an object": make_data(me={**ME, "roles": {}}),
    "name with surrogates": b'{"data": {"me": {"name": "\\ud800", "email": "\\udfff", "is_admin": true, '
    b'"role": {"name": "\\ud800"}, "roles": []}}}',
    "name with controls": make_data(me={**ME, "name": "a\x00\x1b[31m\u202e", "role": {"name": "\x00"}}),
    "buckets null": make_data(buckets=None, bucketConfigs=None),
    "bucket null": make_data(buckets=[None], bucketConfigs=[None]),
    "bucket name null": make_data(**make_buckets(name=None)),
    "bucket name is a number": make_data(**make_buckets(name=5)),
    "bucket name with controls": make_data(**make_buckets(name="a\x00/../\ud800")),
    "bucket name empty": make_data(**make_buckets(name="")),
    "relevance is large": make_data(**make_buckets(relevance=10**30)),
    "the same bucket twice": make_data(buckets=[*make_buckets()["buckets"] * 2], bucketConfigs=[]),
    "tables of another type": make_data(**make_buckets(tables="all", collaborators=7)),
    "data and errors": {**make_data(), "errors": [ERROR]},
    "data null and errors": {"data": None, "errors": [ERROR]},
    "errors text": {"errors": "no"},
    "errors number": {"errors": 7, "data": None},
    "errors empty": {"errors": []},
    "errors of null": {"errors": [None], "data": None},
    "error path is a number": {"errors": [{"message": "x", "path": 7}], "data": None},
    "error path is text": {"errors": [{"message": "x", "path": "me.role"}], "data": None},
    "error path of objects": {"errors": [{"message": "x", "path": [{"a": 1}, None, "\x00\u202e\n"]}], "data": None},
    "error message is null": {"errors": [{"message": None, "path": ["me"]}], "data": None},
    "error without a message": {"errors": [{}], "data": None},
    "error path very long": {"errors": [{"message": "x", "path": ["p" * 100_000]}], "data": None},
    "10 MB": {"data": {"me": ME, "more": "x" * 10_000_000}},
    "many errors": {"errors": [ERROR] * 20_000, "data": None},
    "deep": b"[" * 200_000,
    "deep data": b'{"data": {"me": ' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"}}",
    "long number": b'{"data": {"me": 1' + b"0" * 6000 + b"}}",
    "not a number": b'{"data": {"me": NaN, "buckets": Infinity}}',
    "utf-16": json.dumps(make_data()).encode("utf-16"),
    "invalid utf-8": b'{"data": "\xff\xfe"}',
    "with a byte order mark": b"\xef\xbb\xbf" + json.dumps(make_data()).encode(),
}
STATUSES = (204, 300, 308, 400, 401, 403, 404, 429, 500, 599)


@pytest.fixture
def forced(world: World) -> Iterator[dict[str, Response]]:
    """The responses that the stack is forced to give. Afterwards there are none."""
    yield world.stack.forced
    world.stack.forced.clear()


def check(answer: Answer, caplog: pytest.LogCaptureFixture) -> None:
    """Check that a read ended in data or in a clear error."""
    bugs = [record.getMessage() for record in caplog.records if record.exc_info or record.levelno >= logging.ERROR]
    assert bugs == [], f"{answer.uri}: {bugs}"
    body = answer.body
    if not body["success"]:
        assert "nternal" not in body["message"], body
        assert all(map(str.isprintable, (body["message"], body["details"] or "", *body["suggested_actions"]))), body
        assert len(json.dumps(body)) < 5000, "an error repeats nothing large"
    assert body["success"] or answer.uri != STATUS, body
    assert len(json.dumps(body)) < LARGEST_ANSWER


async def check_all(
    client: AnyClient, caplog: pytest.LogCaptureFixture, uris: Iterable[str] = URIS
) -> dict[str, Answer]:
    """Read each of these URIs on both surfaces."""
    caplog.set_level(logging.INFO)
    answers = {}
    for uri in uris:
        answers[uri] = await ask(client, uri)
        check(answers[uri], caplog)
    return answers


@in_world("admin")
@pytest.mark.parametrize("kind", choose_every(5, BODIES))
async def test_a_wrong_body_is_an_error_or_unknown(
    kind: str, world: World, client: AnyClient, forced: dict[str, Response], caplog: pytest.LogCaptureFixture
) -> None:
    forced["/graphql"] = Response(HTTPStatus.OK, BODIES[kind])
    await check_all(client, caplog, SOME_URIS)


@in_world("admin")
@pytest.mark.parametrize("kind", ["html", *(pytest.param(kind, marks=pytest.mark.soak) for kind in EVERYWHERE[1:])])
async def test_a_wrong_body_is_an_error_or_unknown_to_every_resource(
    kind: str, world: World, client: AnyClient, forced: dict[str, Response], caplog: pytest.LogCaptureFixture
) -> None:
    forced["/graphql"] = Response(HTTPStatus.OK, BODIES[kind])
    await check_all(client, caplog, URIS)


@in_world("admin")
@pytest.mark.parametrize(
    "kind", choose_every(2, ["html", "null", "list", "number", "deep", "long number", "invalid utf-8"])
)
async def test_a_wrong_body_of_other_endpoints_is_an_error_or_unknown(
    kind: str, world: World, client: AnyClient, forced: dict[str, Response], caplog: pytest.LogCaptureFixture
) -> None:
    forced |= dict.fromkeys(ENDPOINTS[1:], Response(HTTPStatus.OK, BODIES[kind]))
    await check_all(client, caplog, (STATUS, "auth://catalog/info", "athena://workgroups", "tabulator://buckets"))


CREDENTIALS: dict[str, object] = {
    "no keys": {},
    "null": {"AccessKeyId": None, "SecretAccessKey": None, "SessionToken": None, "Expiration": None},
    "no expiry": {"AccessKeyId": "A", "SecretAccessKey": "S3CRET", "SessionToken": "S3CRET", "Expiration": "soon"},
    "expired": {
        "AccessKeyId": "A",
        "SecretAccessKey": "S3CRET",
        "SessionToken": "S3CRET",
        "Expiration": "2001-01-01T00:00:00Z",
    },
    "new lines": {
        "AccessKeyId": "A\r\nX-Evil: 1",
        "SecretAccessKey": "S3CRET\n",
        "SessionToken": "S3CRET\r\n",
        "Expiration": "2030-01-01T00:00:00Z",
    },
    "not ASCII": {
        "AccessKeyId": "Ä\u202e",
        "SecretAccessKey": "S3CRETé",
        "SessionToken": "S3CRET語",
        "Expiration": "2030-01-01T00:00:00Z",
    },
    "numbers": {"AccessKeyId": 1, "SecretAccessKey": 2, "SessionToken": 3, "Expiration": 10**40},
}


@in_world("admin")
@pytest.mark.parametrize("kind", CREDENTIALS)
async def test_credentials_that_cannot_be_used_are_an_error(
    kind: str, world: World, client: AnyClient, forced: dict[str, Response], caplog: pytest.LogCaptureFixture
) -> None:
    forced["/api/auth/get_credentials"] = Response(HTTPStatus.OK, CREDENTIALS[kind])
    answers = await check_all(client, caplog, (STATUS, "athena://databases", "permissions://discover"))
    assert "S3CRET" not in str(answers) + caplog.text


@in_world("admin")
@pytest.mark.parametrize("status", choose_every(2, STATUSES))
async def test_every_status_is_an_error_or_unknown(
    status: int, world: World, client: AnyClient, forced: dict[str, Response], caplog: pytest.LogCaptureFixture
) -> None:
    headers = (("Location", "//[:::"), ("Retry-After", "-1"))
    for path in ENDPOINTS:
        forced[path] = Response(status, b"" if status == HTTPStatus.NO_CONTENT else b"<html>", headers)
    for uri in (STATUS, "auth://catalog/info", "admin://users", "quilt://buckets", "permissions://discover"):
        check(await ask(client, uri), caplog)
