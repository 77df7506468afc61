"""Cursors: where a list goes on. To a client they are opaque text; to us, what was answered last, and for whom.

A cursor only ever becomes a bound parameter of a query that filters by the caller's own scope, so that forging one
gains nothing; it is decoded strictly all the same, and one of another caller, list or version is refused.
"""

import base64
import binascii
import hashlib
import json

from quilt_mcp.errors import InvalidTemplateVariable

VERSION = 1
MAX_LENGTH = 512
_TAG_BYTES = 6


def tag_of(*scope: object) -> str:
    """A short mark of a list and of what its caller may see; it tells neither."""
    return hashlib.blake2s(repr(scope).encode(), digest_size=_TAG_BYTES).hexdigest()


def encode(after: str, tag: str) -> str:
    """The cursor of a list of this tag that goes on after `after`."""
    text = json.dumps([VERSION, tag, after], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode(cursor: str, tag: str) -> str:
    """What a list of this tag goes on after.

    Raises:
        InvalidTemplateVariable: this is no cursor that `encode` has made for a list of this tag.
    """
    try:
        if len(cursor) > MAX_LENGTH:
            raise ValueError  # noqa: TRY301 - one refusal for all that is wrong with a cursor
        padded = cursor + "=" * (-len(cursor) % 4)
        version, owner, after = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
        if (version, owner) != (VERSION, tag) or encode(after, tag) != cursor:
            raise ValueError  # noqa: TRY301 - the same
    except (binascii.Error, ValueError, TypeError, RecursionError) as error:
        raise InvalidTemplateVariable(
            "The cursor is not valid here.",
            details="A cursor belongs to one list and one caller, and ends when what the caller may see changes.",
            suggested_actions=["Start again without a cursor, and pass on each next cursor as it is."],
        ) from error
    return str(after)
