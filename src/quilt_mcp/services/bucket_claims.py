"""The results of calls to S3 and the Quilt stack for one bucket, and the claims that follow from them."""

from dataclasses import dataclass
from typing import Literal

Claim = bool | Literal["some"] | None
"""A right in a bucket: yes, no, for a part of the bucket, or unknown."""
KeyResult = Literal["read", "refused", "unproven", "archived", "missing", "failed"]
Cause = Literal["missing", "late", "other"]
"""Why a bucket was not listed: there is none, S3 was too busy or there was no time, or anything else."""
Level = Literal["full_access", "read_only", "list_only", "no_access", "unknown"]
StatedLevel = Literal["READ_WRITE", "READ", "none"]
StatementSource = Literal["role", "collaborators", "registry"]
WriteProof = Literal["verified", "stated", "unverified", "no"]

QUILT = ".quilt/"
ROOT = ""


@dataclass(frozen=True)
class Key:
    """A key that S3 listed."""

    name: str
    is_archived: bool = False

    @property
    def prefix(self) -> str:
        """The first-level prefix, such as `data/`; empty for a key at the root."""
        first, slash, _ = self.name.partition("/")
        return first + slash if slash else ROOT


@dataclass(frozen=True)
class Listing:
    """The results of the list calls.

    Attributes:
        root: whether S3 allowed the list of the root.
        quilt: whether S3 allowed the list under .quilt/, which is tried if it refused the list of the root.
        keys: the keys that were listed.
        prefixes: the first-level prefixes that are known to exist; the root is "".
        is_complete: whether these are all first-level prefixes of the bucket.
        has_all_keys: whether `keys` are all keys of the bucket.
        refused: the prefixes that S3 refused to list, although it listed the root.
    """

    root: bool
    quilt: bool = False
    keys: tuple[Key, ...] = ()
    prefixes: tuple[str, ...] = ()
    is_complete: bool = False
    has_all_keys: bool = False
    refused: tuple[str, ...] = ()


@dataclass(frozen=True)
class TriedKey:
    """An object that was asked for. `reason` says why the call failed."""

    key: Key
    result: KeyResult
    reason: str | None = None
    is_under_kms: bool = False


@dataclass(frozen=True)
class Put:
    """A put that must fail: where it was sent, whether S3 allowed it, and why it failed in another way."""

    prefix: str
    is_allowed: bool | None = None
    reason: str | None = None


@dataclass(frozen=True)
class Probe:
    """All that S3 showed about one bucket. `listing` is None if it was not listed; `error` and `cause` say why."""

    listing: Listing | None = None
    tried: tuple[TriedKey, ...] = ()
    put: Put | None = None
    region: str | None = None
    error: str | None = None
    cause: Cause = "late"


@dataclass(frozen=True)
class Statement:
    """The Quilt stack's statement about writing to one bucket.

    Attributes:
        evidence: what the stack states, or why nothing is known.
        level: the stated right; None if the stack states nothing that counts for the caller's AWS identity.
        can_write: what follows from it; None if the stated right may not be all.
        source: which part of the stack states it.
    """

    evidence: str
    level: StatedLevel | None = None
    can_write: bool | None = None
    source: StatementSource = "registry"


@dataclass(frozen=True)
class Claims:
    """The caller's rights in one bucket, each with its evidence.

    Attributes:
        refuses_reads: whether S3 refused to read a key that exists.
        refuses_writes: whether S3 refused the put of the write probe.
        write_proof: how well a right to write is proven: "verified" by S3, "stated" by the stack, "unverified" if
            nothing is known, "no" if there is none.
        states_read_only: whether the stack states a right to read, and none to write.
    """

    can_list: Claim
    list_evidence: str
    can_read: Claim
    read_evidence: str
    can_write: Claim
    write_evidence: str
    refuses_reads: bool = False
    refuses_writes: bool = False
    write_proof: WriteProof = "unverified"
    states_read_only: bool = False

    @property
    def level(self) -> Level:
        """The rights in one word; `permissions://discover` defines the words."""
        if self.can_list is None:
            return "unknown"
        if self.can_read:
            return "full_access" if self.can_read is True and self.can_write is True else "read_only"
        if self.can_list is False:
            return "unknown" if self.can_write else "no_access"
        return "list_only" if self.refuses_reads else "unknown"
