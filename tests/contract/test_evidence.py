"""No claim of permissions:// says more than what really works.

The judge is plain boto3 with the user's own credentials, in `truth.py`.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from fastmcp import Client
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from moto.iam.models import IAMBackend, iam_backends

from quilt_mcp.demo.account import ACCOUNT_ID
from quilt_mcp.demo.world import World
from quilt_mcp.server import QuiltServer, create_server
from tests.contract.surfaces import AnyClient
from tests.contract.truth import QUILT, ROOT, Truth, find_truth, get_prefix, open_s3, storing_nothing
from tests.support.worlds import in_world
from tests.worlds.aws_worlds import AWS_WORLDS

NOT_ABOUT_RIGHTS = {"athena_throttled", "many_buckets", "empty_next_token", "credentials_expire"}
REACHABLE = ["admin", "member", "collaborators_without_caller", "role_switched", "stack_2023", "new_role_type"]
REACHABLE += sorted(AWS_WORLDS.keys() - NOT_ABOUT_RIGHTS)
IN_EVERY_RUN = ("member", "custom_role", "session_policy", "prefix_policy_404", "denied_by_kms")
RAW, RESULTS = "acme-raw-sequencing", "acme-analysis-results"
RANKS = ("verified", "stated", "unverified")
EXPECTED = {
    ("admin", False): (RESULTS, "stated"),
    ("admin", True): (RESULTS, "verified"),
    ("session_policy", False): (RESULTS, "stated"),
    ("session_policy", True): (RESULTS, "verified"),
    ("member", False): (RESULTS, "stated"),
    ("member", True): (RESULTS, "verified"),
    ("collaborators_without_caller", False): (RESULTS, "unverified"),
    ("collaborators_without_caller", True): (RESULTS, "verified"),
    ("custom_role", True): (RAW, "verified"),
    ("prefix_policy", False): (RAW, "unverified"),
    ("prefix_policy", True): (RAW, "verified"),
    ("prefix_policy_404", False): (RAW, "unverified"),
    ("prefix_policy_404", True): (RAW, "verified"),
}
"""The first recommendation, by world and write probe."""

HEADS = re.compile(r"HeadObject: (\d+) of (\d+) keys? read")
REFUSED = re.compile(r"; refused (?:under ([^;]*?))?(?: and )?(at the root)?(?:;|$)")
PUT = re.compile(r"PutObject (?:under (\S+)|at the root): (allowed|refused)")

Row = dict[str, Any]


@dataclass(frozen=True)
class Reading:
    """What the three resources say."""

    rows: dict[str, Row]
    access: dict[str, Row]
    recommended: Row


async def read(client: AnyClient, uri: str) -> Row:
    """Read a URI with the tool. test_parity.py compares both surfaces."""
    result = await client.call_tool("get_resource", {"uri": uri})
    body: Row = result.structured_content or {}
    data: Row = body["data"]
    return data


def expand(row: Row, shared: Mapping[str, str]) -> Row:
    """Return a row with its evidence instead of the numbers of shared evidence."""
    return {name: shared.get(value, value) if name.endswith("_evidence") else value for name, value in row.items()}


async def read_all(client: AnyClient, names: Iterable[str]) -> Reading:
    """Read permissions://, with the access to each of these buckets."""
    discovered = await read(client, "permissions://discover")
    return Reading(
        {row["name"]: expand(row, discovered["shared_evidence"]) for row in discovered["bucket_permissions"]},
        {name: await read(client, f"permissions://buckets/{name}/access") for name in names},
        (await read(client, "permissions://recommendations"))["recommendations"],
    )


