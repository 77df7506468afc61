"""Ranks buckets for a purpose by the evidence for the right to write."""

from collections.abc import Iterable

from quilt_mcp.services.bucket_access import BucketAccess, Snapshot
from quilt_mcp.services.bucket_claims import WriteProof
from quilt_mcp.services.bucket_listing import READ
from quilt_mcp.services.permissions_answers import Alternative, Recommendation, RecommendationsAnswer

TEMPORARY_WORDS = frozenset({"tmp", "temp", "temporary", "scratch", "sandbox"})
REGISTRY_WORDS = frozenset({"package", "packages", "registry", "quilt"})
FACTORS = {
    "writable": 40,
    "in the stack": 30,
    "name suggests packages": 20,
    "not for temporary data": 10,
}
MOST_RECOMMENDED, MOST_ALTERNATIVES = 3, 50
RANKS: tuple[WriteProof, ...] = ("verified", "stated", "unverified")
TIES = "by name"
NO_CANDIDATE = (
    "There is no bucket to try among those that the Quilt stack and the AWS account list for you. If you know the name "
    "of another bucket, read permissions://buckets/{bucket}/access."
)
NOT_ALL_READ = (
    "It is not known whether there is a bucket to try, because not all of them could be read: see `sources`, "
    "`not_probed_note` and `access_unknown`. If you know the name of a bucket, read permissions://buckets/{bucket}/access."
)
NOT_TRIED = (
    "It is not known whether you may write to any of these buckets, so they are sorted by `score`, then by name. With "
    "the setting QUILT_MCP_PROBE_WRITES=true, this server tries each of them, stores nothing, and ranks the proven "
    "ones first."
)


def recommend_buckets(snapshot: Snapshot) -> RecommendationsAnswer:
    """Return the recommendations for the buckets of a snapshot."""
    candidates = rank_candidates(snapshot)
    primary = candidates[:MOST_RECOMMENDED]
    outside = _sort(bucket for bucket in snapshot.buckets if _is_candidate(bucket) and not _suits(snapshot, bucket))
    readable = [bucket for bucket in snapshot.buckets if bucket.claims.can_read]
    ranked = {bucket.name: bucket for bucket in [*candidates, *outside, *readable]}  # each once
    others = [bucket for bucket in ranked.values() if bucket not in primary]
    access_unknown = [bucket.name for bucket in snapshot.buckets if bucket.error is not None]
    has_any = READ in snapshot.sources.values()
    writable = [bucket for bucket in snapshot.buckets if bucket.claims.can_write]
    return {
        "operation_type": "package_creation",
        "recommendations": {
            "primary_recommendations": [_recommendation(bucket) for bucket in primary],
            "alternative_options": [_alternative(bucket) for bucket in others[:MOST_ALTERNATIVES]],
            "alternatives_not_listed": max(0, len(others) - MOST_ALTERNATIVES),
            "write_unknown": [
                bucket.name
                for bucket in snapshot.buckets
                if bucket.claims.can_list and bucket.error is None and bucket.claims.can_write is None
            ],
            "access_unknown": access_unknown,
            "recommendation_criteria": {"ranks": list(RANKS), "scoring_factors": dict(FACTORS), "ties": TIES},
            "note": _find_note(snapshot, candidates),
        },
        "total_writable_buckets": len(writable) if has_any else None,
        "total_accessible_buckets": len(readable) if has_any else None,
        "sources": snapshot.sources,
        "buckets_not_probed": snapshot.not_probed,
        "not_probed_note": snapshot.not_probed_note,
    }


def _find_note(snapshot: Snapshot, candidates: list[BucketAccess]) -> str | None:
    if not candidates:
        is_complete = snapshot.has_all_buckets and all(bucket.error is None for bucket in snapshot.buckets)
        return NO_CANDIDATE if is_complete else NOT_ALL_READ
    is_order_proven = len(candidates) == 1 or candidates[0].claims.write_proof != "unverified"
    return None if is_order_proven or snapshot.tries_writes else NOT_TRIED


def rank_candidates(snapshot: Snapshot) -> list[BucketAccess]:
    """Return the buckets that may be recommended, and that the caller can try to write to, the best first.

    Buckets that are probably the wrong choice are only returned if there are no others: those that the stack states as
    read-only, and those in which S3 refused the put of the write probe, or every read.
    """
    candidates = [bucket for bucket in snapshot.buckets if _is_candidate(bucket) and _suits(snapshot, bucket)]
    likely = [bucket for bucket in candidates if bucket.claims.can_write or not _is_doubtful(bucket)]
    return _sort(likely or candidates)


def _sort(candidates: Iterable[BucketAccess]) -> list[BucketAccess]:
    return sorted(candidates, key=lambda one: (RANKS.index(one.claims.write_proof), -_score(one), one.name))


def _suits(snapshot: Snapshot, bucket: BucketAccess) -> bool:
    """Return whether a candidate may be recommended: the catalog shows packages only in buckets of its stack.

    Another bucket can be one of query results, for example. It needs a proven right to write, or an unknown stack.
    """
    is_known = snapshot.sources.get("registry", READ) == READ
    return "registry" in bucket.named_by or not is_known or bucket.claims.write_proof == "verified"


def _is_candidate(bucket: BucketAccess) -> bool:
    is_known = bool(bucket.claims.can_list or bucket.claims.can_read)
    return is_known and bucket.claims.can_write is not False and bucket.error is None


def _is_doubtful(bucket: BucketAccess) -> bool:
    claims = bucket.claims
    return claims.states_read_only or claims.refuses_writes or (claims.refuses_reads and not claims.can_read)


def _split_name(bucket: BucketAccess) -> set[str]:
    return set(bucket.name.replace(".", "-").split("-"))


def _list_reasons(bucket: BucketAccess) -> list[str]:
    facts = {
        "writable": bool(bucket.claims.can_write),
        "in the stack": "registry" in bucket.named_by,
        "name suggests packages": bool(_split_name(bucket) & REGISTRY_WORDS),
        "not for temporary data": not _split_name(bucket) & TEMPORARY_WORDS,
    }
    return [factor for factor in FACTORS if facts[factor]]


def _score(bucket: BucketAccess) -> int:
    return sum(FACTORS[factor] for factor in _list_reasons(bucket))


def _recommendation(bucket: BucketAccess) -> Recommendation:
    return {**_alternative(bucket), "score": _score(bucket), "region": bucket.region}


def _alternative(bucket: BucketAccess) -> Alternative:
    claims = bucket.claims
    return {
        "bucket_name": bucket.name,
        "permission_level": bucket.level,
        "rationale": _list_reasons(bucket),
        "write": claims.write_proof,
        "evidence": [claims.write_evidence, claims.read_evidence],
    }
