"""permissions://: the caller's rights in each bucket and in one, and buckets that suit new packages."""

import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from typing_extensions import TypedDict

from quilt_mcp.app import current_app
from quilt_mcp.core.errors import InvalidTemplateVariable, NotFound
from quilt_mcp.services.buckets import (
    READ,
    BucketAccess,
    Buckets,
    CallerIdentity,
    Snapshot,
    SourceName,
    assess,
    fetch_names,
    list_buckets,
    open_reader,
    probe_page,
    state_rights,
    take_snapshot,
)
from quilt_mcp.services.evidence import (
    ROOT,
    Claim,
    Level,
    PrefixProbe,
    Statement,
    StatementSource,
    Survey,
    WriteProof,
    survey_bucket,
)
from quilt_mcp.services.pages import Paged, cut_page
from quilt_mcp.services.settings import QuiltSettings
from quilt_mcp.services.stack.callers import current_caller


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


class PrefixRow(TypedDict):
    """Your rights under one first-level prefix.

    Attributes:
        prefix: the prefix, such as `data/`; empty for the objects at the root.
        can_list: whether S3 allowed the list; null if the call failed.
        can_read: of the one to five keys that were tried, true: S3 let you read all; "some": some; false: none; null:
            no key was tried, or the results prove nothing.
        read_evidence: how many keys were read, or why none was tried. `evidence` has the result for each key.
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
        detail: what else is known; null if nothing, or if `write_evidence` says it.
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


def _find_note(snapshot: Snapshot, candidates: list[BucketAccess]) -> str | None:
    if not candidates:
        has_all = not snapshot.not_probed and all(state == READ for state in snapshot.sources.values())
        is_complete = has_all and all(bucket.error is None for bucket in snapshot.buckets)
        return NO_CANDIDATE if is_complete else NOT_ALL_READ
    is_order_proven = len(candidates) == 1 or candidates[0].claims.write_proof != "unverified"
    return None if is_order_proven or snapshot.tries_writes else NOT_TRIED


def rank_candidates(snapshot: Snapshot) -> list[BucketAccess]:
    """Return the buckets that may be recommended, and that the caller can try to write to, the best first.

    Buckets that are probably the wrong choice are only returned if there are no others: those that the stack states as
    read-only, and those in which S3 refused the put of the write probe, or every read.
    """
    candidates = [bucket for bucket in snapshot.buckets if _is_candidate(bucket) and _suits(snapshot, bucket)]
    likely = [bucket for bucket in candidates if bucket.claims.can_write or not bucket.claims.is_doubtful]
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


def _alternative(bucket: BucketAccess) -> Alternative:
    claims = bucket.claims
    return {
        "bucket_name": bucket.name,
        "permission_level": bucket.claims.level,
        "rationale": _list_reasons(bucket),
        "write": claims.write_proof,
        "evidence": [claims.write_evidence, claims.read_evidence],
    }


MAX_LIMIT = 500
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


def discover_permissions(cursor: str | None = None, limit: str | None = None) -> PermissionsAnswer:
    """Your AWS identity and bucket rights.

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
    reader = open_reader()
    listed = list_buckets(reader)
    in_stack = frozenset(listed.stack.names)
    page = cut_page(
        listed.names,
        lambda name: f"{'a' if name in in_stack else 'b'}{name}",
        cursor=cursor,
        limit=limit,
        scope=("permissions", reader.caller.login.stack.registry_url, reader.identity["Arn"]),
        largest=MAX_LIMIT,
    )
    rows = [describe_rights(bucket) for bucket in probe_page(reader, listed, page.rows)]
    return {
        "user_identity": parse_identity(reader.identity, reader.aws.find_sts_replacement()),
        "bucket_permissions": rows,
        "shared_evidence": _share_evidence(rows),
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


def parse_identity(identity: CallerIdentity, replacement: str | None = None) -> UserIdentity:
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
        "error_message": bucket.error,
    }


BUCKET_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{2,127}")


def list_stack_buckets(prefix: str) -> list[str]:
    return [name for name in fetch_names(current_caller()) if name.startswith(prefix)]


