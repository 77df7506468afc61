"""The rights and the behaviour of S3 and STS in the worlds of AWS, seen with plain boto3."""

import json
from collections.abc import Callable
from typing import Any, get_args

import pytest
import quilt3
from botocore.exceptions import ClientError

from quilt_mcp.demo.moto_gaps.refusals import Access, Limit, decide
from quilt_mcp.demo.world import World
from tests.support.worlds import in_world
from tests.worlds.aws_worlds import CLOSED, OPEN, OPEN_KEY

RAW, RESULTS = "acme-raw-sequencing", "acme-analysis-results"
NO_ETAG = '"00000000000000000000000000000000"'


def create_client(service: str) -> Any:
    return quilt3.get_boto3_session().client(service)


def find_outcome(call: Callable[[], object]) -> str:
    try:
        call()
    except ClientError as error:
        return str(error.response["Error"]["Code"])
    return "allowed"


@pytest.fixture
def s3(world: World) -> Any:
    del world
    return create_client("s3")


def read(s3: Any, bucket: str, key: str) -> str:
    return find_outcome(lambda: s3.head_object(Bucket=bucket, Key=key))


def put(s3: Any, bucket: str, key: str) -> str:
    return find_outcome(lambda: s3.put_object(Bucket=bucket, Key=key, Body=b"", IfMatch=NO_ETAG))


def find_list(s3: Any, bucket: str, **given: str) -> str:
    return find_outcome(lambda: s3.list_objects_v2(Bucket=bucket, **given))


@in_world("prefix_policy", "prefix_policy_404")
class TestPrefixPolicy:
    def test_the_documented_policy_gives_rights_on_the_prefix_and_on_quilts_own(self, s3: Any) -> None:
        assert find_list(s3, RAW) == "allowed"
        assert read(s3, RAW, "runs/250519/samples.tsv") == "allowed"
        pointer = s3.list_objects_v2(Bucket=RAW, Prefix=".quilt/named_packages/")["Contents"][0]["Key"]
        assert read(s3, RAW, pointer) == "allowed"
        assert read(s3, RAW, "README.md") == "403"
        assert put(s3, RAW, "runs/missing") == "NoSuchKey"
        assert put(s3, RAW, "missing") == "AccessDenied"

    def test_with_a_condition_only_the_prefix_can_be_listed(self, s3: Any) -> None:
        assert find_list(s3, RESULTS, Prefix="rnaseq/atlas/") == "allowed"
        assert find_list(s3, RESULTS, Prefix="reports/") == "AccessDenied"
        assert find_list(s3, RESULTS, Prefix="") == "AccessDenied"
        assert find_list(s3, RESULTS) == "AccessDenied"
        assert find_outcome(lambda: s3.head_bucket(Bucket=RESULTS)) == "403"
        assert read(s3, RESULTS, "rnaseq/atlas/counts/S1.parquet") == "allowed"

    def test_both_answers_to_a_missing_key_that_aws_does_not_document_are_a_world(self, s3: Any, world: World) -> None:
        is_404 = world.name == "prefix_policy_404"
        assert read(s3, RESULTS, "rnaseq/missing") == ("404" if is_404 else "403")
        get = find_outcome(lambda: s3.get_object(Bucket=RESULTS, Key="rnaseq/missing"))
        assert get == ("NoSuchKey" if is_404 else "AccessDenied")
        assert put(s3, RESULTS, "rnaseq/missing") == ("NoSuchKey" if is_404 else "AccessDenied")
        assert read(s3, RESULTS, "reports/missing") == "403"
        assert read(s3, RAW, "runs/missing") == "404"


@in_world("prefix_policy")
def test_a_conditional_put_stores_nothing(s3: Any) -> None:
    before = s3.list_objects_v2(Bucket=RAW)["Contents"]
    assert put(s3, RAW, "runs/250519/samples.tsv") == "PreconditionFailed"
    assert put(s3, RAW, "runs/missing") == "NoSuchKey"
    assert s3.list_objects_v2(Bucket=RAW)["Contents"] == before


