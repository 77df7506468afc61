"""Objects in S3: where they are, and parts of them."""

from datetime import datetime
from typing import NamedTuple


class Place(NamedTuple):
    """Where an object is in S3. Without a version, it is the newest one."""

    bucket: str
    key: str
    version: str | None = None


class Part(NamedTuple):
    """A part of an object.

    Attributes:
        content: its bytes.
        size: the number of bytes of the whole object.
        etag: changes with the object; None if S3 did not say.
        modified: when the object was stored; None as above.
        mime_type: what the writer of the object gave; None as above.
    """

    content: bytes
    size: int
    etag: str | None
    modified: datetime | None
    mime_type: str | None