def bucket_access_get(bucket: str) -> BucketAccessAnswer:
    """Your rights in a bucket, with evidence.

    The rights are to list, read and write. Works for any bucket name or access point alias, whether or not the stack or
    the account lists it. Lists up to eight first-level prefixes, asks for keys of different folders under each, and
    stores nothing; at most 20 calls to AWS. A write probe is one put in the whole bucket. Its evidence names the
    prefix, for which alone it is a proof. The rights and their evidence have the same meaning as in
    permissions://discover.
    """
    check_bucket_name(bucket)
    writes = current_app().settings_as(QuiltSettings).probe_writes
    reader = open_reader()
    listed = list_buckets(reader, prefix=bucket)
    try:
        survey = survey_bucket(reader.aws, bucket, writes=writes, seconds=reader.until - time.monotonic())
    except NotFound as missing:
        where = "The Quilt stack lists it, but S3 has no such bucket." if listed.find_sources(bucket) else None
        raise NotFound(
            f"There is no bucket {bucket} in S3.",
            details=where or missing.details,
            suggested_actions=["Read permissions://discover to see the names of your buckets."],
        ) from missing
    statements = state_rights(listed.stack, reader.standing, listed.role, reader.identity["Arn"])
    access = assess(bucket, survey.probe, listed, statements)
    who = parse_identity(reader.identity, reader.aws.find_sts_replacement())
    return _describe(access, who, listed, survey, statements.find(bucket))


def check_bucket_name(bucket: str) -> None:
    """Check that a bucket can have a name.

    Raises:
        InvalidTemplateVariable: no bucket can.
    """
    if not BUCKET_NAME.fullmatch(bucket):
        raise InvalidTemplateVariable(
            f"{bucket!r} is not the name of a bucket.",
            details="Names have at least 3 characters of A-Z a-z 0-9 . _ - and start with a letter or a digit.",
            suggested_actions=["Read permissions://discover to see the names of your buckets."],
        )


def _describe(
    access: BucketAccess, who: UserIdentity, listed: Buckets, survey: Survey, statement: Statement
) -> BucketAccessAnswer:
    is_read = listed.sources["registry"] == "read"
    return {
        **describe_rights(access),
        "user_identity": who,
        "in_stack": "registry" in access.named_by if is_read else None,
        "sources": listed.sources,
        "prefixes": [_describe_prefix(one) for one in survey.prefixes],
        "prefixes_not_tried": len(set(survey.listing.prefixes) - {one.prefix for one in survey.prefixes}),
        "collaborators": _list_collaborators(listed, access.name),
        "prefixes_complete": survey.listing.is_complete,
        "evidence": [*_list_s3_evidence(survey), _make_stack_evidence(statement, access.claims.write_evidence)],
    }


def _list_collaborators(listed: Buckets, bucket: str) -> list[Collaborator] | None:
    found = (listed.stack.collaborators or {}).get(bucket)
    return None if found is None else [{"name": name, "right": right} for name, right in sorted(found.items())]


def _describe_prefix(one: PrefixProbe) -> PrefixRow:
    if one.tried:
        counts = Counter(key.result for key in one.tried)
        evidence = "HeadObject: " + ", ".join(f"{count} {result}" for result, count in counts.items())
    elif one.is_listed:
        evidence = "not tried: the list contains no key"
    else:
        evidence = f"not tried: {one.reason or 'S3 refuses the list'}"
    results = {key.result for key in one.tried} - {"missing", "failed"}
    can_read: Claim = False if results == {"refused"} else None
    if "read" in results:
        can_read = True if results == {"read"} else "some"
    return {"prefix": one.prefix, "can_list": one.is_listed, "can_read": can_read, "read_evidence": evidence}


def _list_s3_evidence(survey: Survey) -> Iterator[Evidence]:
    words = {True: "allowed", False: "refused", None: "failed"}
    yield _make_evidence("ListObjectsV2", ROOT, words[survey.listing.root])
    for one in survey.prefixes:
        if one.prefix != ROOT:
            yield _make_evidence("ListObjectsV2", one.prefix, words[one.is_listed], one.reason)
        for key in one.tried:
            yield _make_evidence("HeadObject", key.key.name, key.result, key.reason)
    if put := survey.probe.put:
        yield _make_evidence("PutObject", put.prefix, words[put.is_allowed], put.reason)


def _make_stack_evidence(statement: Statement, said: str) -> Evidence:
    call = {"role": "rolesList", "collaborators": "stackBuckets", "registry": "stackBuckets"}[statement.source]
    level, detail = statement.level or "unknown", None if statement.evidence in said else statement.evidence
    return {"source": statement.source, "call": call, "target": None, "result": level, "detail": detail}


def _make_evidence(call: str, target: str, result: str, detail: str | None = None) -> Evidence:
    return {"source": "s3", "call": call, "target": target, "result": result, "detail": detail}