@in_world("prefix_policy", "denied_by_policy", "many_buckets")
def test_a_refused_bucket_still_tells_its_region(s3: Any, world: World) -> None:
    bucket = CLOSED[0] if world.name == "many_buckets" else "acme-finance-archive"
    for call in (s3.head_bucket, s3.list_objects_v2):
        with pytest.raises(ClientError) as caught:
            call(Bucket=bucket)
        answer = caught.value.response["ResponseMetadata"]
        assert answer["HTTPStatusCode"] == 403
        assert answer["HTTPHeaders"]["x-amz-bucket-region"] == "us-east-1"


class TestKMS:
    @in_world("denied_by_kms")
    def test_the_key_is_needed_to_read_and_for_the_checksum_but_not_for_head(self, s3: Any) -> None:
        for bucket, outcome in ((RAW, "AccessDenied"), (RESULTS, "allowed")):
            place = {"Bucket": bucket, "Key": "README.md"}
            head = s3.head_object(**place)
            assert head["ServerSideEncryption"] == "aws:kms"
            assert (head["SSEKMSKeyId"] == OPEN_KEY) == (bucket == RESULTS)
            assert not [name for name in head if name.startswith("Checksum")]
            assert find_outcome(lambda: s3.get_object(**place)) == outcome  # noqa: B023 - called at once
        with pytest.raises(ClientError) as caught:
            s3.head_object(Bucket=RAW, Key="README.md", ChecksumMode="ENABLED")
        assert caught.value.response["Error"]["Code"] == "403"
        assert s3.head_object(Bucket=RESULTS, Key="README.md", ChecksumMode="ENABLED")["ChecksumCRC32"]

    @in_world("admin")
    def test_other_objects_need_no_key(self, s3: Any) -> None:
        head = s3.head_object(Bucket=RAW, Key="README.md", ChecksumMode="ENABLED")
        assert (head["ServerSideEncryption"], "SSEKMSKeyId" in head) == ("AES256", False)
        assert head["ChecksumCRC32"]


@in_world("custom_role")
def test_the_administrator_has_an_unmanaged_role_that_the_stack_can_assume(s3: Any, world: World) -> None:
    arn = create_client("sts").get_caller_identity()["Arn"]
    assert arn == "arn:aws:sts::123456789012:assumed-role/acme-quilt-administrator/amara_osei"
    assert world.user is not None
    assert world.company.find_role(str(world.user.role)).external_arn
    assert (put(s3, RAW, "missing"), put(s3, RESULTS, "missing")) == ("NoSuchKey", "AccessDenied")
    assert (find_list(s3, "acme-clinical-trials"), find_list(s3, "acme-finance-archive")) == ("allowed", "AccessDenied")


@pytest.mark.soak
@in_world("many_buckets")
def test_the_stacks_buckets_sort_last_among_1500(s3: Any) -> None:
    pages = list(s3.get_paginator("list_buckets").paginate(PaginationConfig={"PageSize": 1000}))
    assert [len(page["Buckets"]) for page in pages] == [1000, 500]
    buckets = [bucket for page in pages for bucket in page["Buckets"]]
    assert [bucket["Name"] for bucket in buckets[-len(OPEN) :]] == list(OPEN)
    assert {bucket["BucketRegion"] for bucket in buckets} == {"us-east-1"}
    assert put(s3, OPEN[-1], "missing") == "NoSuchKey"
    assert (read(s3, OPEN[-2], "README.md"), put(s3, OPEN[-2], "missing")) == ("allowed", "AccessDenied")
    assert find_list(s3, OPEN[0]) == "AccessDenied"
    assert put(s3, CLOSED[0], "missing") == "AccessDenied"


@in_world("admin")
def test_buckets_have_a_region_only_if_there_is_a_parameter(s3: Any) -> None:
    assert "BucketRegion" not in s3.list_buckets()["Buckets"][0]
    eu = s3.list_buckets(Prefix="acme-imaging")["Buckets"]
    assert [(one["Name"], one["BucketRegion"]) for one in eu] == [("acme-imaging-eu", "eu-west-1")]


