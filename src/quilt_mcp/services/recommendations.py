"""permissions://recommendations: the buckets that suit new packages, the best first."""

from collections.abc import Iterable, Mapping
from typing import Literal

from typing_extensions import TypedDict

from quilt_mcp.services.bucket_claims import Level, WriteProof
from quilt_mcp.services.bucket_rights import READ, ProbedBucket, Snapshot, SourceName

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


class Alternative(TypedDict):
    """A bucket that is not among the first recommendations.

    Attributes:
        bucket: its name.
        permission_level: your rights in one word.
        rationale: the factors that it fulfils.
        write: how well a right to write is proven: "verified" by S3, "stated" by the Quilt stack, "unverified" if
            nothing is known, "no" if you have none.
        evidence: what is known about writing, and about reading.
        uri: the URI of your rights in the bucket, with everything that was asked.
    """

    bucket: str
    permission_level: Level
    rationale: list[str]
    write: WriteProof
    evidence: list[str]
    uri: str


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


def recommend_buckets(snapshot: Snapshot) -> RecommendationsAnswer:
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
            "primary_recommendations": [
                {**_alternative(bucket), "score": _score(bucket), "region": bucket.region} for bucket in primary
            ],
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


def _find_note(snapshot: Snapshot, candidates: list[ProbedBucket]) -> str | None:
    if not candidates:
        has_all = not snapshot.not_probed and all(state == READ for state in snapshot.sources.values())
        is_complete = has_all and all(bucket.error is None for bucket in snapshot.buckets)
        return NO_CANDIDATE if is_complete else NOT_ALL_READ
    is_order_proven = len(candidates) == 1 or candidates[0].claims.write_proof != "unverified"
    return None if is_order_proven or snapshot.tries_writes else NOT_TRIED


def rank_candidates(snapshot: Snapshot) -> list[ProbedBucket]:
    """Return the buckets that may be recommended, and that the caller can try to write to, the best first.

    Buckets that are probably the wrong choice are only returned if there are no others: those that the stack states as
    read-only, and those in which S3 refused the put of the write probe, or every read.
    """
    candidates = [bucket for bucket in snapshot.buckets if _is_candidate(bucket) and _suits(snapshot, bucket)]
    likely = [bucket for bucket in candidates if bucket.claims.can_write or not bucket.claims.is_doubtful]
    return _sort(likely or candidates)


def _sort(candidates: Iterable[ProbedBucket]) -> list[ProbedBucket]:
    return sorted(candidates, key=lambda bucket: (RANKS.index(bucket.claims.write_proof), -_score(bucket), bucket.name))


def _suits(snapshot: Snapshot, bucket: ProbedBucket) -> bool:
    """Return whether a candidate may be recommended: the catalog shows packages only in buckets of its stack.

    Another bucket can be one of query results, for example. It needs a proven right to write, or an unknown stack.
    """
    is_known = snapshot.sources.get("registry", READ) == READ
    return "registry" in bucket.named_by or not is_known or bucket.claims.write_proof == "verified"


def _is_candidate(bucket: ProbedBucket) -> bool:
    is_known = bool(bucket.claims.can_list or bucket.claims.can_read)
    return is_known and bucket.claims.can_write is not False and bucket.error is None


def _split_name(bucket: ProbedBucket) -> set[str]:
    return set(bucket.name.replace(".", "-").split("-"))


def _list_reasons(bucket: ProbedBucket) -> list[str]:
    facts = {
        "writable": bool(bucket.claims.can_write),
        "in the stack": "registry" in bucket.named_by,
        "name suggests packages": bool(_split_name(bucket) & REGISTRY_WORDS),
        "not for temporary data": not _split_name(bucket) & TEMPORARY_WORDS,
    }
    return [factor for factor in FACTORS if facts[factor]]


def _score(bucket: ProbedBucket) -> int:
    return sum(FACTORS[factor] for factor in _list_reasons(bucket))


def _alternative(bucket: ProbedBucket) -> Alternative:
    claims = bucket.claims
    return {
        "bucket": bucket.name,
        "permission_level": bucket.claims.level,
        "rationale": _list_reasons(bucket),
        "write": claims.write_proof,
        "evidence": [claims.write_evidence, claims.read_evidence],
        "uri": bucket.uri,
    }
