"""Decides which rights in a bucket the calls to S3 and the statements of the Quilt stack prove.

Only pure functions. Each claim comes with its evidence: a text that names the source, the call and the result.
"""

from collections.abc import Iterable, Sequence

from quilt_mcp.services.bucket_claims import (
    QUILT,
    ROOT,
    Claim,
    Claims,
    KeyResult,
    Probe,
    Put,
    Statement,
    TriedKey,
    WriteProof,
)

UNTRIED = "other prefixes were not tried"
STORES_NOTHING = "allowed; the condition failed, so nothing is stored"


def judge(probe: Probe, statement: Statement) -> Claims:
    """Decide what a probe and a statement prove."""
    can_list, list_evidence = judge_list(probe)
    can_read, read_evidence = judge_reads(probe)
    can_write, write_evidence = _judge_writes(probe, statement)
    return Claims(
        can_list,
        list_evidence,
        can_read,
        read_evidence,
        can_write,
        write_evidence,
        refuses_reads=bool(_refused(probe)),
        refuses_writes=probe.put is not None and probe.put.is_allowed is False,
        write_proof=_name_proof(can_write, probe.put),
        states_read_only=statement.level in ("READ", "none"),
    )


def _name_proof(can_write: Claim, put: Put | None) -> WriteProof:
    if not can_write:
        return "unverified" if can_write is None else "no"
    return "verified" if put else "stated"


def judge_list(probe: Probe) -> tuple[Claim, str]:
    """Decide whether the caller may list the bucket."""
    listing = probe.listing
    if listing is None:
        return _judge_unlisted(probe), f"not probed: {_explain_no_key(probe)}"
    if listing.root and listing.refused:
        return "some", f"ListObjectsV2: allowed at the root, refused {name_prefixes(listing.refused)}"
    if listing.root:
        return True, "ListObjectsV2: allowed"
    if listing.quilt:
        return "some", f"ListObjectsV2: refused at the root, allowed under {QUILT}"
    return False, f"ListObjectsV2: refused, also under {QUILT}"


def _judge_unlisted(probe: Probe) -> Claim:
    """Return what every right is in a bucket that was not listed: there is none in a bucket that does not exist."""
    return False if probe.cause == "missing" else None


def judge_reads(probe: Probe) -> tuple[Claim, str]:
    """Decide whether the caller may read the objects of the bucket."""
    listing, read, refused = probe.listing, _select(probe.tried, "read"), _refused(probe)
    counted = [one for one in probe.tried if one.result not in ("missing", "failed")]
    if listing is None or not (counted or _select(probe.tried, "failed")):
        return (_judge_unlisted(probe) if listing is None else None), f"not tried: {_explain_no_key(probe)}"
    evidence = "; ".join([f"HeadObject: {len(read)} of {_count(counted)} read", *_describe_others(probe)])
    if read:
        is_whole = len(read) == len(counted) and listing.root and not listing.refused
        return (True if is_whole else "some"), evidence
    if not refused:
        return None, evidence
    if listing.has_all_keys and {one.key for one in refused} == set(listing.keys):
        return False, evidence
    return None, f"{evidence}; other keys can be readable"


def _explain_no_key(probe: Probe) -> str:
    listing = probe.listing
    if listing is None:
        return str(probe.error).removesuffix(".")
    if probe.tried:
        return "every key that was listed has been deleted since"
    if not listing.root:
        return "no key is known, because S3 refuses the list" + (f", and {QUILT} is empty" if listing.quilt else "")
    return "the bucket is empty" if listing.is_complete else "the list contains no key"


def _describe_others(probe: Probe) -> list[str]:
    texts = []
    if refused := _refused(probe):
        texts.append(f"refused {name_prefixes(one.key.prefix for one in refused)}")
    if unproven := _select(probe.tried, "unproven"):
        where = name_prefixes(one.key.prefix for one in unproven)
        texts.append(f"unproven {where}, because S3 sent no checksum of an object under a KMS key")
    if archived := _select(probe.tried, "archived"):
        where = name_prefixes(one.key.prefix for one in archived)
        texts.append(f"archived {where}: restore these objects before you read them")
    if failed := _select(probe.tried, "failed"):
        texts.append(f"{_count(failed)} not read: {failed[0].reason}")
    if probe.listing and not probe.listing.root:
        texts.append(f"only keys under {QUILT} are known")
    if probe.listing and probe.listing.refused:
        texts.append(f"no key tried {name_prefixes(probe.listing.refused)}, because S3 refuses the list")
    return texts