@pytest.fixture(params=[False, pytest.param(True, marks=pytest.mark.soak)], ids=["write probe off", "write probe on"])
def probe_writes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the write probe is on."""
    monkeypatch.setenv("QUILT_MCP_PROBE_WRITES", str(request.param))
    return bool(request.param)


@pytest.fixture(scope="module")
def truths(world: World) -> Mapping[str, Truth]:
    """What really works, for every bucket of the world."""
    assert world.user
    s3 = open_s3(world, world.user)
    return {bucket.name: find_truth(world, s3, bucket.name) for bucket in world.company.buckets}


@in_world(*IN_EVERY_RUN, soak=[name for name in REACHABLE if name not in IN_EVERY_RUN])
async def test_no_claim_says_more_than_what_really_works(
    world: World, truths: Mapping[str, Truth], *, probe_writes: bool
) -> None:
    with storing_nothing(world):
        async with Client(create_server()) as client:
            found = await read_all(client, list(truths))
    assert found.rows.keys() <= truths.keys()
    for name, row in found.rows.items():
        check_claims(row, truths[name], probe_writes=probe_writes)
    for name, row in found.access.items():
        check_claims(row, truths[name], probe_writes=probe_writes)
        check_details(row, truths[name])
    check_recommendations(found, truths)
    if expected := EXPECTED.get((world.name, probe_writes)):
        first = found.recommended["primary_recommendations"][0]
        assert (first["bucket"], first["write"]) == expected
        assert any(truths[first["bucket"]].writes.values())


def check_claims(row: Row, truth: Truth, *, probe_writes: bool) -> None:
    """Compare the three claims about a bucket with the truth."""
    assert all(row[f"{right}_evidence"].strip() for right in ("list", "read", "write")), row
    assert not (row["permission_level"] == "no_access" and (row["can_read"] or row["can_write"])), row
    check_list(row, truth)
    check_read(row, truth)
    check_write(row, truth, probe_writes=probe_writes)


def check_list(row: Row, truth: Truth) -> None:
    """Check `can_list`. False means the whole bucket and .quilt/; the evidence names both."""
    works = truth.lists[ROOT], truth.lists[QUILT]
    expected = True if works[0] else "some" if works[1] else False
    if works[0] and any(prefix["can_list"] is False for prefix in row.get("prefixes", ())):
        expected = "some"  # check_details compares each prefix with the truth
    assert row["can_list"] == expected, row
    assert works[0] or QUILT in row["list_evidence"], row


def check_read(row: Row, truth: Truth) -> None:
    """Check `can_read`, and that its evidence counts no more keys than can be read."""
    claim, evidence = row["can_read"], row["read_evidence"]
    works = [key for key, is_read in truth.reads.items() if is_read]
    if heads := HEADS.match(evidence):
        read, counted = map(int, heads.groups())
        assert read <= len(works), row
        assert counted <= len(truth.reads), row
        assert claim is not True or read == counted, row
        assert len(works) == len(truth.reads) or not claim or counted < len(truth.reads) or read < counted, row
    for under, at_root in REFUSED.findall(evidence):
        for prefix in [*filter(None, under.split(", ")), *([ROOT] if at_root else [])]:
            assert not all(is_read for key, is_read in truth.reads.items() if get_prefix(key) == prefix), row
    assert bool(works) is bool(claim) or claim is None, row
    assert claim is None or heads, row
    assert claim is not True or truth.lists[ROOT], row
    assert claim != "some" or len(works) < len(truth.reads) or not truth.lists[ROOT], row


def check_write(row: Row, truth: Truth, *, probe_writes: bool) -> None:
    """Check `can_write`. Only a right that the stack states, without the probe, can be refused in S3."""
    claim, evidence = row["can_write"], row["write_evidence"]
    put = PUT.match(evidence)
    assert bool(put) is (probe_writes and row["error"] is None), row
    if put:
        is_allowed = put[2] == "allowed"
        assert truth.writes[put[1] or ROOT] is is_allowed or is_ambiguous(truth, put[1] or ROOT, put[2]), row
        assert bool(claim) is (is_allowed and "allowed; but" not in evidence), row
        assert claim is not False or ("; role " in evidence and not any(truth.writes.values())), row
        assert claim is not True or all(truth.writes.values()) or states_all(row) or is_at_the_root(truth, put), row
    elif claim is not None:
        assert evidence.endswith("; not tried in S3"), row


def states_all(row: Row) -> bool:
    """Whether the evidence of a put also names a statement of the stack that allows to write everywhere."""
    return "READ_WRITE" in row["write_evidence"]


def is_at_the_root(truth: Truth, put: re.Match[str]) -> bool:
    """Whether a put was sent to the root, and all objects are there. Its key begins with a prefix that is new."""
    return not put[1] and set(map(get_prefix, truth.reads)) <= {ROOT}


def is_ambiguous(truth: Truth, prefix: str, result: str) -> bool:
    """Whether the result of a put can have another reason than the right to write.

    S3 hides from who may not list that a key is missing, and refuses the condition to who may not read.
    """
    return result == "refused" and (not truth.lists[ROOT] or not truth.conditional_writes[prefix])


def check_details(row: Row, truth: Truth) -> None:
    """Check each call that permissions://buckets/{bucket}/access lists as evidence."""
    results = {
        "ListObjectsV2": ({"allowed": True, "refused": False}, truth.lists),
        "HeadObject": ({"read": True, "refused": False}, truth.reads),
        "PutObject": ({"allowed": True, "refused": False}, truth.writes),
    }
    calls = [one for one in row["evidence"] if one["source"] == "s3"]
    assert calls[0]["call"] == "ListObjectsV2"
    for one in calls:
        meanings, truths = results[one["call"]]
        is_right = truths[one["target"]] is meanings[one["result"]]
        is_unclear = one["call"] == "PutObject" and is_ambiguous(truth, one["target"], one["result"])
        assert is_right or is_unclear, (row["name"], one)
    for prefix in row["prefixes"]:
        assert prefix["can_list"] is (truth.lists[prefix["prefix"]]), (row["name"], prefix)
        heads = [one for one in calls if one["call"] == "HeadObject" and get_prefix(one["target"]) == prefix["prefix"]]
        counts = Counter(one["result"] for one in heads)
        said = ", ".join(f"{count} {result}" for result, count in counts.items())
        assert not heads or prefix["read_evidence"] == f"HeadObject: {said}", (row["name"], prefix)
        found = {truth.reads[one["target"]] for one in heads}
        claim = {True, False} if prefix["can_read"] == "some" else {prefix["can_read"]} - {None}
        assert found == claim, (row["name"], prefix)
    tried = {prefix["prefix"] for prefix in row["prefixes"]}
    if row["prefixes_complete"]:
        assert len(set(map(get_prefix, truth.reads)) - tried) == row["prefixes_not_tried"], row