@in_world("empty_next_token")
def test_the_last_page_can_have_an_empty_token(s3: Any) -> None:
    assert s3.list_buckets(MaxBuckets=1000)["ContinuationToken"] == ""
    assert create_client("glue").get_databases()["NextToken"] == ""
    assert create_client("athena").list_work_groups()["NextToken"] == ""


@in_world("credentials_expire")
def test_the_first_keys_expire_and_new_ones_work(world: World) -> None:
    def create_session() -> Any:
        assert world.user is not None
        keys = world.account.credentials(world.user)
        given = (keys["AccessKeyId"], keys["SecretAccessKey"], keys["SessionToken"], "us-east-1")
        return quilt3.session.boto3.Session(*given)

    session = create_session()
    for _ in range(3):
        assert find_outcome(session.client("sts").get_caller_identity) == "allowed"
    assert find_outcome(session.client("sts").get_caller_identity) == "ExpiredToken"
    assert find_outcome(session.client("s3").list_buckets) == "ExpiredToken"
    assert find_outcome(lambda: session.client("s3").head_bucket(Bucket=RAW)) == "400"
    assert find_outcome(session.client("glue").get_databases) == "ExpiredTokenException"
    assert find_outcome(session.client("athena").list_work_groups) == "ExpiredTokenException"
    assert find_outcome(create_session().client("sts").get_caller_identity) == "allowed"


def allow(**elements: object) -> str:
    statement = {"Effect": "Allow", "Action": "s3:*", "Resource": "*", **elements}
    return json.dumps({"Statement": {key: value for key, value in statement.items() if value is not None}})


@pytest.mark.parametrize(
    ("policy", "decision"),
    [
        (allow(Action="S3:getobject"), "allowed"),
        (allow(Action=["s3:Get?bject"]), "allowed"),
        (allow(Action="s3:Get.bject"), "not allowed"),
        (allow(Action=None, NotAction="s3:Put*"), "allowed"),
        (allow(Action=None, NotAction="s3:Get*"), "not allowed"),
        (allow(Resource="arn:aws:s3:::a.b/*"), "allowed"),
        (allow(Resource="arn:aws:s3:::a?b/k"), "allowed"),
        (allow(Resource="arn:aws:s3:::axb/*"), "not allowed"),
        (allow(Resource=None, NotResource="arn:aws:s3:::a.b/*"), "not allowed"),
        (allow(Condition={"StringEquals": {"s3:prefix": ["x", "runs/1"]}}), "allowed"),
        (allow(Condition={"StringEquals": {"s3:prefix": "runs/*"}}), "not allowed"),
        (allow(Condition={"StringLike": {"s3:prefix": "runs/*"}}), "allowed"),
        (allow(Condition={"StringLike": {"s3:delimiter": "*"}}), "not allowed"),
        (allow(Effect="Deny", Resource="arn:aws:s3:::other"), "not allowed"),
        (allow(Effect="Deny"), "denied"),
    ],
)
def test_how_a_policy_decides(policy: str, decision: str) -> None:
    access = Access("s3:GetObject", "arn:aws:s3:::a.b/k", {"s3:prefix": "runs/1"})
    assert decide([policy], {}, access) == decision
    assert decide([allow(), policy], {}, access) == ("denied" if decision == "denied" else "allowed")
    for limit in get_args(Limit):
        assert decide([allow()], {limit: policy}, access) == (limit if decision == "not allowed" else decision)
        assert decide([policy], {limit: allow()}, access) == decision


def test_an_operator_that_the_fake_does_not_know_is_an_error() -> None:
    policy = allow(Condition={"NumericLessThan": {"s3:max-keys": "10"}})
    with pytest.raises(KeyError):
        decide([policy], {}, Access("s3:ListBucket", "arn:aws:s3:::a", {"s3:max-keys": "5"}))