def _judge_writes(probe: Probe, statement: Statement) -> tuple[Claim, str]:
    """Decide whether the caller may write. A put proves its own prefix; only the stack can state the whole bucket."""
    stated, evidence = _judge_statement(probe, statement)
    put = probe.put
    if put is None:
        return stated, evidence
    if put.is_allowed:
        return _judge_allowed_put(probe, put.prefix, statement if stated is True else None)
    if put.is_allowed is False:
        return _judge_refused_put(probe, put.prefix, statement if stated is False else None)
    return None, f"PutObject {name_prefixes([put.prefix])}: {put.reason}"


def _judge_allowed_put(probe: Probe, prefix: str, right: Statement | None) -> tuple[Claim, str]:
    """Decide what an allowed put proves. `right` is the statement of a right to write in the whole bucket."""
    where = name_prefixes([prefix])
    if doubt := _find_doubt(probe):
        return None, f"PutObject {where}: allowed; but {doubt}"
    if right:
        return True, f"PutObject {where}: {STORES_NOTHING}; {right.evidence}"
    if prefix == ROOT and _has_no_prefix(probe) and not _refused(probe):
        return True, f"PutObject {where}: {STORES_NOTHING}"
    return "some", f"PutObject {where}: {STORES_NOTHING}; {UNTRIED}"


def _judge_refused_put(probe: Probe, prefix: str, no_right: Statement | None) -> tuple[Claim, str]:
    """Decide what a refused put proves. `no_right` is the statement that there is no right to write.

    Without it, a refused put does not exclude other puts: under another prefix, which may not exist yet, or without the
    condition, for which S3 needs `s3:GetObject` too, and which the policy of the bucket can refuse.
    """
    refused = f"PutObject {name_prefixes([prefix])}: refused"
    if no_right:
        return False, f"{refused}; {no_right.evidence}"
    if probe.listing is None or not probe.listing.root:
        return None, f"{refused}, but without the right to list S3 can refuse for a missing key too"
    if not _select((one for one in probe.tried if one.key.prefix == prefix), "read"):
        return None, f"{refused}, but without the right to read S3 can refuse the condition; {UNTRIED}"
    return None, f"{refused}; {UNTRIED}"


def _has_no_prefix(probe: Probe) -> bool:
    """Return whether all keys of a bucket are at the root."""
    listing = probe.listing
    return listing is not None and listing.is_complete and set(listing.prefixes) <= {ROOT}


def _find_doubt(probe: Probe) -> str | None:
    """Find why a put with data could be refused. S3 may not check the KMS key of a put that stores nothing."""
    if any(one.is_under_kms for one in probe.tried):
        return "objects are under a KMS key, and the right to encrypt with it cannot be tried without storing one"
    if _refused(probe) and not _select(probe.tried, "read"):
        return "S3 refused every read, so a KMS key or a policy that the put does not test can refuse data"
    return None


def _judge_statement(probe: Probe, statement: Statement) -> tuple[Claim, str]:
    if probe.listing is None and probe.cause != "late":
        return _judge_unlisted(probe), f"not tried: {_explain_no_key(probe)}; {statement.evidence}"
    if statement.level is None:
        reason = "QUILT_MCP_PROBE_WRITES is off" if probe.listing else _explain_no_key(probe)
        return None, f"not tried: {reason}, and {statement.evidence}"
    if statement.level != "none" and (contradiction := _find_contradiction(probe)):
        return None, f"{statement.evidence}; but {contradiction}"
    return statement.can_write, f"{statement.evidence}; not tried in S3"


def _find_contradiction(probe: Probe) -> str | None:
    """Find what S3 refused although the stack states a right in the bucket."""
    if probe.listing is None:
        return None
    if not probe.listing.root:
        return "S3 refuses to list the bucket"
    if probe.listing.refused:
        return f"S3 refuses the list {name_prefixes(probe.listing.refused)}"
    if refused := _refused(probe):
        where = name_prefixes(one.key.prefix for one in refused)
        return f"S3 refused {'some reads' if _select(probe.tried, 'read') else 'every read'}, {where}"
    return None


def name_prefixes(prefixes: Iterable[str]) -> str:
    """Name prefixes in a text, such as `under data/, runs/`."""
    different = sorted(set(prefixes))
    parts = [f"under {', '.join(one for one in different if one)}"] if any(different) else []
    return " and ".join([*parts, *(["at the root"] if ROOT in different else [])])


def _select(tried: Iterable[TriedKey], result: KeyResult) -> list[TriedKey]:
    return [one for one in tried if one.result == result]


def _refused(probe: Probe) -> list[TriedKey]:
    return _select(probe.tried, "refused")


def _count(keys: Sequence[object]) -> str:
    return f"{len(keys)} {'key' if len(keys) == 1 else 'keys'}"
