"""permissions://: the caller's rights in each bucket, and where to create packages. Promised to Python callers."""

from collections import Counter
from collections.abc import Mapping
from typing import Literal

from typing_extensions import TypedDict

from quilt_mcp.services.bucket_claims import Claim, Level, WriteProof
from quilt_mcp.services.bucket_rights import (
    CallerIdentity,
    ProbedBucket,
    SourceName,
    list_known_buckets,
    open_rights_reader,
    probe_page,
    take_snapshot,
)
from quilt_mcp.services.pages import Paged, cut_joint_page
from quilt_mcp.services.recommendations import RecommendationsAnswer, recommend_buckets

LARGEST_PAGE = 100
"""More rows do not fit into an answer, and each bucket of a page is probed."""
EVIDENCE: tuple[Literal["list_evidence", "read_evidence", "write_evidence"], ...]
EVIDENCE = ("list_evidence", "read_evidence", "write_evidence")
SHORT_EVIDENCE = 30
"""Characters. Shorter evidence is not shared, because its number would save little."""
USER_TYPES = {
    "user": "iam_user",
    "assumed-role": "assumed_role",
    "role": "iam_role",
    "federated-user": "federated_user",
}


class UserIdentity(TypedDict):
    """The caller's AWS identity.

    Attributes:
        user_id: the unique id in AWS.
        arn: the ARN.
        account_id: the AWS account.
        user_type: iam_user, assumed_role, iam_role, federated_user or root.
        user_name: the user; for an assumed role, the session; null if there is none.
        role_name: the assumed role; null for other identities.
        aws_endpoint: by AWS service (athena, cloudwatch, glue, s3, sts), the host that replaces it, as
            AWS_ENDPOINT_URL, AWS_ENDPOINT_URL_S3 or an AWS profile of this machine names it: the rights are those that
            this host states; null if all services are those of AWS.
    """

    user_id: str
    arn: str
    account_id: str
    user_type: str
    user_name: str | None
    role_name: str | None
    aws_endpoint: dict[str, str] | None


