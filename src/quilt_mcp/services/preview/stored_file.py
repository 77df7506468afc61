"""One object in S3, read by ranges in the caller's role, and why it cannot be read."""

from datetime import datetime
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, unquote, urlsplit

from quilt_mcp.core.errors import (
    InvalidTemplateVariable,
    NotFound,
    ResourceExecutionError,
    ResourceFailure,
)
from quilt_mcp.services.stack.aws_failures import find_code
from quilt_mcp.services.stack.failures import RefusedByAWS
from quilt_mcp.services.stack.places import Part, Place

if TYPE_CHECKING:
    from quilt_mcp.services.stack.aws import AWSClients

CHUNK = 65_536
"""The first range that is read of every file. It shows what a file is, and it holds a page of text."""


class StoredFile:
    """One version of an object.

    The ranges of a read are those of one object: without a version, its ETag must stay the same.

    Args:
        aws: the clients of the caller.
        place: of the object.
        etag: the ETag that an earlier read found; None for the first read.

    Attributes:
        place: as given.
    """

    def __init__(self, aws: "AWSClients", place: Place, etag: str | None = None) -> None:
        self.place = place
        self._aws, self._etag = aws, etag
        self._last: Part | None = None

    @property
    def size(self) -> int:
        """The number of bytes of the object. Something must have been read."""
        return self._part.size

    @property
    def etag(self) -> str | None:
        return self._part.etag

    @property
    def modified(self) -> datetime | None:
        """When it was stored."""
        return self._part.modified

    def read(self, start: int, size: int) -> bytes:
        """Read a range; less at the end of the object.

        Raises:
            InvalidTemplateVariable: the object is another one than that of the earlier read.
            ResourceFailure: what S3 refuses, with what to do.
        """
        try:
            part = self._aws.read_part(self.place, start, size, None if self.place.version else self._etag)
        except ResourceFailure as failure:
            raise _explain(failure, self.place) from failure
        self._last, self._etag = part, part.etag
        return part.content

    @property
    def _part(self) -> Part:
        if self._last is None:
            raise LookupError("nothing of the object has been read")
        return self._last


def parse_key(physical_key: str) -> Place:
    """Return the place of a physical key of Quilt.

    Raises:
        NotFound: it is not in S3, such as `file:///home/jonas/data.csv`.
    """
    parts = urlsplit(physical_key)
    if parts.scheme != "s3" or not parts.netloc:
        raise NotFound(
            "The file is not in S3, so only the machine of whoever pushed it can read it.",
            details=f"Its physical key starts with {parts.scheme or 'no scheme'}:.",
            suggested_actions=["Ask the author of the revision to push the package again with its files."],
        )
    return Place(parts.netloc, unquote(parts.path[1:]), parse_qs(parts.query).get("versionId", [None])[0])


def _explain(failure: ResourceFailure, place: Place) -> ResourceFailure:
    """Return the failure that says what happened to this object, and what to do."""
    code, what = find_code(failure), f"s3://{place.bucket}/{place.key}"
    if code in {"NoSuchVersion", "MethodNotAllowed"}:  # the second is the answer for the version of a delete marker
        return NotFound(
            "This version of the object was deleted from the bucket.",
            details=f"{what}, version {place.version} ({code})",
            suggested_actions=["Read another revision of the package, or ask the owner of the bucket for a backup."],
        )
    if code in {"NoSuchKey", "NoSuchBucket"}:
        kind = "object" if code == "NoSuchKey" else "bucket"
        return NotFound(
            f"S3 has no such {kind}.",
            details=f"{what} ({code})",
            suggested_actions=[
                f"Read quilt://buckets/{place.bucket}/objects for what is in the bucket.",
                "If a package names the object, it was deleted after the push: ask the owner of the bucket.",
            ],
        )
    if code == "PreconditionFailed":
        return InvalidTemplateVariable(
            "The object changed since the page before.",
            details=what,
            suggested_actions=["Start without a cursor."],
        )
    if code == "InvalidObjectState":
        return ResourceExecutionError(
            "The object is in an archive (S3 Glacier), so it cannot be read before it is restored.",
            details=what,
            suggested_actions=["Ask the owner of the bucket to restore it: `aws s3api restore-object --help`."],
        )
    if isinstance(failure, RefusedByAWS):
        return _explain_refusal(failure, place)
    return failure


def _explain_refusal(failure: RefusedByAWS, place: Place) -> RefusedByAWS:
    stated = (failure.details or "").removeprefix(f"{failure.reason}: ")
    if stated.startswith("kms:"):
        return RefusedByAWS(
            "The object is encrypted with a KMS key that your role may not use.",
            details=stated,
            suggested_actions=[
                "Ask a Quilt administrator to grant your role the AWS permission named in `details`, on the key.",
                *failure.suggested_actions[1:],
            ],
        )
    action = "s3:GetObjectVersion" if place.version else "s3:GetObject"
    return RefusedByAWS(
        f"Your role may not read this object of the bucket {place.bucket}.",
        details=stated.replace("s3:GetObject (", f"{action} ("),
        suggested_actions=[
            *failure.suggested_actions,
            f"Read permissions://buckets/{place.bucket}/access for what your role may do in the bucket.",
            "If the bucket makes requesters pay, this server does not read it: read it with your own AWS tools.",
        ],
    )
