"""Names of buckets, databases and tables in URIs: every name that AWS allows can be read, all others are refused.

The judge for names in Glue is the pattern in botocore's service model.
"""

import re
from collections.abc import Iterator
from functools import cache
from string import ascii_lowercase, digits
from urllib.parse import quote

import botocore.session
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from moto.glue.models import GlueBackend, glue_backends
from moto.s3.models import s3_backends

from quilt_mcp.demo.account import ACCOUNT_ID, REGION
from quilt_mcp.demo.world import World
from tests.contract.surfaces import Answer, AnyClient, ask
from tests.support.examples import count_examples
from tests.support.samples import choose_every
from tests.support.worlds import in_world

BUCKET = "permissions://buckets/{}/access"
TABLES = "athena://databases/{}/tables"
REFUSALS = {"InvalidURI", "InvalidTemplateVariable", "MissingTemplateVariable", "NotFound"}
MASKED = re.compile(r"correlation|reference id", re.IGNORECASE)

reproducible = settings(
    deadline=None,
    derandomize=True,
    max_examples=count_examples(20),
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@cache
def glue_name() -> re.Pattern[str]:
    """Return Glue's pattern for names, from the service model. Java writes surrogates where Python has characters."""
    shape = botocore.session.get_session().get_service_model("glue").shape_for("NameString")
    assert (shape.metadata["min"], shape.metadata["max"]) == (1, 255)
    pattern = shape.metadata["pattern"].replace(r"\uD800\uDC00-\uDBFF\uDFFF", "\U00010000-\U0010ffff")
    return re.compile(pattern)


def encode(name: str) -> str:
    """Percent-encode a name for a URI, with a lone surrogate as three bytes."""
    return quote(name.encode("utf-8", "surrogatepass"), safe="")


def check_refusal(answer: Answer, errors: set[str] = REFUSALS) -> None:
    """Check that the error is clear, and that it is not a masked failure of this server."""
    body = answer.body
    assert body["success"] is False, f"{answer.uri} was answered: {str(body)[:300]}"
    assert body["error"] in errors, body
    assert not MASKED.search(str(body)), body
    assert body["message"].isprintable()
    assert body["suggested_actions"]
    assert body["transient"] is False


@pytest.fixture
def glue() -> Iterator[GlueBackend]:
    """The data catalog. Afterwards it has its former databases only."""
    backend = glue_backends[ACCOUNT_ID][REGION]
    before = dict(backend.databases)
    yield backend
    backend.databases.clear()
    backend.databases.update(before)


# In Glue's pattern are also characters that are not printable: they cannot be in an answer's text.
GLUE_NAMES = st.text(
    st.characters(exclude_categories=["C", "Zl", "Zp", "Zs"], include_characters=" ", exclude_characters="/"),
    min_size=1,
    max_size=60,
).map(str.lower)


@pytest.mark.soak
@in_world("admin")
@reproducible
@example("a b").via("a space")
@example("quote\"s'`").via("quotes")
@example("50%25").via("text that looks percent-encoded")
@example("%2e%2e%2f").via("an encoded path")
@example("..").via("two dots")
@example(".").via("one dot")
@example("語" * 255).via("255 characters of three bytes")
@example("\U0001f9ec" * 100).via("characters beyond the first plane")
@example("{database}x?#[]@!$&()*+,;=|\\^~").via("marks")
@example("e\u0301").via("a combining character")
@example("العربية").via("right to left")
@given(GLUE_NAMES)
async def test_a_name_that_glue_allows_is_read_exactly(
    world: World, client: AnyClient, glue: GlueBackend, name: str
) -> None:
    assert glue_name().fullmatch(name)
    uri = TABLES.format(encode(name))
    if len(uri) + len(encode(name)) >= 1000:  # a URI has at most 1,024 characters
        check_refusal(await ask(client, f"{uri}/{encode(name)}"), {"InvalidURI", "NotFound"})
        return
    glue.databases.clear()  # a drawn name can be that of a database of this world
    glue.create_database(name, {"Name": name})
    glue.create_table(name, name, {"Name": name})
    tables = (await ask(client, uri)).body
    assert (tables["data"]["database"], [row["name"] for row in tables["data"]["tables"]]) == (name, [name])
    table = (await ask(client, f"{uri}/{encode(name)}")).body
    assert (table["data"]["database"], table["data"]["name"]) == (name, name)


ILLEGAL_IN_GLUE = {
    "control character": "a\x01",
    "NUL": "a\x00b",
    "new line": "a\nb",
    "delete": "a\x7f",
    "C1 control": "a\x85",
    "slash": "a/b",
    "path": "../default",
    "backward path": "..\\default\x00",
    "lone surrogate": "a\ud800",
    "other surrogate": "\udfff",
    "256 characters": "x" * 256,
    "very long": "x" * 900,
}


INVISIBLE = {
    "bidi override": "acme\u202egniced",
    "bidi isolate": "\u2066acme",
    "zero width": "acme\u200b_sequencing",
    "byte order mark": "\ufeffacme_sequencing",
    "line separator": "a\u2028b",
}
"""What Glue allows: such names are looked up, and errors show the characters by their numbers."""


@in_world("admin")
@pytest.mark.parametrize("kind", INVISIBLE)
async def test_a_name_with_invisible_characters_is_looked_up(kind: str, world: World, client: AnyClient) -> None:
    answer = await ask(client, TABLES.format(encode(INVISIBLE[kind])))
    check_refusal(answer, {"NotFound"})
    assert answer.body["message"].isascii()


@in_world("admin")
@pytest.mark.parametrize("kind", choose_every(3, ILLEGAL_IN_GLUE))
async def test_a_name_that_is_not_allowed_is_refused(kind: str, world: World, client: AnyClient) -> None:
    name = encode(ILLEGAL_IN_GLUE[kind])
    for uri in (
        TABLES.format(name),
        f"{TABLES.format(name)}/visits",
        f"{TABLES.format('default')}/{name}",
        BUCKET.format(name),
        f"tabulator://buckets/{name}/tables",
    ):
        check_refusal(await ask(client, uri), {"InvalidURI", "InvalidTemplateVariable"})


@in_world("admin")
@pytest.mark.parametrize(
    "name", choose_every(2, ["%", "%4", "%zz", "%FF", "%C0%AE", "%ED%A0%80", "a%2Fb", "%252F", "%2E%2E", "a%5Cb"])
)
async def test_broken_and_hidden_encodings_reach_no_other_resource(name: str, world: World, client: AnyClient) -> None:
    for uri in (TABLES.format(name), f"{TABLES.format('acme_sequencing')}/{name}", BUCKET.format(name)):
        check_refusal(await ask(client, uri))


MAX_BUCKET_NAME = 63
S3_NAMES = st.from_regex(r"[a-z0-9](?:[a-z0-9]|-(?=[a-z0-9])|\.(?=[a-z0-9])){1,61}[a-z0-9]", fullmatch=True).filter(
    lambda name: len(name) <= MAX_BUCKET_NAME
)


@pytest.mark.soak
@in_world("admin")
@settings(reproducible, max_examples=count_examples(10))
@example("abc").via("the shortest")
@example("a" * 63).via("the longest")
@example("a.b-c.d").via("dots and hyphens")
@example("123").via("digits")
@given(S3_NAMES)
async def test_a_bucket_with_a_name_that_s3_allows_is_read_exactly(world: World, client: AnyClient, name: str) -> None:
    s3 = s3_backends[ACCOUNT_ID]["aws"]
    s3.create_bucket(name, REGION)
    try:
        body = (await ask(client, BUCKET.format(name))).body
    finally:
        s3.delete_bucket(name)
    assert (body["data"]["name"], body["data"]["in_stack"]) == (name, False)
    check_refusal(await ask(client, BUCKET.format(name)), {"NotFound"})
    check_refusal(await ask(client, f"tabulator://buckets/{name}/tables"), {"NotFound"})


@in_world("admin")
@reproducible
@given(
    st.text(min_size=1, max_size=80).filter(
        lambda name: not set(name) <= set(f"{ascii_lowercase}{ascii_lowercase.upper()}{digits}._-")
    )
)
async def test_a_bucket_with_another_name_is_refused(world: World, client: AnyClient, name: str) -> None:
    check_refusal(await ask(client, BUCKET.format(encode(name))))


CURSORS = [
    "x",
    "=",
    "%3D",
    "WyJd",
    "W10",
    "bnVsbA",
    "A" * 513,
    "%00",
    "%2e%2e%2f",
    "WzEsIngiLCJ5Il0",
    "1",
    "-1",
    "%F0%9F%92%A9",
]
LIMITS = ["0", "-1", "201", "99999999999999999999", "1e2", "0x10", "1.0", "%D9%A1", "%201", "+1", "x", "True", "NaN"]


@in_world("admin")
@pytest.mark.parametrize(
    "uri",
    [
        "quilt://buckets",
        pytest.param("athena://databases/acme_sequencing/tables", marks=pytest.mark.soak),
        "tabulator://buckets/acme-raw-sequencing/tables",
    ],
)
async def test_hostile_cursors_and_limits_are_refused(uri: str, world: World, client: AnyClient) -> None:
    for query in [*(f"cursor={one}" for one in CURSORS), *(f"limit={one}" for one in LIMITS)]:
        check_refusal(await ask(client, f"{uri}?{query}"), {"InvalidTemplateVariable", "InvalidURI"})
    for query in ("cursor=&limit=1&limit=2", "limit=1&other=2", "cursor", "&", "limit=1;cursor=x", "?limit=1"):
        answer = await ask(client, f"{uri}?{query}")
        assert not MASKED.search(str(answer.body)), answer.body
        assert answer.body["success"] or answer.body["error"] in {"InvalidTemplateVariable", "InvalidURI"}
