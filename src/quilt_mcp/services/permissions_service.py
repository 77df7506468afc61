"""permissions://: the caller's rights in each bucket, and buckets that suit a purpose."""

import time
from collections import Counter

from quilt_mcp.app import current_app
from quilt_mcp.services.bucket_access import BucketAccess, CallerIdentity, open_identity, probe_page, take_snapshot
from quilt_mcp.services.bucket_listing import list_buckets, open_reader
from quilt_mcp.services.paging import cut_page
from quilt_mcp.services.permissions_answers import BucketRights, PermissionsAnswer, RecommendationsAnswer, UserIdentity
from quilt_mcp.services.recommendations import recommend_buckets
from quilt_mcp.services.settings import QuiltSettings
from quilt_mcp.services.stack.callers import current_caller

MAX_LIMIT = 500
SHORT_EVIDENCE = 30
"""Characters. Shorter evidence is not shared, because its number would save little."""
USER_TYPES = {
    "user": "iam_user",
    "assumed-role": "assumed_role",
    "role": "iam_role",
    "federated-user": "federated_user",
    "root": "root",
}


def discover_permissions(cursor: str | None = None, limit: str | None = None) -> PermissionsAnswer:
    """Your AWS identity, and your rights in each bucket.

    The buckets are those of the stack, then those of the AWS account, 50 per page: `?cursor=` and the `next_cursor` of
    a page read the next one, and `?limit=` sets its size, at most 500. The rights are to list, read and write. Each
    right is true, false, "some" (in a part of the bucket) or null (unknown), and comes with its evidence: the call and
    its result. Evidence that repeats is given once, in `shared_evidence`; the rows refer to it by its number. Parallel
    probes list a few keys of each bucket and ask for one key under each of up to three prefixes; they store nothing.
    `can_write` comes from your Quilt role or the bucket's collaborators if S3 does not contradict them, and from the
    write probe if the setting QUILT_MCP_PROBE_WRITES enables it; `write` says which. `sources` says where the bucket
    names come from. permissions://buckets/{bucket}/access tries more keys of one bucket, and
    permissions://recommendations ranks buckets.
    """
    until = time.monotonic() + current_app().settings_as(QuiltSettings).probe_seconds
    caller = current_caller()
    reader = open_reader(caller)
    identity = open_identity(reader)
    listed = list_buckets(reader, seconds=(until - time.monotonic()) / 2)
    in_stack = frozenset(listed.stack.names)
    page = cut_page(
        listed.names,
        lambda name: f"{'a' if name in in_stack else 'b'}{name}",
        cursor=cursor,
        limit=limit,
        scope=("permissions", caller.login.stack.registry_url, identity["Arn"]),
        largest=MAX_LIMIT,
    )
    rows = [describe_rights(bucket) for bucket in probe_page(reader, identity, listed, page.rows, until=until)]
    return {
        "user_identity": parse_identity(identity, reader.aws.find_replacement("sts")),
        "bucket_permissions": rows,
        "shared_evidence": _share_evidence(rows),
        "count": page.total,
        "next_cursor": page.next_cursor,
        "sources": listed.sources,
    }


def _share_evidence(rows: list[BucketRights]) -> dict[str, str]:
    """Replace evidence that several rows have by a number, and return the evidence of each number."""
    counts = Counter(
        text for row in rows for text in (row["list_evidence"], row["read_evidence"], row["write_evidence"])
    )
    repeated = [text for text, count in counts.items() if count > 1 and len(text) > SHORT_EVIDENCE]
    numbers = {text: f"[{number}]" for number, text in enumerate(repeated, 1)}
    for row in rows:
        row["list_evidence"] = numbers.get(row["list_evidence"], row["list_evidence"])
        row["read_evidence"] = numbers.get(row["read_evidence"], row["read_evidence"])
        row["write_evidence"] = numbers.get(row["write_evidence"], row["write_evidence"])
    return {number: text for text, number in numbers.items()}


def bucket_recommendations_get() -> RecommendationsAnswer:
    """The best buckets for new packages, up to three.

    You may write to each, or can try to. The best one comes first, each with its evidence. Uses the same probes as
    permissions://discover. `write` says how well a right to write is proven: "verified" by S3 ranks before "stated" by
    the Quilt stack, and that before "unverified". Buckets without a right to write or to list are never recommended.
    `write_unknown` names the buckets for which it is unknown whether you may write, and `access_unknown` those that
    could not be probed. `sources` says where the bucket names come from.
    """
    return recommend_buckets(take_snapshot())


def parse_identity(identity: CallerIdentity, replacement: str | None = None) -> UserIdentity:
    """Return the parts of the caller's ARN, and the host that replaces AWS."""
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
        "aws_endpoint": replacement,
    }


def describe_rights(bucket: BucketAccess) -> BucketRights:
    """Return the rights in one bucket as answers contain them."""
    claims = bucket.claims
    return {
        "name": bucket.name,
        "region": bucket.region,
        "permission_level": bucket.level,
        "can_list": claims.can_list,
        "list_evidence": claims.list_evidence,
        "can_read": claims.can_read,
        "read_evidence": claims.read_evidence,
        "can_write": claims.can_write,
        "write_evidence": claims.write_evidence,
        "write": claims.write_proof,
        "named_by": list(bucket.named_by),
        "error_message": bucket.error,
    }
