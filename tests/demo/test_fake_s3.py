"""S3 of the demo, as strict as AWS where contents and lists of objects are read. botocore's service model judges it."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from http import HTTPStatus
from typing import Any

import pytest
import quilt3
from botocore.exceptions import ClientError
from moto.iam.models import iam_backends
from moto.s3.models import FakeBucket, s3_backends

from quilt_mcp.demo.account import ACCOUNT_ID
from quilt_mcp.demo.aws import make_document, make_statement
from quilt_mcp.demo.company import ACME
from quilt_mcp.demo.world import Plan
from tests.support.aws_validation import validate_aws
from tests.support.worlds import demo_world, enter_stopped

RESULTS, RAW, EU = "acme-analysis-results", "acme-raw-sequencing", "acme-imaging-eu"
ROLE, USER = "Quilt-DataPlatform", "arn:aws:sts::123456789012:assumed-role/Quilt-DataPlatform/amara_osei"
REMOVED = "rnaseq/liver/drafts/notes.txt"
UNKNOWN_VERSION = "0" * 32
BACKEND = s3_backends[ACCOUNT_ID]["aws"]


@pytest.fixture
def s3() -> Iterator[Any]:
    """A client in the admin world, with an empty object and one of ten bytes. Its responses agree with the model."""
    with validate_aws() as validation, enter_stopped("admin"):
        BACKEND.put_object(RESULTS, "empty", b"")
        BACKEND.put_object(RESULTS, "ten", b"0123456789")
        BACKEND.put_object(RAW, "ten", b"0123456789")
        yield quilt3.get_boto3_session().client("s3")
    assert validation.faults == set()


def get_bucket(name: str) -> FakeBucket:
    return BACKEND.get_bucket(name)


def refuse(call: Callable[[], object]) -> tuple[int, dict[str, str], dict[str, str]]:
    """Return the status, the error and the headers of a refusal."""
    with pytest.raises(ClientError) as caught:
        call()
    answer = caught.value.response
    return (
        answer["ResponseMetadata"]["HTTPStatusCode"],
        answer["Error"],
        answer["ResponseMetadata"]["HTTPHeaders"],
    )


def deny(*actions: str) -> None:
    statement = make_statement(actions, ["*"], effect="Deny")
    iam_backends[ACCOUNT_ID]["aws"].put_role_policy(ROLE, "denial", make_document(statement))


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("bytes=0-3", ("bytes 0-3/10", b"0123")),
        ("bytes=8-", ("bytes 8-9/10", b"89")),
        ("bytes=8-99", ("bytes 8-9/10", b"89")),
        ("bytes=-3", ("bytes 7-9/10", b"789")),
        ("bytes=-99", ("bytes 0-9/10", b"0123456789")),
        ("bytes=5-2", None),
        ("bytes=0-1,3-4", None),
        ("bytes=a-b", None),
        ("lines=0-1", None),
        ("junk", None),
    ],
)
def test_a_range_is_answered_with_206_or_ignored(asked: str, expected: tuple[str, bytes] | None, s3: Any) -> None:
    got, head = (call(Bucket=RESULTS, Key="ten", Range=asked) for call in (s3.get_object, s3.head_object))
    place, content = expected or (None, b"0123456789")
    assert got["Body"].read() == content
    for answer in (got, head):
        assert answer["ResponseMetadata"]["HTTPStatusCode"] == (206 if expected else 200)
        assert (answer.get("ContentRange"), answer["ContentLength"]) == (place, len(content))
        assert answer["AcceptRanges"] == "bytes"


def test_a_range_that_cannot_be_satisfied_is_refused_with_the_size(s3: Any) -> None:
    for key, size, asked in (("ten", "10", "bytes=10-"), ("ten", "10", "bytes=-0"), ("empty", "0", "bytes=0-5")):
        status, error, _ = refuse(lambda: s3.get_object(Bucket=RESULTS, Key=key, Range=asked))  # noqa: B023 - called at once
        assert (status, error["Code"]) == (416, "InvalidRange")
        assert (error["ActualObjectSize"], error["RangeRequested"]) == (size, asked)
        assert refuse(lambda: s3.head_object(Bucket=RESULTS, Key=key, Range=asked))[0] == 416  # noqa: B023
    assert refuse(lambda: s3.get_object(Bucket=RESULTS, Key="empty", Range="bytes=-5"))[0] == 416
    assert refuse(lambda: s3.head_object(Bucket=RESULTS, Key="empty", Range="bytes=-5"))[0] == 416


def test_conditions_are_checked(s3: Any) -> None:
    place = {"Bucket": RESULTS, "Key": "ten"}
    etag = s3.head_object(**place)["ETag"]
    assert s3.get_object(**place, IfMatch=etag, Range="bytes=0-1")["Body"].read() == b"01"
    status, error, _ = refuse(lambda: s3.get_object(**place, IfMatch='"0"', Range="bytes=0-1"))
    assert (status, error["Code"], error["Condition"]) == (412, "PreconditionFailed", "If-Match")
    assert refuse(lambda: s3.head_object(**place, IfMatch='"0"'))[0] == 412
    for call in (s3.get_object, s3.head_object):
        assert refuse(lambda: call(**place, IfNoneMatch=etag))[0] == 304  # noqa: B023 - called at once


def test_versions_can_be_read_and_missing_ones_are_named(s3: Any) -> None:
    newest, oldest = s3.list_object_versions(Bucket=RESULTS, Prefix="rnaseq/liver/README.md")["Versions"]
    for version in (newest, oldest):
        given = {"Bucket": RESULTS, "Key": version["Key"], "VersionId": version["VersionId"]}
        got, head = s3.get_object(**given), s3.head_object(**given)
        assert (got["VersionId"], head["VersionId"]) == (version["VersionId"], version["VersionId"])
        assert len(got["Body"].read()) == head["ContentLength"] == version["Size"]
    for bucket, null in ((RESULTS, False), (RAW, True)):
        place = {"Bucket": bucket, "Key": "ten"}
        status, error, _ = refuse(lambda: s3.get_object(**place, VersionId=UNKNOWN_VERSION))  # noqa: B023
        assert (status, error["Code"]) == (404, "NoSuchVersion")
        assert refuse(lambda: s3.head_object(**place, VersionId=UNKNOWN_VERSION))[0] == 404  # noqa: B023
        status, error, _ = refuse(lambda: s3.get_object(**place, VersionId="x"))  # noqa: B023
        assert (status, error["Code"], error["ArgumentName"]) == (400, "InvalidArgument", "versionId")
        assert refuse(lambda: s3.head_object(**place, VersionId="x"))[0] == 400  # noqa: B023
        if null:
            assert "VersionId" not in s3.get_object(**place)
            assert s3.get_object(**place, VersionId="null")["Body"].read() == b"0123456789"
            assert s3.head_object(**place, VersionId="null")["ContentLength"] == 10
    assert s3.get_object(Bucket=RESULTS, Key="README.md")["VersionId"] == "null"
    assert s3.head_object(Bucket=RESULTS, Key="README.md", VersionId="null")["VersionId"] == "null"


def test_a_delete_marker_hides_the_object_and_cannot_be_read(s3: Any) -> None:
    marker = s3.list_object_versions(Bucket=RESULTS, Prefix=REMOVED)["DeleteMarkers"][0]
    place = {"Bucket": RESULTS, "Key": REMOVED}
    for call in (s3.get_object, s3.head_object):
        status, error, headers = refuse(lambda: call(**place))  # noqa: B023 - called at once
        assert (status, error["Code"]) == (404, "NoSuchKey" if call == s3.get_object else "404")
        assert (headers["x-amz-delete-marker"], headers["x-amz-version-id"]) == ("true", marker["VersionId"])
        assert "last-modified" not in headers
        status, error, headers = refuse(lambda: call(**place, VersionId=marker["VersionId"]))  # noqa: B023
        assert (status, error["Code"]) == (405, "MethodNotAllowed" if call == s3.get_object else "405")
        assert (headers["x-amz-delete-marker"], headers["allow"]) == ("true", "DELETE")
        assert headers["last-modified"] == "Sat, 17 May 2025 14:01:00 GMT"
    deny("s3:ListBucket")
    status, _, headers = refuse(lambda: s3.get_object(**place))
    assert (status, "x-amz-delete-marker" in headers) == (403, False)


def test_an_archived_object_must_be_restored(s3: Any) -> None:
    for storage_class in ("GLACIER", "DEEP_ARCHIVE"):
        stored = BACKEND.put_object(RESULTS, "cold", b"0123456789", storage=storage_class)
        place = {"Bucket": RESULTS, "Key": "cold"}
        for more in ({}, {"Range": "bytes=0-1"}):
            status, error, _ = refuse(lambda: s3.get_object(**place, **more))  # noqa: B023 - called at once
            assert (status, error["Code"], error["StorageClass"]) == (403, "InvalidObjectState", storage_class)
        assert s3.head_object(**place)["StorageClass"] == storage_class
        stored.restore(2)
        outcomes = [s3.head_object(**place).get("Restore") for _ in range(3)]
        assert str(outcomes[-1]).startswith('ongoing-request="false", expiry-date=')
        assert s3.get_object(**place)["Body"].read() == b"0123456789"
    BACKEND.put_object(RESULTS, "cool", b"0123456789", storage="GLACIER_IR")
    assert s3.get_object(Bucket=RESULTS, Key="cool")["StorageClass"] == "GLACIER_IR"


def test_a_refusal_names_the_user_the_action_the_resource_and_the_reason(s3: Any) -> None:
    status, error, _ = refuse(lambda: s3.get_object(Bucket="acme-finance-archive", Key="2024/ledger.csv"))
    assert (status, error["Code"]) == (403, "AccessDenied")
    arn = '"arn:aws:s3:::acme-finance-archive/2024/ledger.csv"'
    reason = "because no identity-based policy allows the s3:GetObject action"
    assert error["Message"] == f"User: {USER} is not authorized to perform: s3:GetObject on resource: {arn} {reason}"
    error = refuse(lambda: s3.list_objects_v2(Bucket="acme-finance-archive", Prefix="2024/"))[1]
    assert 's3:ListBucket on resource: "arn:aws:s3:::acme-finance-archive" because no' in error["Message"]
    deny("s3:ListBucket", "s3:ListAllMyBuckets")
    error = refuse(lambda: s3.get_object(Bucket=RESULTS, Key="missing"))[1]
    assert f's3:ListBucket on resource: "arn:aws:s3:::{RESULTS}" with an explicit deny' in error["Message"]
    error = refuse(s3.list_buckets)[1]
    assert "s3:ListAllMyBuckets with an explicit deny in an identity-based policy" in error["Message"]
    error = refuse(lambda: s3.list_objects_v2(Bucket="acme-partner-exchange"))[1]
    assert error["Message"] == "Access Denied"  # the bucket is in another account


def test_a_version_needs_a_right_of_its_own(s3: Any) -> None:
    version = s3.list_object_versions(Bucket=RESULTS, Prefix="rnaseq/liver/LICENSE")["Versions"][0]
    given = {"Bucket": RESULTS, "Key": version["Key"]}
    deny("s3:GetObjectVersion", "s3:ListBucketVersions")
    assert s3.get_object(**given)["VersionId"] == s3.head_object(**given)["VersionId"] == version["VersionId"]
    error = refuse(lambda: s3.get_object(**given, VersionId=version["VersionId"]))[1]
    assert "is not authorized to perform: s3:GetObjectVersion on resource" in error["Message"]
    assert refuse(lambda: s3.head_object(**given, VersionId=version["VersionId"]))[0] == 403
    assert "s3:ListBucketVersions" in refuse(lambda: s3.list_object_versions(Bucket=RESULTS))[1]["Message"]
    deny("s3:GetObject")
    assert s3.get_object(**given, VersionId=version["VersionId"])["Body"].read()
    assert s3.head_object(**given, VersionId=version["VersionId"])["VersionId"] == version["VersionId"]


@pytest.mark.parametrize(
    ("account", "reason"),
    [
        (ACCOUNT_ID, "on resource: {} because no identity-based policy allows the kms:Decrypt action"),
        ("210987654321", "on the resource associated with this ciphertext because the resource does not exist in this"),
    ],
)
def test_a_kms_key_needs_a_right_and_the_refusal_names_it(account: str, reason: str, s3: Any) -> None:
    key = f"arn:aws:kms:us-east-1:{account}:key/1234abcd-12ab-34cd-56ef-1234567890ab"
    stored = BACKEND.put_object(RESULTS, "locked", b"0", encryption="aws:kms", kms_key_id=key)
    for more in ({}, {"VersionId": stored.version_id}, {"Range": "bytes=0-0"}):
        status, error, _ = refuse(lambda: s3.get_object(Bucket=RESULTS, Key="locked", **more))  # noqa: B023
        assert (status, error["Code"]) == (403, "AccessDenied")
        expected = f"User: {USER} is not authorized to perform: kms:Decrypt {reason.format(key)}"
        assert error["Message"].startswith(expected)
    assert s3.head_object(Bucket=RESULTS, Key="locked")["SSEKMSKeyId"] == key


def test_only_other_accounts_must_say_that_they_pay() -> None:
    buckets = tuple(replace(one, requester_pays=True) for one in ACME.buckets)
    plans = {"admin": Plan(company=replace(ACME, buckets=buckets))}
    with validate_aws() as validation, demo_world("admin", plans=plans):
        s3: Any = quilt3.get_boto3_session().client("s3")
        assert "RequestCharged" not in s3.get_object(Bucket=RESULTS, Key="README.md")
        bucket = "acme-partner-exchange"
        calls: tuple[Callable[..., Any], ...] = (
            lambda **more: s3.get_object(Bucket=bucket, Key="helix/manifest.json", **more),
            lambda **more: s3.head_object(Bucket=bucket, Key="helix/manifest.json", **more),
            lambda **more: s3.list_objects_v2(Bucket=bucket, **more),
            lambda **more: s3.list_object_versions(Bucket=bucket, **more),
        )
        assert s3.head_bucket(Bucket=bucket)["BucketRegion"] == "us-east-1"  # it has no parameter for who pays
        for call in calls:
            status, error, _ = refuse(call)
            assert (status, error["Message"]) in {(403, "Access Denied"), (403, "Forbidden")}
            assert call(RequestPayer="requester")["RequestCharged"] == "requester"
    assert validation.faults == set()


@pytest.mark.parametrize("status", [HTTPStatus.MOVED_PERMANENTLY, HTTPStatus.BAD_REQUEST])
def test_clients_follow_both_responses_about_another_region(status: HTTPStatus) -> None:
    with validate_aws() as validation, enter_stopped("admin") as world:
        world.account.behaviour.misdirected_status = status
        session = quilt3.get_boto3_session()
        for call in ("get_object", "head_object"):
            client = session.client("s3")
            assert getattr(client, call)(Bucket=EU, Key="README.md")["ContentLength"] == 10
        assert session.client("s3").list_objects_v2(Bucket=EU)["KeyCount"] == 2
    assert {"s3:GetObject", "s3:HeadObject", "s3:ListObjectsV2"} <= validation.refused.keys()
    assert validation.faults == set()


def test_lists_have_folders_and_pages(s3: Any) -> None:
    found = s3.list_objects_v2(Bucket=RESULTS, Prefix="rnaseq/liver/", Delimiter="/", MaxKeys=4)
    assert [one["Key"] for one in found["Contents"]] == ["rnaseq/liver/LICENSE", "rnaseq/liver/README.md"]
    assert [one["Prefix"] for one in found["CommonPrefixes"]] == ["rnaseq/liver/code/", "rnaseq/liver/counts/"]
    assert (found["KeyCount"], found["IsTruncated"]) == (4, True)
    token = found["NextContinuationToken"]
    found = s3.list_objects_v2(Bucket=RESULTS, Prefix="rnaseq/liver/", Delimiter="/", ContinuationToken=token)
    assert found["CommonPrefixes"][0]["Prefix"] == "rnaseq/liver/figures/"  # that of drafts has only a delete marker
    assert found["IsTruncated"] is False
    odd = s3.list_objects_v2(Bucket=RESULTS, Prefix="rnaseq/liver/figures/Q")["Contents"]
    assert [one["Key"] for one in odd] == ["rnaseq/liver/figures/QC 100% + #2.png"]
    status, error, _ = refuse(lambda: s3.list_objects_v2(Bucket=RESULTS, ContinuationToken="made up"))
    assert (status, error["Code"]) == (400, "InvalidArgument")
    for number in range(1001):
        BACKEND.put_object(RAW, f"many/{number:04}", b"")
    found = s3.list_objects_v2(Bucket=RAW, Prefix="many/", MaxKeys=5000)
    assert (found["KeyCount"], found["MaxKeys"], found["IsTruncated"]) == (1000, 1000, True)
    assert s3.list_objects_v2(Bucket=RAW, MaxKeys=0)["KeyCount"] == 0
    full = s3.list_objects_v2(Bucket=RAW, Prefix="many/000", MaxKeys=10)
    assert (full["KeyCount"], full["IsTruncated"]) == (10, False)
    folders = s3.list_objects_v2(Bucket=RAW, Delimiter="/")["CommonPrefixes"]
    assert [one["Prefix"] for one in folders] == [".quilt/", "instruments/", "many/", "runs/"]


def test_lists_of_versions_have_pages_and_say_which_is_the_latest(s3: Any) -> None:
    for content in (b"1", b"22", b"333"):
        BACKEND.put_object(RESULTS, "again + again", content)
    BACKEND.delete_object(RESULTS, "ten")
    pages = list(s3.get_paginator("list_object_versions").paginate(Bucket=RESULTS, PaginationConfig={"PageSize": 2}))
    assert all(len(page.get("Versions", ())) + len(page.get("DeleteMarkers", ())) == 2 for page in pages[:-1])
    versions = [one for page in pages for one in page.get("Versions", ())]
    markers = [one for page in pages for one in page.get("DeleteMarkers", ())]
    stored = [one for versions in dict(get_bucket(RESULTS).keys.iterlists()).values() for one in versions]
    assert len(versions) + len(markers) == len(stored)
    assert len({(one["Key"], one["VersionId"]) for one in versions + markers}) == len(stored)
    assert [one["Size"] for one in versions if one["Key"] == "again + again"] == [3, 2, 1]
    assert [one["IsLatest"] for one in versions if one["Key"] == "again + again"] == [True, False, False]
    assert [one["IsLatest"] for one in versions + markers if one["Key"] == "ten"] == [False, True]
    assert {one["Key"] for one in markers} == {"ten", REMOVED}
    folders = s3.list_object_versions(Bucket=RESULTS, Delimiter="/", Prefix="rnaseq/liver/", MaxKeys=5)
    assert [one["Prefix"] for one in folders["CommonPrefixes"]] == ["rnaseq/liver/code/", "rnaseq/liver/counts/"]
    assert (folders["IsTruncated"], folders["NextKeyMarker"]) == (True, "rnaseq/liver/counts/")
    more = s3.list_object_versions(
        Bucket=RESULTS, Delimiter="/", Prefix="rnaseq/liver/", KeyMarker="rnaseq/liver/counts/"
    )
    assert more["CommonPrefixes"][0]["Prefix"] == "rnaseq/liver/drafts/"
    after = s3.list_object_versions(Bucket=RESULTS, KeyMarker="sz")["Versions"]
    assert after[0]["Key"] == "ten"
