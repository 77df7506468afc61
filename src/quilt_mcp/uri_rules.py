"""What a URI may hold, and what to say about one that is refused."""

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from urllib.parse import unquote

from quilt_mcp.errors import DISCOVER, InvalidTemplateVariable, InvalidURI, MissingTemplateVariable
from quilt_mcp.registry import ResourceDefinition

MAX_LENGTH = 1024
_SHOWN = 80
_COMPARED = 128
_VALUE = re.compile(r"[A-Za-z0-9._~-]{1,128}")
_PERCENT_ENCODED = re.compile(r"(?:[^%]|%[0-9A-Fa-f]{2})*")


def echo(uri: str) -> str:
    """The URI as an error repeats it: cut to MAX_LENGTH, and without lone surrogates, which no JSON text can hold."""
    return uri[:MAX_LENGTH].encode("utf-8", "backslashreplace").decode("utf-8")


def shown(uri: str) -> str:
    """The URI as a message shows it: quoted, one line, no control characters, at most 80 characters of it."""
    return repr(echo(uri) if len(uri) <= _SHOWN else echo(uri[:_SHOWN]) + "…")


def check_text(uri: str, known: Iterable[str]) -> None:
    """Refuse what cannot be a URI at all.

    Raises:
        InvalidURI: too long, or holding characters that a URI cannot hold unencoded.
    """
    if len(uri) > MAX_LENGTH:
        raise InvalidURI(f"The URI has {len(uri)} characters; at most {MAX_LENGTH} are allowed.")
    if not uri.isascii() or not uri.isprintable() or " " in uri:
        raise InvalidURI(
            f"Resource URI {shown(uri)} holds characters that a URI cannot hold.",
            details="Only printable ASCII characters other than the space are allowed.",
            suggested_actions=_uri_advice(uri, known),
        )


def unknown(uri: str, known: Iterable[str]) -> InvalidURI:
    """The refusal of a URI that matches no resource."""
    return InvalidURI(
        f"Resource URI {shown(uri)} not recognized.",
        details="The URI must match one of the available resource patterns exactly.",
        suggested_actions=_uri_advice(uri, known),
    )


def _uri_advice(uri: str, known: Iterable[str]) -> list[str]:
    near = nearest(uri, known)
    hint = [f"Did you mean {' or '.join(near)}?"] if near else []
    return [*hint, *InvalidURI.default_actions]


def nearest(uri: str, known: Iterable[str]) -> list[str]:
    """At most three known URIs that look like this one, the nearest first."""
    plain = {_plain(candidate): candidate for candidate in known}
    return [plain[match] for match in get_close_matches(_plain(uri), plain, n=3, cutoff=0.7)]


def _plain(uri: str) -> str:
    """The letters of a URI and its separators, without case or the marks that people leave out or double."""
    return re.sub(r"[:/\\]+", "/", uri[:_COMPARED].lower()).strip("/ ")


def checked_value(definition: ResourceDefinition, variable: str, raw: str) -> str:
    """The decoded value of a template's variable.

    Raises:
        MissingTemplateVariable: it is empty, or the {variable} itself.
        InvalidTemplateVariable: it is not 1-128 characters of A-Z a-z 0-9 . _ ~ -, or is only dots.
    """
    value = _decode(raw)
    if value in ("", f"{{{variable}}}"):
        raise MissingTemplateVariable(
            f"Template URI '{definition['uri']}' requires variable(s): {variable}",
            details="Template URIs must include values for all variables.",
        )
    if value is None or not _VALUE.fullmatch(value) or value in (".", ".."):
        raise InvalidTemplateVariable(
            f"{shown(raw)} is not a valid value for '{variable}' in '{definition['uri']}'.",
            details="A value is 1-128 characters of A-Z a-z 0-9 . _ ~ - after percent-decoding, and not '.' or '..'.",
        )
    return value


def value_advice(definition: ResourceDefinition, variable: str, existing: Sequence[str]) -> list[str]:
    """What to do about a missing or invalid value, given some that exist."""
    if not existing:
        return [f"Put a value in place of {{{variable}}} in {definition['uri']}.", DISCOVER]
    example = definition["uri"].replace(f"{{{variable}}}", existing[0])
    return [f"Example: get_resource('{example}')", f"Values that exist: {', '.join(existing)}", DISCOVER]


def _decode(raw: str) -> str | None:
    """The text that `raw` encodes, decoded once; None where its percent-encoding is broken."""
    if not _PERCENT_ENCODED.fullmatch(raw):
        return None
    try:
        return unquote(raw, errors="strict")
    except UnicodeDecodeError:
        return None