class BucketRights(TypedDict):
    """Your rights in one bucket. Each right is true, false, "some" (in a part of the bucket) or null (unknown).

    Attributes:
        name: its name.
        region: its AWS region; null if unknown.
        permission_level: the rights in a word. full_access: `can_read` and `can_write` are true. read_or_more: you may
            read at least a part; writing is unknown, or proven for a part. read_only: you may read at least a part, and
            not write. list_only: you may list it, and S3 refused every key that was tried. no_access: S3 refused the
            list, so no right is proven; to read or write an object with a known key can still work; or S3 has no such
            bucket. unknown: everything else, such as an empty bucket, or one that could not be probed.
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
        error: why it could not be probed; null otherwise.
        uri: the URI of your rights in the bucket, with everything that was asked.
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
    error: str | None
    uri: str


class PermissionsAnswer(Paged):
    """The answer of permissions://discover.

    Attributes:
        user_identity: your AWS identity.
        bucket_permissions: the buckets of this page: those of the stack first, then by name.
        shared_evidence: the evidence that several rows of this page have, by its number, such as "[1]". The rows have
            the number instead.
        sources: for "registry" (the Quilt stack) and "s3" (the AWS account), "read", or why it could not be read.
    """

    user_identity: UserIdentity
    bucket_permissions: list[BucketRights]
    shared_evidence: dict[str, str]
    sources: Mapping[SourceName, str]


def discover_permissions(cursor: str | None = None, limit: str | None = None) -> PermissionsAnswer:
    """Your AWS identity and bucket rights.

    The buckets are those of the stack, then those of the AWS account, 50 per page: `?cursor=` and the `next_cursor` of
    a page read the next one, and `?limit=` sets its size, at most 100. The rights are to list, read and write. Each
    right is true, false, "some" (in a part of the bucket) or null (unknown), and comes with its evidence: the call and
    its result. Evidence that repeats is given once, in `shared_evidence`; the rows refer to it by its number. Parallel
    probes list a few keys of each bucket and ask for one key under each of up to three prefixes; they store nothing.
    `can_write` comes from your Quilt role or the bucket's collaborators if S3 does not contradict them, and from the
    write probe if the setting QUILT_MCP_PROBE_WRITES enables it; `write` says which. `sources` says where the bucket
    names come from. permissions://buckets/{bucket}/access tries more keys of one bucket, and
    permissions://recommendations ranks buckets.
    """
    reader = open_rights_reader()
    listed = list_known_buckets(reader)
    in_stack = frozenset(listed.stack.names)
    shared = dict[str, str]()

    def probe(names: list[str]) -> list[BucketRights]:
        rows = [describe_rights(bucket) for bucket in probe_page(reader, listed, names)]
        shared.update(_share_evidence(rows))
        return rows

    page = cut_joint_page(
        listed.names,
        lambda name: f"{'a' if name in in_stack else 'b'}{name}",
        build=probe,
        cursor=cursor,
        limit=limit,
        scope=("permissions", reader.caller.login.stack.registry_url, reader.identity["Arn"]),
        largest=LARGEST_PAGE,
    )
    used = {row[name] for row in page.rows for name in EVIDENCE}
    return {
        "user_identity": parse_identity(reader.identity, reader.aws.find_replacements()),
        "bucket_permissions": page.rows,
        "shared_evidence": {number: text for number, text in shared.items() if number in used},
        "count": page.total,
        "next_cursor": page.next_cursor,
        "sources": listed.sources,
    }


def _share_evidence(rows: list[BucketRights]) -> dict[str, str]:
    """Replace evidence that several rows have by a number, and return the evidence of each number."""
    counts = Counter(row[name] for row in rows for name in EVIDENCE)
    repeated = [text for text, count in counts.items() if count > 1 and len(text) > SHORT_EVIDENCE]
    numbers = {text: f"[{number}]" for number, text in enumerate(repeated, 1)}
    for row in rows:
        for name in EVIDENCE:
            row[name] = numbers.get(row[name], row[name])
    return {number: text for text, number in numbers.items()}


def bucket_recommendations_get() -> RecommendationsAnswer:
    """Up to three buckets for new packages.

    You may write to each, or can try to. The best one comes first, each with its evidence. Uses the same probes as
    permissions://discover. `write` says how well a right to write is proven: "verified" by S3 ranks before "stated" by
    the Quilt stack, and that before "unverified". Buckets without a right to write or to list are never recommended.
    `write_unknown` names the buckets for which it is unknown whether you may write, and `access_unknown` those that
    could not be probed. `sources` says where the bucket names come from.
    """
    return recommend_buckets(take_snapshot())


def parse_identity(identity: CallerIdentity, replacements: dict[str, str] | None = None) -> UserIdentity:
    kind, _, path = identity["Arn"].split(":", 5)[5].partition("/")
    role, _, session = path.partition("/")
    is_session = kind == "assumed-role"
    return {
        "user_id": identity["UserId"],
        "arn": identity["Arn"],
        "account_id": identity["Account"],
        "user_type": USER_TYPES.get(kind, kind),
        "user_name": session if is_session else path.rpartition("/")[2] or None,
        "role_name": role if is_session else None,
        "aws_endpoint": replacements,
    }


def describe_rights(bucket: ProbedBucket) -> BucketRights:
    claims = bucket.claims
    return {
        "name": bucket.name,
        "region": bucket.region,
        "permission_level": claims.level,
        "can_list": claims.can_list,
        "list_evidence": claims.list_evidence,
        "can_read": claims.can_read,
        "read_evidence": claims.read_evidence,
        "can_write": claims.can_write,
        "write_evidence": claims.write_evidence,
        "write": claims.write_proof,
        "named_by": list(bucket.named_by),
        "error": bucket.error,
        "uri": bucket.uri,
    }
