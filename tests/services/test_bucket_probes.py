"""The probes of buckets: which calls they make, and what follows from the responses."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from quilt_mcp.core.errors import Unavailable
from quilt_mcp.services.bucket_claims import UNTRIED, Claims, judge
from quilt_mcp.services.bucket_probes import CALLS, MOST_CALLS, KeyPage, Survey, list_page, probe_bucket, survey_bucket
from quilt_mcp.services.bucket_statements import Statement
from tests.support.scripted_s3 import ENCRYPTED, REGION, ScriptedS3

NOTHING = Statement("nothing is known")
READ_WRITE = Statement("role R: READ_WRITE", "READ_WRITE", can_write=True)
PACKAGES = [f".quilt/named_packages/a/b/{number}" for number in range(25)]
DATA = ["README.md", "data/1.csv", "data/2.csv", "runs/1/a.tsv"]


def claim(s3: ScriptedS3, *, writes: bool = False) -> Claims:
    return judge(probe_bucket(s3.as_clients(), "b", writes=writes), NOTHING)


def under(*prefixes: str) -> Callable[[str], bool]:
    return lambda key: key.startswith(prefixes)


def find_tried(s3: ScriptedS3) -> list[str]:
    return [given["Key"] for operation, given in s3.calls if operation == "head_object"]


def test_keys_of_several_prefixes_are_tried_with_the_checksum_mode() -> None:
    s3 = ScriptedS3([*PACKAGES[:1], *DATA])
    found = claim(s3)
    assert (found.can_list, found.can_read, found.level) == (True, True, "read_or_more")
    assert found.read_evidence == "HeadObject: 3 of 3 keys read"
    assert find_tried(s3) == [PACKAGES[0], "data/1.csv", "runs/1/a.tsv"]
    assert all(given["ChecksumMode"] == "ENABLED" for operation, given in s3.calls if operation == "head_object")


@pytest.mark.parametrize("first", [PACKAGES, [f"data/{n}" for n in range(40)]])
def test_a_list_that_is_cut_inside_one_prefix_continues_behind_it(first: Sequence[str]) -> None:
    s3 = ScriptedS3([*first, "runs/1/a.tsv", "zoo/1"])
    assert claim(s3).can_read is True
    assert find_tried(s3) == [first[0], "runs/1/a.tsv"]
    assert [operation for operation, _ in s3.calls].count("list_objects_v2") == 2
    assert len(s3.calls) == CALLS


@pytest.mark.parametrize("writes", [False, True])
@pytest.mark.parametrize("keys", [[], DATA, [*PACKAGES, *DATA], [f"{p}/{n}" for p in "abcdefgh" for n in range(9)]])
@pytest.mark.parametrize("lists", [under(""), under(".quilt/"), under("nothing")])
def test_a_bucket_costs_at_most_four_calls_and_no_unlisted_key_is_tried(
    keys: Sequence[str], lists: Callable[[str], bool], *, writes: bool
) -> None:
    s3 = ScriptedS3(keys, lists)
    claim(s3, writes=writes)
    assert len(s3.calls) <= CALLS + writes
    assert set(find_tried(s3)) <= set(keys)


def test_a_reader_of_one_prefix_may_read_some() -> None:
    found = claim(ScriptedS3([*PACKAGES[:1], *DATA], reads=under(".quilt/", "data/")))
    assert (found.can_read, found.level) == ("some", "read_or_more")
    assert found.read_evidence == "HeadObject: 2 of 3 keys read; refused under runs/"


def test_a_list_right_for_quilts_prefix_only_shows_a_part() -> None:
    found = claim(ScriptedS3([*PACKAGES, *DATA], under(".quilt/")))
    assert (found.can_list, found.can_read, found.level) == ("some", "some", "read_or_more")
    assert found.list_evidence == "ListObjectsV2: refused at the root, allowed under .quilt/"
    assert found.read_evidence == "HeadObject: 1 of 1 key read; only keys under .quilt/ are known"


def test_a_refused_list_leaves_reading_unknown() -> None:
    s3 = ScriptedS3(DATA, under("nothing"))
    found = claim(s3)
    assert (found.can_list, found.can_read, found.level) == (False, None, "no_access")
    assert find_tried(s3) == []
    assert probe_bucket(s3.as_clients(), "b", writes=False).region == REGION


def test_refused_keys_mean_no_right_only_if_every_key_was_tried() -> None:
    few, many = ["data/1.csv", "runs/1/a.tsv"], [f"{letter}/1" for letter in "abcdef"]
    assert claim(ScriptedS3(few, reads=under("nothing"))).can_read is False
    found = claim(ScriptedS3(many, reads=under("nothing")))
    assert (found.can_read, found.level) == (None, "list_only")
    assert found.read_evidence == "HeadObject: 0 of 3 keys read; refused under a/, b/, c/; other keys can be readable"
    assert claim(ScriptedS3([*few, "data/2.csv"], reads=under("nothing"))).can_read is None


def test_an_empty_bucket_is_unknown() -> None:
    found = claim(ScriptedS3())
    assert (found.can_list, found.can_read, found.level) == (True, None, "unknown")
    assert found.read_evidence == "not tried: the bucket is empty"


RESTORED = {"StorageClass": "GLACIER", "Restore": 'ongoing-request="false", expiry-date="Fri, 21 Dec 2030"'}
ARCHIVED = "archived under data/: restore these objects before you read them"


@pytest.mark.parametrize(
    ("response", "can_read", "evidence"),
    [
        ({}, True, "1 of 1 key read"),
        ({"ServerSideEncryption": "AES256"}, True, "1 of 1 key read"),
        ({**ENCRYPTED, "ChecksumCRC32": "x"}, True, "1 of 1 key read"),
        (ENCRYPTED, None, "0 of 1 key read; unproven under data/, because S3 sent no checksum"),
        ({**ENCRYPTED, "ChecksumType": "FULL_OBJECT"}, None, "unproven under data/"),
        ({**ENCRYPTED, "ServerSideEncryption": "aws:kms:dsse"}, None, "unproven under data/"),
        ("404", None, "every key that was listed has been deleted since"),
        ("500", None, "1 key not read: AWS"),
        ("400", None, "gave no reason"),
        ({"StorageClass": "DEEP_ARCHIVE"}, None, ARCHIVED),
        (RESTORED, True, "1 of 1 key read"),
        ({"StorageClass": "GLACIER", "Restore": 'ongoing-request="true"'}, None, ARCHIVED),
        ({"StorageClass": "GLACIER_IR"}, True, "1 of 1 key read"),
        ({"StorageClass": "INTELLIGENT_TIERING", "ArchiveStatus": "DEEP_ARCHIVE_ACCESS"}, None, ARCHIVED),
    ],
)
def test_only_a_response_that_proves_the_content_counts(response: Any, can_read: Any, evidence: str) -> None:
    found = claim(ScriptedS3(["data/1"], responses={"data/1": response}))
    assert (found.can_read, found.level) == (can_read, "read_or_more" if can_read else "unknown")
    assert evidence in found.read_evidence


def test_a_failed_call_for_one_key_does_not_count_and_an_archived_object_does() -> None:
    found = claim(ScriptedS3(DATA, responses={"data/1.csv": "503"}))
    assert found.can_read is True
    assert found.read_evidence == "HeadObject: 2 of 2 keys read; 1 key not read: AWS is throttling requests."
    found = claim(ScriptedS3(DATA, responses=dict.fromkeys(DATA, "503")))
    assert (found.can_list, found.can_read, found.level) == (True, None, "unknown")
    assert found.read_evidence == "HeadObject: 0 of 0 keys read; 3 keys not read: AWS is throttling requests."
    assert claim(ScriptedS3(DATA, responses={DATA[0]: {"StorageClass": "GLACIER"}})).can_read == "some"


def test_a_list_that_is_cut_at_the_root_does_not_prove_that_nothing_may_be_read() -> None:
    s3 = ScriptedS3([*(f"{number}.txt" for number in range(40)), "zoo/1"], reads=under("zoo/"))
    assert (claim(s3).can_read, len(s3.calls)) == (None, 2)


def test_an_archived_object_and_a_folder_come_last() -> None:
    s3 = ScriptedS3(["data/", "data/1", "data/2"], storage={"data/1": "GLACIER"})
    claim(s3)
    assert find_tried(s3) == ["data/2"]


@pytest.mark.parametrize("writes", [False, True])
@pytest.mark.parametrize(
    ("code", "claims", "stated", "message"),
    [
        ("NoSuchBucket", (False, False, False, "no_access"), False, "S3 has no such bucket"),
        ("SlowDown", (None, None, None, "unknown"), True, "throttling"),
        ("AllAccessDisabled", (None, None, None, "unknown"), None, "has closed"),
        ("AccountProblem", (None, None, None, "unknown"), None, "has closed"),
        ("RequestTimeTooSkewed", (None, None, None, "unknown"), None, "clock"),
    ],
)
def test_a_bucket_that_cannot_be_listed_has_the_reason_and_a_stated_right_counts_only_if_s3_was_too_busy(
    code: str, claims: tuple[Any, ...], stated: Any, message: str, *, writes: bool
) -> None:
    probe = probe_bucket(ScriptedS3(error=code).as_clients(), "b", writes=writes)
    found = judge(probe, NOTHING)
    assert (found.can_list, found.can_read, found.can_write, found.level) == claims
    assert message in found.list_evidence
    assert message in found.read_evidence
    found = judge(probe, READ_WRITE)
    assert (found.can_list, found.can_read, found.can_write) == (*claims[:2], stated)
    if stated is not True:
        assert found.write_evidence.startswith("not tried: ")
        assert found.write_evidence.endswith("; role R: READ_WRITE")
        assert message in found.write_evidence


ALLOWED = "allowed; the condition failed, so nothing is stored"
WITHOUT_READ = "refused, but without the right to read S3 can refuse the condition"
WITHOUT_LIST = "refused, but without the right to list S3 can refuse for a missing key too"
UNTESTED = "a KMS key or a policy that the put does not test can refuse data"
UNSTORED = "the right to encrypt with it cannot be tried without storing one"
NO = under("no")
WRITE_PROBES = [
    (ScriptedS3(DATA), "some", f"under data/: {ALLOWED}; {UNTRIED}"),
    (ScriptedS3(["data/1", "data/2"]), "some", f"under data/: {ALLOWED}; {UNTRIED}"),  # another prefix can be new
    (ScriptedS3(DATA, writes=NO), None, f"under data/: refused; {UNTRIED}"),
    (ScriptedS3(["data/1"], writes=NO), None, f"under data/: refused; {UNTRIED}"),
    (ScriptedS3([]), True, f"at the root: {ALLOWED}"),
    (ScriptedS3(["README.md"]), True, f"at the root: {ALLOWED}"),
    (ScriptedS3(["README.md"], writes=NO), None, f"at the root: refused; {UNTRIED}"),
    (ScriptedS3([], writes=under("team-a/")), None, f"at the root: {WITHOUT_READ}; {UNTRIED}"),
    (ScriptedS3(["README.md", *PACKAGES], writes=NO), None, "at the root: refused; other prefixes were not tried"),
    (ScriptedS3(DATA, reads=under("data/")), "some", f"under data/: {ALLOWED}; {UNTRIED}"),
    (ScriptedS3(DATA, reads=under("runs/")), "some", f"under runs/: {ALLOWED}; {UNTRIED}"),
    (ScriptedS3(DATA, reads=under("data/"), writes=NO), None, f"under data/: refused; {UNTRIED}"),
    (ScriptedS3(DATA, NO, writes=NO), None, f"at the root: {WITHOUT_LIST}"),
    (ScriptedS3(PACKAGES, under(".quilt/")), "some", f"under .quilt/: {ALLOWED}; {UNTRIED}"),
    (ScriptedS3(["data/1"], reads=NO), None, f"at the root: allowed; but S3 refused every read, so {UNTESTED}"),
    (
        ScriptedS3(["data/1"], responses={"data/1": {**ENCRYPTED, "ChecksumCRC32": "x"}}),
        None,
        f"under data/: allowed; but objects are under a KMS key, and {UNSTORED}",
    ),
]


@pytest.mark.parametrize(("s3", "can_write", "evidence"), WRITE_PROBES)
def test_the_write_probe_is_sent_where_a_key_was_read(s3: ScriptedS3, can_write: Any, evidence: str) -> None:
    found = claim(s3, writes=True)
    assert (found.can_write, found.write_evidence) == (can_write, f"PutObject {evidence}")
    assert found.write_proof == {True: "verified", "some": "verified", False: "no", None: "unverified"}[can_write]
    [put] = [given for operation, given in s3.calls if operation == "put_object"]
    assert ".quilt-mcp-probe/" in put["Key"]


def test_a_bucket_into_which_one_may_only_write_is_not_called_closed() -> None:
    found = claim(ScriptedS3(DATA, under("no"), under("no")), writes=True)
    assert (found.can_list, found.can_write, found.level) == (False, "some", "unknown")


def survey(s3: ScriptedS3, *, writes: bool = False) -> Survey:
    return survey_bucket(s3.as_clients(), "b", writes=writes, seconds=10)


@pytest.mark.parametrize("writes", [False, True])
def test_a_survey_tries_eight_prefixes_and_the_root_and_counts_the_others(*, writes: bool) -> None:
    s3 = ScriptedS3([*PACKAGES, "README.md", *(f"{letter}/{n}" for letter in "abcdefghijkl" for n in range(30))])
    found = survey(s3, writes=writes)
    assert len(s3.calls) <= MOST_CALLS
    tried = [one.prefix for one in found.prefixes]
    assert tried == [".quilt/", *(f"{letter}/" for letter in "abcdefg"[: 7 - writes]), ""]
    assert len(found.listing.prefixes) == 14
    assert judge(found.probe, NOTHING).can_read is True


def test_a_survey_tries_several_folders_of_a_prefix() -> None:
    keys = [*(f"data/a-private/{n}.csv" for n in range(30)), "data/public/2.csv"]
    found = survey(ScriptedS3(keys, reads=under("data/public/")))
    [prefix] = found.prefixes
    assert {one.key.name: one.result for one in prefix.tried}["data/public/2.csv"] == "read"
    assert judge(found.probe, NOTHING).can_read == "some"


@pytest.mark.parametrize(("count", "can_read"), [(5, False), (6, None)])
def test_a_survey_denies_reading_only_if_every_key_was_tried(count: int, can_read: Any) -> None:
    found = survey(ScriptedS3([f"data/{n}" for n in range(count)], reads=under("no")))
    assert judge(found.probe, NOTHING).can_read is can_read


@pytest.mark.parametrize("writes", [False, True])
@pytest.mark.parametrize("count", range(12))
def test_a_survey_never_makes_too_many_calls(count: int, *, writes: bool) -> None:
    for root in ([], ["README.md", "a", "b"]):
        s3 = ScriptedS3([*root, *(f"p{prefix}/{n}/x" for prefix in range(count) for n in range(9))])
        survey(s3, writes=writes)
        assert len(s3.calls) <= MOST_CALLS


def test_a_refused_prefix_limits_the_list_and_the_reads() -> None:
    found = survey(ScriptedS3(["data/1", "secret/2"], lambda prefix: prefix != "secret/"))
    claims = judge(found.probe, READ_WRITE)
    assert (claims.can_list, claims.can_read, claims.can_write) == ("some", "some", None)
    assert claims.list_evidence == "ListObjectsV2: allowed at the root, refused under secret/"
    assert claims.read_evidence.endswith("; no key tried under secret/, because S3 refuses the list")
    assert claims.write_evidence == "role R: READ_WRITE; but S3 refuses the list under secret/"


def test_a_survey_of_a_closed_root_tries_quilts_prefix() -> None:
    found = survey(ScriptedS3(PACKAGES, under(".quilt/")))
    assert [(one.prefix, one.is_listed) for one in found.prefixes] == [(".quilt/", True)]
    assert judge(found.probe, NOTHING).can_list == "some"
    assert judge(survey(ScriptedS3(PACKAGES, under("no"))).probe, NOTHING).can_list is False

    def refuse_root(prefix: str) -> bool:
        if prefix:
            raise Unavailable("S3 is busy.")
        return False

    with pytest.raises(Unavailable, match="could not be listed"):
        survey(ScriptedS3(PACKAGES, refuse_root))


def test_a_page_has_its_keys_and_prefixes() -> None:
    page = list_page(ScriptedS3(DATA).as_clients(), "b", Delimiter="/", MaxKeys=2)
    assert isinstance(page, KeyPage)
    assert ([key.name for key in page.keys], page.prefixes, page.is_cut) == (["README.md"], ("data/",), True)


def test_the_order_of_the_keys_does_not_matter() -> None:
    def names(keys: Iterable[str]) -> list[str]:
        s3 = ScriptedS3(list(keys))
        claim(s3)
        return find_tried(s3)

    assert names(DATA) == names(reversed(DATA))
