"""permissions://: the caller's rights in each bucket, and buckets that suit a purpose."""

from quilt_mcp.services.bucket_access import BucketAccess, CallerIdentity, Snapshot, take_snapshot
from quilt_mcp.services.bucket_claims import Level
from quilt_mcp.services.permissions_answers import BucketRights, PermissionsAnswer, RecommendationsAnswer, UserIdentity
from quilt_mcp.services.recommendations import group_by_purpose, recommend_buckets

LEVELS: tuple[Level, ...] = ("full_access", "read_only", "list_only", "no_access", "unknown")
USER_TYPES = {
    "user": "iam_user",
    "assumed-role": "assumed_role",
    "role": "iam_role",
    "federated-user": "federated_user",
    "root": "root",
}


def discover_permissions() -> PermissionsAnswer:
    """Your AWS identity, and your rights in each bucket.

    The buckets are those of the stack and of the AWS account. The rights are to list, read and write. Each right is
    true, false, "some" (in a part of the bucket) or null (unknown), and comes with its evidence: the call and its
    result. Parallel probes list a few keys of each bucket and ask for one key under each of up to three prefixes; they
    store nothing. `can_write` comes from your Quilt role or the bucket's collaborators if S3 does not contradict them,
    and from the write probe if the setting QUILT_MCP_PROBE_WRITES enables it. `sources` says where the bucket names
    come from. permissions://buckets/{bucket}/access tries more keys of one bucket.
    """
    snapshot = take_snapshot()
    return {
        "user_identity": parse_identity(snapshot.identity),
        "bucket_permissions": [describe_rights(bucket) for bucket in snapshot.buckets],
        "categorized_buckets": {level: _list_names(snapshot, level) for level in LEVELS},
        "recommendations": group_by_purpose(snapshot),
        "sources": snapshot.sources,
        "total_buckets_checked": len(snapshot.buckets),
        "buckets_not_probed": snapshot.not_probed,
        "not_probed_note": snapshot.not_probed_note,
    }


def bucket_recommendations_get() -> RecommendationsAnswer:
    """The best buckets for new packages, up to three.

    You may write to each, or can try to. The best one comes first, each with its evidence. Uses the same probes as
    permissions://discover. `write` says how well a right to write is proven: "verified" by S3 ranks before "stated" by
    the Quilt stack, and that before "unverified". Buckets without a right to write or to list are never recommended.
    `write_unknown` names the buckets for which it is unknown whether you may write, and `access_unknown` those that
    could not be probed. `sources` says where the bucket names come from.
    """
    return recommend_buckets(take_snapshot())


def parse_identity(identity: CallerIdentity) -> UserIdentity:
    """Return the parts of the caller's ARN."""
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
        "named_by": list(bucket.named_by),
        "error_message": bucket.error,
    }


def _list_names(snapshot: Snapshot, level: Level) -> list[str]:
    return [bucket.name for bucket in snapshot.buckets if bucket.level == level]
