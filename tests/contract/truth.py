"""What really works in a bucket of the fake AWS, tried with plain boto3 and the user's own credentials."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import boto3
from botocore.exceptions import ClientError
from moto.s3.models import FakeBucket, FakeKey, s3_backends

from quilt_mcp.demo.account import REGION
from quilt_mcp.demo.records import User
from quilt_mcp.demo.world import World

QUILT, ROOT, NEW_PREFIX = ".quilt/", "", "new/"
NEW_KEY = "a-new-key-of-the-judge"


@dataclass(frozen=True)
class Truth:
    """What S3 allows.

    Attributes:
        lists: whether the list works, by prefix; "" is the whole bucket.
        reads: whether GetObject works, by key.
        writes: whether PutObject of a new key works, by first-level prefix, also a new one; "" is the root.
        conditional_writes: whether S3 checks the condition of such a put, instead of refusing it.
    """

    lists: Mapping[str, bool]
    reads: Mapping[str, bool]
    writes: Mapping[str, bool]
    conditional_writes: Mapping[str, bool]


def open_s3(world: World, user: User) -> Any:
    """Open S3 as a user, without this project's code."""
    keys = world.account.credentials(user)
    return boto3.client(
        "s3",
        REGION,
        aws_access_key_id=keys["AccessKeyId"],
        aws_secret_access_key=keys["SecretAccessKey"],
        aws_session_token=keys["SessionToken"],
    )


def find_stored(world: World, bucket: str) -> FakeBucket:
    """Return what moto stores for a bucket."""
    [account] = [one.account for one in world.company.buckets if one.name == bucket]
    return s3_backends[account]["aws"].get_bucket(bucket)


def get_prefix(key: str) -> str:
    """Return the first-level prefix of a key; "" for a key at the root."""
    first, slash, _ = key.partition("/")
    return first + slash if slash else ROOT


def find_truth(world: World, s3: Any, bucket: str) -> Truth:
    """Try everything in one bucket. Afterwards it is as before."""
    stored = find_stored(world, bucket).keys
    keys = [key for key, newest in stored.items() if isinstance(newest, FakeKey)]  # the others are deleted
    prefixes = dict.fromkeys([ROOT, QUILT, NEW_PREFIX, *map(get_prefix, keys)])
    lists = {
        prefix: _works(partial(s3.list_objects_v2, Bucket=bucket, Prefix=prefix, MaxKeys=1)) for prefix in prefixes
    }
    archived = {"InvalidObjectState"}
    reads = {key: _works(partial(s3.get_object, Bucket=bucket, Key=key), failing=archived) for key in keys}
    writes, conditional_writes = {}, {}
    for prefix in prefixes:
        put = partial(s3.put_object, Bucket=bucket, Key=prefix + NEW_KEY, Body=b"")
        conditional_writes[prefix] = _works(partial(put, IfMatch='"0"'), failing={"NoSuchKey", "PreconditionFailed"})
        writes[prefix] = _works(put)
        if writes[prefix]:
            stored.pop(prefix + NEW_KEY)
    return Truth(lists, reads, writes, conditional_writes)


def _works(call: Any, *, failing: Collection[str] = ()) -> bool:
    """Return whether S3 carries out a call, or fails with one of these codes.

    Raises:
        ClientError: it failed for another reason than missing rights.
    """
    try:
        call()
    except ClientError as error:
        code = error.response["Error"]["Code"]
        if code not in {"AccessDenied", "403", *failing}:
            raise
        return code in failing
    return True


@contextmanager
def storing_nothing(world: World) -> Iterator[None]:
    """Check that no object of any bucket is added or removed."""
    names = [bucket.name for bucket in world.company.buckets if bucket.objects]
    before = {name: list(find_stored(world, name).keys) for name in names}
    yield
    assert {name: list(find_stored(world, name).keys) for name in names} == before
