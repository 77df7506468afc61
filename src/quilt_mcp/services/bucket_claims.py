"""The claims about the caller's rights in a bucket, each with its evidence.

They follow from what S3 showed and what the stack states, without further calls. The evidence of a claim is a text that
names the source, the call and the result.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from quilt_mcp.services.bucket_probes import QUILT, ROOT, KeyResult, Probe, TriedKey
from quilt_mcp.services.bucket_statements import Statement

Claim = bool | Literal["some"] | None
"""A right in a bucket: yes, no, for a part of the bucket, or unknown."""
Level = Literal["full_access", "read_or_more", "read_only", "list_only", "no_access", "unknown"]
MEANINGS: Mapping[Level, str] = {
    "full_access": "You may read and write.",
    "read_or_more": "You may read. Whether you may write is not known for the whole bucket.",
    "read_only": "You may read, and not write.",
    "list_only": "You may list the bucket. S3 refused to read what was tried.",
    "no_access": "S3 refused the list, so no right is proven.",
    "unknown": "What you may do is unknown.",
}
WriteProof = Literal["verified", "stated", "unverified", "no"]

UNTRIED = "other prefixes were not tried"
STORES_NOTHING = "allowed; the condition failed, so nothing is stored"


class Claims(NamedTuple):
    """The caller's rights in one bucket, each with its evidence.

    Attributes:
        refuses_reads: whether S3 refused to read a key that exists.
        write_proof: how well a right to write is proven: "verified" by S3, "stated" by the stack, "unverified" if
            nothing is known, "no" if there is none.
        is_doubtful: whether writing will probably fail: the stack states a right to read, and none to write, or S3
            refused the put of the write probe, or every read.
    """

    can_list: Claim
    list_evidence: str
    can_read: Claim
    read_evidence: str
    can_write: Claim
    write_evidence: str
    refuses_reads: bool = False
    write_proof: WriteProof = "unverified"
    is_doubtful: bool = False

    @property
    def level(self) -> Level:
        """The rights in one word; `permissions://discover` defines the words."""
        if self.can_list is None:
            return "unknown"
        if self.can_read:
            if self.can_write is False:
                return "read_only"
            return "full_access" if self.can_read is True and self.can_write is True else "read_or_more"
        if self.can_list is False:
            return "unknown" if self.can_write else "no_access"
        return "list_only" if self.refuses_reads else "unknown"

    @property
    def explanation(self) -> str:
        """What the level means, and the evidence that decides between it and the next one."""
        deciding = {"list_only": self.read_evidence, "no_access": self.list_evidence, "unknown": self.list_evidence}
        return f"{MEANINGS[self.level]} {deciding.get(self.level, self.write_evidence)}."


def judge(probe: Probe, statement: Statement) -> Claims:
    reads, writes = judge_reads(probe), _judge_writes(probe, statement)
    (can_read, _), (can_write, _) = reads, writes
    refuses_reads, refuses_put = bool(_refused(probe)), probe.put is not None and probe.put.is_allowed is False
    is_doubtful = statement.level in ("READ", "none") or refuses_put or (refuses_reads and not can_read)
    proof: WriteProof = "unverified" if can_write is None else "no"
    if can_write:
        proof = "verified" if probe.put else "stated"
    return Claims(*judge_list(probe), *reads, *writes, refuses_reads, proof, is_doubtful)


def judge_list(probe: Probe) -> tuple[Claim, str]:
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
    listing, read, refused = probe.listing, _select(probe.tried, "read"), _refused(probe)
    counted = [key for key in probe.tried if key.result not in ("missing", "failed")]
    if listing is None:
        return _judge_unlisted(probe), f"not tried: {_explain_no_key(probe)}"
    if not (counted or _select(probe.tried, "failed")):
        return None, f"not tried: {_explain_no_key(probe)}"
    evidence = "; ".join([f"HeadObject: {len(read)} of {_count(counted)} read", *_describe_others(probe)])
    if read:
        is_whole = len(read) == len(counted) and listing.root and not listing.refused
        return (True if is_whole else "some"), evidence
    if not refused:
        return None, evidence
    if listing.has_all_keys and {tried.key for tried in refused} == set(listing.keys):
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
        texts.append(f"refused {_locate(refused)}")
    if unproven := _select(probe.tried, "unproven"):
        texts.append(f"unproven {_locate(unproven)}, because S3 sent no checksum of an object under a KMS key")
    if archived := _select(probe.tried, "archived"):
        texts.append(f"archived {_locate(archived)}: restore these objects before you read them")
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
    listing = probe.listing
    has_no_prefix = listing is not None and listing.is_complete and set(listing.prefixes) <= {ROOT}
    if prefix == ROOT and has_no_prefix and not _refused(probe):
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
    if not _select((tried for tried in probe.tried if tried.key.prefix == prefix), "read"):
        return None, f"{refused}, but without the right to read S3 can refuse the condition; {UNTRIED}"
    return None, f"{refused}; {UNTRIED}"


def _find_doubt(probe: Probe) -> str | None:
    """Find why a put with data could be refused. S3 may not check the KMS key of a put that stores nothing."""
    if any(key.is_under_kms for key in probe.tried):
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
    if probe.listing is None:
        return None
    if not probe.listing.root:
        return "S3 refuses to list the bucket"
    if probe.listing.refused:
        return f"S3 refuses the list {name_prefixes(probe.listing.refused)}"
    if refused := _refused(probe):
        return f"S3 refused {'some reads' if _select(probe.tried, 'read') else 'every read'}, {_locate(refused)}"
    return None


def name_prefixes(prefixes: Iterable[str]) -> str:
    """Name prefixes in a text, such as `under data/, runs/`."""
    different = sorted(set(prefixes))
    parts = [f"under {', '.join(prefix for prefix in different if prefix)}"] if any(different) else []
    return " and ".join([*parts, *(["at the root"] if ROOT in different else [])])


def _locate(tried: Iterable[TriedKey]) -> str:
    return name_prefixes(tried_key.key.prefix for tried_key in tried)


def _select(tried: Iterable[TriedKey], result: KeyResult) -> list[TriedKey]:
    return [key for key in tried if key.result == result]


def _refused(probe: Probe) -> list[TriedKey]:
    return _select(probe.tried, "refused")


def _count(keys: Sequence[object]) -> str:
    return f"{len(keys)} {'key' if len(keys) == 1 else 'keys'}"
