"""permissions://buckets/{bucket}/access: the caller's rights in one bucket, prefix by prefix."""

import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Literal

from typing_extensions import TypedDict

from quilt_mcp.app import current_app
from quilt_mcp.core.errors import InvalidTemplateVariable, NotFound
from quilt_mcp.services.bucket_claims import Claim
from quilt_mcp.services.bucket_people import People, find_people
from quilt_mcp.services.bucket_probes import ROOT, PrefixProbe, Survey, survey_bucket
from quilt_mcp.services.bucket_rights import (
    ListedBuckets,
    ProbedBucket,
    SourceName,
    assess,
    list_known_buckets,
    open_rights_reader,
)
from quilt_mcp.services.bucket_statements import Statement, StatementSource, state_rights
from quilt_mcp.services.buckets import fetch_bucket_names
from quilt_mcp.services.permissions_service import BucketRights, UserIdentity, describe_rights, parse_identity
from quilt_mcp.services.settings import QuiltSettings
from quilt_mcp.services.stack.callers import current_caller

BUCKET_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{2,127}")


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


class BucketAccessAnswer(BucketRights, People):
    """Your rights in one bucket, why you have them, and who else has some.

    Attributes:
        explanation: what you may do, and what shows it.
        user_identity: your AWS identity.
        in_stack: whether the Quilt stack shows you this bucket; null if its list could not be read.
        sources: as in permissions://discover.
        prefixes: the first-level prefixes that were tried: Quilt's own first, the others by name, the root last.
        prefixes_not_tried: the number of other first-level prefixes among the first 1000 keys and prefixes.
        prefixes_complete: whether the bucket has no more prefixes than those that are counted here.
        evidence: everything that was asked.
    """

    explanation: str
    user_identity: UserIdentity
    in_stack: bool | None
    sources: Mapping[SourceName, str]
    prefixes: list[PrefixRow]
    prefixes_not_tried: int
    prefixes_complete: bool
    evidence: list[Evidence]


def list_stack_buckets(prefix: str) -> list[str]:
    return [name for name in fetch_bucket_names(current_caller()) if name.startswith(prefix)]


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
    reader = open_rights_reader()
    listed = list_known_buckets(reader, prefix=bucket)
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
    who = parse_identity(reader.identity, reader.aws.find_replacements())
    seconds = reader.until - time.monotonic()
    people = find_people(reader, listed, bucket, seconds=seconds)
    return _describe(access, who, listed, survey, statements.find(bucket), people=people)


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
    access: ProbedBucket,
    who: UserIdentity,
    listed: ListedBuckets,
    survey: Survey,
    statement: Statement,
    *,
    people: People,
) -> BucketAccessAnswer:
    is_read = listed.sources["registry"] == "read"
    return {
        **describe_rights(access),
        "explanation": access.claims.explanation,
        **people,
        "user_identity": who,
        "in_stack": "registry" in access.named_by if is_read else None,
        "sources": listed.sources,
        "prefixes": [_describe_prefix(probed) for probed in survey.prefixes],
        "prefixes_not_tried": len(set(survey.listing.prefixes) - {probed.prefix for probed in survey.prefixes}),
        "prefixes_complete": survey.listing.is_complete,
        "evidence": [*_list_s3_evidence(survey), _make_stack_evidence(statement, access.claims.write_evidence)],
    }


def _describe_prefix(probed: PrefixProbe) -> PrefixRow:
    if probed.tried:
        counts = Counter(key.result for key in probed.tried)
        evidence = "HeadObject: " + ", ".join(f"{count} {result}" for result, count in counts.items())
    elif probed.is_listed:
        evidence = "not tried: the list contains no key"
    else:
        evidence = f"not tried: {probed.reason or 'S3 refuses the list'}"
    results = {key.result for key in probed.tried} - {"missing", "failed"}
    can_read: Claim = False if results == {"refused"} else None
    if "read" in results:
        can_read = True if results == {"read"} else "some"
    return {"prefix": probed.prefix, "can_list": probed.is_listed, "can_read": can_read, "read_evidence": evidence}


def _list_s3_evidence(survey: Survey) -> Iterator[Evidence]:
    words = {True: "allowed", False: "refused", None: "failed"}
    yield _make_evidence("ListObjectsV2", ROOT, words[survey.listing.root])
    for probed in survey.prefixes:
        if probed.prefix != ROOT:
            yield _make_evidence("ListObjectsV2", probed.prefix, words[probed.is_listed], probed.reason)
        for tried in probed.tried:
            yield _make_evidence("HeadObject", tried.key.name, tried.result, tried.reason)
    if put := survey.probe.put:
        yield _make_evidence("PutObject", put.prefix, words[put.is_allowed], put.reason)


def _make_stack_evidence(statement: Statement, said: str) -> Evidence:
    call = {"role": "rolesList", "collaborators": "stackBuckets", "registry": "stackBuckets"}[statement.source]
    level, detail = statement.level or "unknown", None if statement.evidence in said else statement.evidence
    return {"source": statement.source, "call": call, "target": None, "result": level, "detail": detail}


def _make_evidence(call: str, target: str, result: str, detail: str | None = None) -> Evidence:
    return {"source": "s3", "call": call, "target": target, "result": result, "detail": detail}
