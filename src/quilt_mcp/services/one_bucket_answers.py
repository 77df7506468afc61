"""The answer of permissions://buckets/{bucket}/access."""

from collections.abc import Mapping
from typing import Literal

from typing_extensions import TypedDict  # pydantic needs it before Python 3.12

from quilt_mcp.services.bucket_claims import Claim, StatementSource
from quilt_mcp.services.bucket_listing import SourceName
from quilt_mcp.services.permissions_answers import BucketRights, UserIdentity


class PrefixRow(TypedDict):
    """Your rights under one first-level prefix.

    Attributes:
        prefix: the prefix, such as `data/`; empty for the objects at the root.
        can_list: whether S3 allowed the list; null if the call failed.
        can_read: of the one to five keys that were tried, true: S3 let you read all; "some": some; false: none; null:
            no key was tried, or the results prove nothing.
        read_evidence: the calls and their results, or why there were none.
    """

    prefix: str
    can_list: bool | None
    can_read: Claim
    read_evidence: str


class Evidence(TypedDict):
    """One thing that was asked, and the answer.

    Attributes:
        source: "s3", the "role" or the "collaborators" in the Quilt stack, or "registry" if it states nothing.
        call: the operation of AWS, or the query to the stack.
        target: the prefix or the key, which the list contained; empty for the root, null for a query to the stack.
        result: "allowed", "refused", "read", "unproven", "missing", "failed", or what the stack states.
        detail: what else is known; null if nothing.
    """

    source: Literal["s3"] | StatementSource
    call: str
    target: str | None
    result: str
    detail: str | None


class Collaborator(TypedDict):
    """A user of a bucket."""

    name: str
    """The name in Quilt."""
    right: str
    """READ or READ_WRITE."""


class BucketAccessAnswer(BucketRights):
    """Your rights in one bucket.

    Attributes:
        user_identity: your AWS identity.
        in_stack: whether the Quilt stack shows you this bucket; null if its list could not be read.
        sources: as in permissions://discover.
        prefixes: the first-level prefixes that were tried: Quilt's own first, the others by name, the root last.
        prefixes_not_tried: the number of other first-level prefixes among the first 1000 keys and prefixes.
        prefixes_complete: whether the bucket has no more prefixes than those that are counted here.
        collaborators: the users who may use the bucket by their roles in the stack, sorted; null if the stack does not
            tell you. Users with roles that Quilt does not manage are not among them.
        evidence: everything that was asked.
    """

    user_identity: UserIdentity
    in_stack: bool | None
    sources: Mapping[SourceName, str]
    prefixes: list[PrefixRow]
    prefixes_not_tried: int
    prefixes_complete: bool
    collaborators: list[Collaborator] | None
    evidence: list[Evidence]
