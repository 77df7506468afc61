"""What may be claimed about a bucket: for every combination of responses and statements."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quilt_mcp.services.bucket_claims import Claims, judge, name_prefixes
from quilt_mcp.services.bucket_probes import BucketListing, Key, Probe, Put, TriedKey
from quilt_mcp.services.bucket_statements import Statement

KEYS = st.sampled_from(["README.md", ".quilt/packages/1", "data/1", "data/2", "runs/1"]).map(Key)
TRIED = st.builds(
    TriedKey,
    KEYS,
    st.sampled_from(["read", "refused", "unproven", "missing", "failed"]),
    st.just("why"),
    is_under_kms=st.booleans(),
)
PUTS = st.builds(Put, st.sampled_from(["", "data/"]), st.sampled_from([True, False, None]), st.just("why"))
STATEMENTS = st.sampled_from(
    [
        Statement("role R: READ_WRITE", "READ_WRITE", can_write=True, source="role"),
        Statement("role R: READ", "READ", can_write=False, source="role"),
        Statement("role R: no right", "none", can_write=False, source="role"),
        Statement("collaborators: READ for ann", "READ", can_write=None, source="collaborators"),
        Statement("nothing is known"),
    ]
)


@st.composite
def probes(draw: st.DrawFn, *, with_put: bool) -> Probe:
    """Draw what S3 can have shown: keys are only tried if a list was allowed, and their prefixes are known."""
    if draw(st.booleans()) and draw(st.booleans()):
        return Probe(error="not reached in time")
    root = draw(st.booleans())
    quilt = not root and draw(st.booleans())
    tried = tuple(draw(st.lists(TRIED, max_size=3))) if root or quilt else ()
    tried = tried if root else tuple(one for one in tried if one.key.prefix == ".quilt/")
    prefixes = tuple({*(one.key.prefix for one in tried), *draw(st.sets(st.sampled_from(["data/", "other/"])))})
    is_complete = root and draw(st.booleans())
    others = () if draw(st.booleans()) else (Key("data/untried"),)
    listing = BucketListing(
        root,
        quilt,
        keys=tuple(one.key for one in tried) + others,
        prefixes=prefixes,
        is_complete=is_complete,
        has_all_keys=is_complete and draw(st.booleans()),
        refused=tuple(draw(st.sets(st.just("secret/")))) if root else (),
    )
    return Probe(listing, tried, draw(PUTS) if with_put else None)


def check_no_claim_without_evidence(probe: Probe, found: Claims) -> None:
    results = [one.result for one in probe.tried]
    if found.can_list is not None:
        assert "ListObjectsV2" in found.list_evidence
    if found.can_read is not None:
        assert "HeadObject" in found.read_evidence
    if found.can_read is True:
        assert "read" in results
        assert not {"refused", "unproven"} & set(results)
        assert probe.listing
        assert probe.listing.root
        assert not probe.listing.refused
    if found.can_read == "some":
        assert "read" in results
    if found.can_read is False:
        assert "read" not in results
        assert probe.listing
        assert probe.listing.has_all_keys
        assert {one.key for one in probe.tried if one.result == "refused"} == set(probe.listing.keys)


def check_consistency(found: Claims) -> None:
    if found.level == "no_access":
        assert found.can_list is False
        assert not found.can_read
        assert not found.can_write
    assert (found.level == "full_access") == (found.can_list is True and found.can_read is found.can_write is True)
    if found.can_list is None:
        assert found.level == "unknown"
    assert bool(found.can_write) == (found.write_proof in ("verified", "stated"))
    assert (found.can_write is False) == (found.write_proof == "no")
    assert all((found.list_evidence, found.read_evidence, found.write_evidence))


@given(probes(with_put=False), STATEMENTS)
def test_a_stated_right_counts_only_if_s3_does_not_contradict_it(probe: Probe, statement: Statement) -> None:
    found = judge(probe, statement)
    check_no_claim_without_evidence(probe, found)
    check_consistency(found)
    assert statement.evidence in found.write_evidence
    refuses = probe.listing is not None and (
        not probe.listing.root or bool(probe.listing.refused) or "refused" in [one.result for one in probe.tried]
    )
    if found.can_write is True:
        assert statement.level == "READ_WRITE"
        assert not refuses
    if statement.level in ("READ", "READ_WRITE") and refuses:
        assert found.can_write is None
        assert "; but S3 refuse" in found.write_evidence


@given(probes(with_put=True), STATEMENTS)
def test_a_write_probe_proves_writing_only_if_s3_allowed_it(probe: Probe, statement: Statement) -> None:
    found = judge(probe, statement)
    if probe.put is None:  # the bucket was not reached, so only the stack counts
        assert found.write_proof != "verified"
        return
    check_no_claim_without_evidence(probe, found)
    check_consistency(found)
    if found.can_write is not None:
        assert bool(found.can_write) is probe.put.is_allowed
        assert "PutObject" in found.write_evidence
    if found.can_write is True:
        is_all_at_root = (
            probe.listing and probe.listing.is_complete and {*probe.listing.prefixes, probe.put.prefix} <= {""}
        )
        assert is_all_at_root or statement.evidence in found.write_evidence
    if found.can_write is False:  # another put could be allowed: under another prefix, or without the condition
        assert statement.can_write is False
        assert statement.evidence in found.write_evidence
    if any(one.is_under_kms for one in probe.tried):  # the put may not test the right to encrypt
        assert not found.can_write
    if {"refused"} <= {one.result for one in probe.tried} and not found.can_read:
        assert not found.can_write


@pytest.mark.parametrize(
    ("results", "claim", "evidence"),
    [
        (["read", "read"], True, "role R: READ_WRITE; not tried in S3"),
        ([], True, "role R: READ_WRITE; not tried in S3"),
        (["refused", "refused"], None, "role R: READ_WRITE; but S3 refused every read, under a/, b/"),
        (["read", "refused"], None, "role R: READ_WRITE; but S3 refused some reads, under b/"),
    ],
)
def test_the_evidence_names_the_stack_and_s3(results: list[Any], claim: Any, evidence: str) -> None:
    tried = tuple(TriedKey(Key(f"{prefix}/1"), result) for prefix, result in zip("ab", results, strict=False))
    probe = Probe(BucketListing(root=True, prefixes=("a/", "b/"), is_complete=True), tried)
    found = judge(probe, Statement("role R: READ_WRITE", "READ_WRITE", can_write=True))
    assert (found.can_write, found.write_evidence) == (claim, evidence)


READ_WRITE = Statement("role R: READ_WRITE", "READ_WRITE", can_write=True)
READ = Statement("role R: READ", "READ", can_write=False)
ALLOWED = "PutObject under a/: allowed; the condition failed, so nothing is stored"


@pytest.mark.parametrize(
    ("second", "is_allowed", "statement", "claim", "evidence"),
    [
        ("read", True, READ_WRITE, True, f"{ALLOWED}; role R: READ_WRITE"),
        ("read", True, Statement("nothing"), "some", f"{ALLOWED}; other prefixes were not tried"),
        ("refused", True, READ_WRITE, "some", f"{ALLOWED}; other prefixes were not tried"),
        ("read", False, READ, False, "PutObject under a/: refused; role R: READ"),
        ("refused", False, READ, None, "PutObject under a/: refused; other prefixes were not tried"),
        ("read", False, READ_WRITE, None, "PutObject under a/: refused; other prefixes were not tried"),
    ],
)
def test_a_put_under_one_prefix_is_combined_with_the_statement(
    second: Any, is_allowed: Any, statement: Statement, claim: Any, evidence: str
) -> None:
    tried = (TriedKey(Key("a/1"), "read"), TriedKey(Key("b/1"), second))
    listing = BucketListing(root=True, prefixes=("a/", "b/"), is_complete=True)
    found = judge(Probe(listing, tried, Put("a/", is_allowed)), statement)
    assert (found.can_write, found.write_evidence) == (claim, evidence)


def test_prefixes_are_named_once_and_sorted() -> None:
    assert name_prefixes(["b/", "a/", "b/"]) == "under a/, b/"
    assert name_prefixes(["b/", ""]) == "under b/ and at the root"
    assert name_prefixes([""]) == "at the root"
