"""permissions://: what the caller may do in each bucket, and which bucket suits which purpose."""

from typing import Any

from quilt_mcp.services.bucket_access import BucketAccess, Snapshot, take_snapshot

LEVELS = ("full_access", "read_only", "list_only", "no_access", "unknown")
USER_TYPES = {
    "user": "iam_user",
    "assumed-role": "assumed_role",
    "role": "iam_role",
    "federated-user": "federated_user",
    "root": "root",
}
TEMPORARY_WORDS = frozenset({"tmp", "temp", "temporary", "scratch", "sandbox"})
REGISTRY_WORDS = frozenset({"package", "packages", "registry", "quilt"})
FACTORS = {
    "writable": 40,
    "in the stack": 30,
    "name speaks of packages": 20,
    "not for temporary data": 10,
}
MOST_RECOMMENDED = 3


def discover_permissions() -> dict[str, Any]:
    """Your AWS identity, and for each bucket of the stack and the account whether you may list, read and write it.

    Found by harmless probes in parallel. `can_write` is null unless it is known: from your Quilt role if you are an
    administrator, or from the write probe that the setting QUILT_MCP_PROBE_WRITES turns on. A bucket that could not be
    tried is `unknown`, never `no_access`; where neither probe is allowed, `can_read` is null, because an object whose
    key you know may still be readable. `sources` tells where the bucket names come from.
    """
    snapshot = take_snapshot()
    return {
        "user_identity": _identity(snapshot.identity),
        "bucket_permissions": [_row(bucket) for bucket in snapshot.buckets],
        "categorized_buckets": {level: _names(snapshot, level) for level in LEVELS},
        "recommendations": _purposes(snapshot),
        "sources": snapshot.sources,
        "total_buckets_checked": len(snapshot.buckets),
        "buckets_not_probed": snapshot.not_probed,
    }


def bucket_recommendations_get() -> dict[str, Any]:
    """Which buckets to create packages in: at most three that you may write, the best first, with the reasons.

    From the same probes as permissions://discover. `alternative_options` are the buckets that you may read;
    `write_unknown` names those among them for which it is not known whether you may write, and `access_unknown` the
    buckets that could not be tried.
    """
    snapshot = take_snapshot()
    writable = sorted(_writable(snapshot), key=lambda one: (-_score(one), one.name))
    primary = writable[:MOST_RECOMMENDED]
    readable = [bucket for bucket in snapshot.buckets if bucket.can_read]
    return {
        "operation_type": "package_creation",
        "recommendations": {
            "primary_recommendations": [_recommendation(bucket) for bucket in primary],
            "alternative_options": [_alternative(bucket) for bucket in readable if bucket not in primary],
            "write_unknown": [bucket.name for bucket in readable if bucket.can_write is None],
            "access_unknown": _names(snapshot, "unknown"),
            "recommendation_criteria": {"scoring_factors": FACTORS, "ties": "by name"},
        },
        "total_writable_buckets": len(writable),
        "total_accessible_buckets": len(readable),
    }


def _identity(answer: dict[str, Any]) -> dict[str, Any]:
    """STS's answer with its ARN taken apart: for an assumed role, `user_name` is the session's name."""
    kind, _, path = answer["Arn"].split(":", 5)[5].partition("/")
    role, _, session = path.partition("/")
    is_session = kind == "assumed-role"
    return {
        "user_id": answer["UserId"],
        "arn": answer["Arn"],
        "account_id": answer["Account"],
        "user_type": USER_TYPES.get(kind, kind),
        "user_name": session if is_session else path.rpartition("/")[2] or None,
        "role_name": role if is_session else None,
    }


def _row(bucket: BucketAccess) -> dict[str, Any]:
    return {
        "name": bucket.name,
        "region": bucket.region,
        "permission_level": bucket.level,
        "can_list": bucket.can_list,
        "can_read": bucket.can_read,
        "can_write": bucket.can_write,
        "named_by": list(bucket.named_by),
        "error_message": bucket.error,
    }


def _names(snapshot: Snapshot, level: str) -> list[str]:
    return [bucket.name for bucket in snapshot.buckets if bucket.level == level]


def _purposes(snapshot: Snapshot) -> dict[str, list[str]]:
    writable = _writable(snapshot)
    lasting = [bucket for bucket in writable if not _words(bucket) & TEMPORARY_WORDS]
    return {
        "package_creation": [bucket.name for bucket in lasting if "registry" in bucket.named_by],
        "data_storage": [bucket.name for bucket in lasting],
        "temporary_storage": [bucket.name for bucket in writable if bucket not in lasting],
    }


def _writable(snapshot: Snapshot) -> list[BucketAccess]:
    """What may be listed, read and written: a role may tell a right to write also for a bucket that is closed."""
    return [bucket for bucket in snapshot.buckets if bucket.level == "full_access"]


def _words(bucket: BucketAccess) -> set[str]:
    return set(bucket.name.replace(".", "-").split("-"))


def _reasons(bucket: BucketAccess) -> list[str]:
    facts = {
        "writable": bool(bucket.can_write),
        "in the stack": "registry" in bucket.named_by,
        "name speaks of packages": bool(_words(bucket) & REGISTRY_WORDS),
        "not for temporary data": not _words(bucket) & TEMPORARY_WORDS,
    }
    return [factor for factor in FACTORS if facts[factor]]


def _score(bucket: BucketAccess) -> int:
    return sum(FACTORS[factor] for factor in _reasons(bucket))


def _recommendation(bucket: BucketAccess) -> dict[str, Any]:
    return {
        "bucket_name": bucket.name,
        "permission_level": bucket.level,
        "score": _score(bucket),
        "rationale": _reasons(bucket),
        "region": bucket.region,
    }


def _alternative(bucket: BucketAccess) -> dict[str, Any]:
    return {"bucket_name": bucket.name, "permission_level": bucket.level, "rationale": _reasons(bucket)}