def check_recommendations(found: Reading, truths: Mapping[str, Truth]) -> None:
    """Check the order and the rank of the recommendations, and that they are empty only if nothing can be tried."""
    first = found.recommended["primary_recommendations"]
    ranks = [RANKS.index(row["write"]) for row in first]
    assert ranks == sorted(ranks), found.recommended
    for row in [*first, *found.recommended["alternative_options"]]:
        assert all(row["evidence"]), row
        if row["write"] == "verified":
            put = PUT.match(row["evidence"][0])
            assert put, row
            assert truths[row["bucket"]].writes[put[1] or ROOT], row
    if not first:
        open_rows = [row for row in found.rows.values() if row["can_list"] or row["can_read"]]
        assert {row["can_write"] for row in open_rows} <= {False}, found.rows


@in_world("many_buckets")
async def test_a_sample_of_very_many_buckets_is_judged_right(world: World, *, probe_writes: bool) -> None:
    """The last buckets of the stack are those that the role may use."""
    assert world.user
    names = ["acme-archive-0000", "acme-study-00", "acme-study-38", "acme-study-39"]
    s3 = open_s3(world, world.user)
    truths = {name: find_truth(world, s3, name) for name in names}
    async with Client(create_server()) as client:
        access = {name: await read(client, f"permissions://buckets/{name}/access") for name in names}
    for name, row in access.items():
        check_claims(row, truths[name], probe_writes=probe_writes)
        check_details(row, truths[name])


# Policies of all kinds: for each action, where it is allowed and where it is denied.
PLACES = ("*", ".quilt/*", "runs/*", "instruments/*", "README.md", "new/*")
ROLE = "Quilt-Researcher"

Policy = tuple[list[str], list[str], list[str], list[str], str]

SOME_PLACES = st.lists(st.sampled_from(PLACES), max_size=3, unique=True)
POLICIES = st.tuples(*[SOME_PLACES] * 4, st.sampled_from(["", "all", ".quilt/*", "runs/*"]))


def write_policy(policy: Policy) -> str:
    """Write the policy: places that may and may not be read, and be written, and what may be listed."""
    readable, unreadable, writable, unwritable, listable = policy
    bucket = f"arn:aws:s3:::{RAW}"
    parts = [
        ("Allow", "s3:GetObject", readable),
        ("Deny", "s3:GetObject", unreadable),
        ("Allow", "s3:PutObject", writable),
        ("Deny", "s3:PutObject", unwritable),
    ]
    statements: list[dict[str, Any]] = [
        {"Effect": effect, "Action": action, "Resource": [f"{bucket}/{place}" for place in places]}
        for effect, action, places in parts
        if places
    ]
    if listable:
        condition = {} if listable == "all" else {"Condition": {"StringLike": {"s3:prefix": listable}}}
        statements.append({"Effect": "Allow", "Action": "s3:ListBucket", "Resource": bucket, **condition})
    statements.append({"Effect": "Allow", "Action": "sts:GetCallerIdentity", "Resource": "*"})
    return json.dumps({"Version": "2012-10-17", "Statement": statements})


@pytest.fixture
def policies() -> Iterator[IAMBackend]:
    """The policies of the account. Afterwards that of the member's role is as before."""
    iam = iam_backends[ACCOUNT_ID]["aws"]
    before = dict(iam.get_role(ROLE).policies)
    yield iam
    iam.get_role(ROLE).policies.update(before)


@pytest.fixture
def probing_server(world: World, *, probe_writes: bool) -> QuiltServer:
    """A server in the world, for all examples."""
    del world, probe_writes  # entered and set before the server is created
    return create_server()


@pytest.mark.soak
@in_world("member")
@settings(
    deadline=None,
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),
    max_examples=5,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@example(policy=(["*"], [], ["runs/*"], [], "all"))  # reads everything, and writes under one prefix
@example(policy=(["*"], [], ["new/*"], [], "all"))
@example(policy=(["*"], [], ["*"], ["instruments/*"], "all"))
@example(policy=([], [], ["*"], [], "all"))  # may not read, so the condition of the write probe is refused
@given(policy=POLICIES)
async def test_no_policy_leads_to_a_false_claim(
    world: World, policies: IAMBackend, probing_server: QuiltServer, policy: Policy, *, probe_writes: bool
) -> None:
    assert world.user
    policies.put_role_policy(ROLE, "quilt", write_policy(policy))
    s3 = open_s3(world, world.user)
    truths = {name: find_truth(world, s3, name) for name in (RAW, RESULTS)}
    async with Client(probing_server) as client:
        found = await read_all(client, [RAW])
    for row in (found.rows[RAW], found.access[RAW]):
        check_claims(row, truths[RAW], probe_writes=probe_writes)
    check_details(found.access[RAW], truths[RAW])
    check_recommendations(found, truths)
