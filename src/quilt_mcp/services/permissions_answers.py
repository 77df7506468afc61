"""The answers of permissions://."""

from collections.abc import Mapping
from typing import Literal

from typing_extensions import TypedDict  # pydantic needs it before Python 3.12

from quilt_mcp.services.bucket_claims import Claim, Level, WriteProof
from quilt_mcp.services.bucket_listing import SourceName


class UserIdentity(TypedDict):
    """The caller's AWS identity.

    Attributes:
        user_id: the unique id in AWS.
        arn: the ARN.
        account_id: the AWS account.
        user_type: iam_user, assumed_role, iam_role, federated_user or root.
        user_name: the user; for an assumed role, the session; null if there is none.
        role_name: the assumed role; null for other identities.
        aws_endpoint: the host that replaces AWS, as AWS_ENDPOINT_URL or an AWS profile of this machine names it; null
            for AWS itself.
    """

    user_id: str
    arn: str
    account_id: str
    user_type: str
    user_name: str | None
    role_name: str | None
    aws_endpoint: str | None


class BucketRights(TypedDict):
    """Your rights in one bucket. Each right is true, false, "some" (in a part of the bucket) or null (unknown).

    Attributes:
        name: its name.
        region: its AWS region; null if unknown.
        permission_level: the rights in one word. full_access: `can_read` and `can_write` are true. read_only: you may
            read at least a part; writing is not allowed, limited to a part, or unknown. list_only: you may list it, and
            S3 refused every key that was tried. no_access: S3 refused the list, so no right is proven; to read or write
            an object with a known key can still work; or S3 has no such bucket. unknown: everything else, such as an
            empty bucket, or one that could not be probed.
        can_list: true: the whole bucket; "some": only the keys under .quilt/, or all but the prefixes in
            `list_evidence`; false: neither the root nor .quilt/.
        list_evidence: the call and its result, or why there was none.
        can_read: true: every key that was tried; "some": some of them, or all of those that may be listed; false: every
            key of the bucket was tried, and all were refused; null: anything else.
        read_evidence: the calls and their results, or why there were none.
        can_write: from the Quilt stack, unless S3 contradicts it. The write probe, if it is enabled, tries one prefix.
            If S3 allows it: true if the stack states READ_WRITE too, or if all keys are at the root; otherwise "some",
            or null if a KMS key can refuse data. If S3 refuses it: false if the stack states no right to write;
            otherwise null, because other prefixes were not tried, also those without keys.
        write_evidence: the call and its result, or what the Quilt stack states, or why nothing is known.
        write: how well a right to write is proven: "verified" by S3, "stated" by the Quilt stack, "unverified" if
            nothing is known, "no" if you have none.
        named_by: which sources list it.
        error_message: why it could not be probed; null otherwise.
    """

    name: str
    region: str | None
    permission_level: Level
    can_list: Claim
    list_evidence: str
    can_read: Claim
    read_evidence: str
    can_write: Claim
    write_evidence: str
    write: WriteProof
    named_by: list[SourceName]
    error_message: str | None


class PermissionsAnswer(TypedDict):
    """The answer of permissions://discover.

    Attributes:
        user_identity: your AWS identity.
        bucket_permissions: the buckets of this page: those of the stack first, then by name.
        shared_evidence: the evidence that several rows of this page have, by its number, such as "[1]". The rows have
            the number instead.
        count: the total of all pages.
        next_cursor: the `cursor` of the next page; null on the last page.
        sources: for "registry" (the Quilt stack) and "s3" (the AWS account), "read", or why it could not be read.
    """

    user_identity: UserIdentity
    bucket_permissions: list[BucketRights]
    shared_evidence: dict[str, str]
    count: int
    next_cursor: str | None
    sources: Mapping[SourceName, str]


class Alternative(TypedDict):
    """A bucket that is not among the first recommendations.

    Attributes:
        bucket_name: its name.
        permission_level: your rights in one word.
        rationale: the factors that it fulfils.
        write: how well a right to write is proven: "verified" by S3, "stated" by the Quilt stack, "unverified" if
            nothing is known, "no" if you have none.
        evidence: what is known about writing, and about reading.
    """

    bucket_name: str
    permission_level: Level
    rationale: list[str]
    write: WriteProof
    evidence: list[str]


class Recommendation(Alternative):
    """A recommended bucket.

    Attributes:
        score: the sum of the scores of its factors, at most 100.
        region: its AWS region; null if unknown.
    """

    score: int
    region: str | None


class Criteria(TypedDict):
    """How buckets are ranked: first by `write`, then by the sum of the factors' scores, then by name."""

    ranks: list[WriteProof]
    """The values of `write`, the best first."""
    scoring_factors: dict[str, int]
    """The score of each factor. The sum is at most 100."""
    ties: str
    """How buckets with the same rank and score are ordered."""


class Recommendations(TypedDict):
    """The recommended buckets.

    Attributes:
        primary_recommendations: at most three buckets to write to, the best first: buckets of the stack, or with a
            verified right to write. Empty only if there is none to try among those that could be read.
        alternative_options: the other buckets that you can try to write to, then those that you may only read; at most
            50.
        alternatives_not_listed: the number of other alternatives. permissions://discover lists all buckets.
        write_unknown: buckets that you may list, for which it is unknown whether you may write.
        access_unknown: buckets that could not be probed.
        recommendation_criteria: how buckets are ranked.
        note: why no bucket can be recommended, or why the order proves nothing, and what to do; null otherwise.
    """

    primary_recommendations: list[Recommendation]
    alternative_options: list[Alternative]
    alternatives_not_listed: int
    write_unknown: list[str]
    access_unknown: list[str]
    recommendation_criteria: Criteria
    note: str | None


class RecommendationsAnswer(TypedDict):
    """The answer of permissions://recommendations.

    Attributes:
        operation_type: the purpose.
        recommendations: the buckets.
        total_writable_buckets: the number of buckets with a verified or stated right to write, of those that were
            probed; null if no source of names could be read.
        total_accessible_buckets: the number of buckets in which you may read at least a part; null as above.
        sources: for "registry" (the Quilt stack) and "s3" (the AWS account), "read", or why it could not be read.
        buckets_not_probed: the number of buckets above the maximum of 1000, which are left out. The buckets of the
            stack come first.
        not_probed_note: which buckets are left out, and how to read them; null if none are.
    """

    operation_type: Literal["package_creation"]
    recommendations: Recommendations
    total_writable_buckets: int | None
    total_accessible_buckets: int | None
    sources: Mapping[SourceName, str]
    buckets_not_probed: int
    not_probed_note: str | None
