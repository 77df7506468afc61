"""permissions://buckets/{bucket}/access: the caller's rights in one bucket, with all evidence."""

import re
import time
from collections.abc import Iterator

from quilt_mcp.app import current_app
from quilt_mcp.core.errors import InvalidTemplateVariable, NotFound
from quilt_mcp.services.bucket_access import BucketAccess, assess, open_identity
from quilt_mcp.services.bucket_claims import ROOT, Claim, Statement, TriedKey
from quilt_mcp.services.bucket_listing import Buckets, list_buckets, open_reader
from quilt_mcp.services.bucket_survey import PrefixProbe, Survey, survey_bucket
from quilt_mcp.services.one_bucket_answers import BucketAccessAnswer, Collaborator, Evidence, PrefixRow
from quilt_mcp.services.permissions_answers import UserIdentity
from quilt_mcp.services.permissions_service import describe_rights, parse_identity
from quilt_mcp.services.registry_rights import fetch_names, state_rights
from quilt_mcp.services.settings import QuiltSettings
from quilt_mcp.services.stack.callers import current_caller

BUCKET_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{2,127}")


def list_stack_buckets(prefix: str) -> list[str]:
    """List the names of the stack's buckets that start with a prefix."""
    return [name for name in fetch_names(current_caller()) if name.startswith(prefix)]


def bucket_access_get(bucket: str) -> BucketAccessAnswer:
    """Your rights in one bucket and its prefixes, with evidence.

    The rights are to list, read and write. Works for any bucket name or access point alias, whether or not the stack or
    the account lists it. Lists up to eight first-level prefixes, asks for keys of different folders under each, and
    stores nothing; at most 20 calls to AWS. A write probe is one put in the whole bucket. Its evidence names the
    prefix, for which alone it is a proof. The rights and their evidence have the same meaning as in
    permissions://discover.

    Args:
        bucket: its name, without `s3://`.

    Raises:
        InvalidTemplateVariable: no bucket can have this name.
        NotFound: S3 has no such bucket.
        ResourceFailure: AWS or the stack does not say who the caller is, or S3 neither allows nor refuses the list.
    """
    check_bucket_name(bucket)
    settings = current_app().settings_as(QuiltSettings)
    reader, until = open_reader(current_caller()), time.monotonic() + settings.probe_seconds
    identity = open_identity(reader)
    seconds = (until - time.monotonic()) / 2
    listed = list_buckets(reader, prefix=bucket, seconds=seconds)
    try:
        survey = survey_bucket(reader.aws, bucket, writes=settings.probe_writes, seconds=until - time.monotonic())
    except NotFound as missing:
        raise _make_not_found(bucket, listed, missing) from missing
    statements = state_rights(listed.stack, reader.standing, listed.role, identity["Arn"])
    access = assess(bucket, survey.probe, listed, statements)
    who = parse_identity(identity, reader.aws.find_replacement("sts"))
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


def _make_not_found(bucket: str, listed: Buckets, missing: NotFound) -> NotFound:
    where = "The Quilt stack lists it, but S3 has no such bucket." if listed.find_sources(bucket) else None
    return NotFound(
        f"There is no bucket {bucket} in S3.",
        details=where or missing.details,
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
        "evidence": [*_list_s3_evidence(survey), _make_stack_evidence(statement)],
    }


def _list_collaborators(listed: Buckets, bucket: str) -> list[Collaborator] | None:
    """Return the users whom the stack names as those who may use a bucket; None if it does not say."""
    found = (listed.stack.collaborators or {}).get(bucket)
    return None if found is None else [{"name": name, "right": right} for name, right in sorted(found.items())]


def _describe_prefix(one: PrefixProbe) -> PrefixRow:
    if one.tried:
        evidence = "; ".join(f"HeadObject of {key.key.name}: {_describe_result(key)}" for key in one.tried)
    elif one.is_listed:
        evidence = "not tried: the list contains no key"
    else:
        evidence = f"not tried: {one.reason or 'S3 refuses the list'}"
    results = {key.result for key in one.tried} - {"missing", "failed"}
    can_read: Claim = {frozenset({"read"}): True, frozenset({"refused"}): False}.get(frozenset(results))
    if can_read is None and "read" in results:
        can_read = "some"
    return {"prefix": one.prefix, "can_list": one.is_listed, "can_read": can_read, "read_evidence": evidence}


def _describe_result(key: TriedKey) -> str:
    return f"{key.result} ({key.reason})" if key.reason else key.result


def _list_s3_evidence(survey: Survey) -> Iterator[Evidence]:
    yield _make_evidence("ListObjectsV2", ROOT, "allowed" if survey.listing.root else "refused")
    for one in survey.prefixes:
        if one.prefix != ROOT:
            result = {True: "allowed", False: "refused", None: "failed"}[one.is_listed]
            yield _make_evidence("ListObjectsV2", one.prefix, result, one.reason)
        for key in one.tried:
            yield _make_evidence("HeadObject", key.key.name, key.result, key.reason)
    if put := survey.probe.put:
        result = {True: "allowed", False: "refused", None: "failed"}[put.is_allowed]
        yield _make_evidence("PutObject", put.prefix, result, put.reason)


def _make_stack_evidence(statement: Statement) -> Evidence:
    call = {"role": "rolesList", "collaborators": "stackBuckets", "registry": "stackBuckets"}[statement.source]
    level, detail = statement.level or "unknown", statement.evidence
    return {"source": statement.source, "call": call, "target": None, "result": level, "detail": detail}


def _make_evidence(call: str, target: str, result: str, detail: str | None = None) -> Evidence:
    return {"source": "s3", "call": call, "target": target, "result": result, "detail": detail}
