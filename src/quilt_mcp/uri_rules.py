"""What a URI may hold, and what to say about one that is refused."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from heapq import nlargest
from urllib.parse import unquote

from quilt_mcp.errors import DISCOVER, InvalidTemplateVariable, InvalidURI, MissingTemplateVariable
from quilt_mcp.registry import VARIABLE_SEGMENT, ResourceDefinition, path_of, path_variables

MAX_LENGTH = 1024
_SHOWN = 80
_COMPARED = 128
_LIKENESS = 0.7
_SHORTENED = 0.85
VALUE_PATTERN = r"[A-Za-z0-9._~-]{1,128}"
MAX_TEXT = 512
_EXAMPLES = 5


def sendable(text: str) -> str:
    """The text with lone surrogates, which no UTF-8 can hold, replaced by question marks."""
    return text.encode("utf-8", "replace").decode("utf-8")


def echo(uri: str) -> str:
    """The URI as an error repeats it: cut to MAX_LENGTH, and such that it can be sent."""
    return sendable(uri[:MAX_LENGTH])


def shown(uri: str) -> str:
    """At most 80 characters of the URI as a message shows them: quoted, and in ASCII, which unmasks look-alikes."""
    return ascii(uri[:_SHOWN]) + ("…" if len(uri) > _SHOWN else "")


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
            details="Only printable ASCII characters other than the space are allowed; percent-encode all others.",
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
    """At most three known URIs that look like this one, the nearest first; a template with the value that was asked."""
    asked = _segments(re.split("[?#]", uri, maxsplit=1)[0])
    best = nlargest(3, (_likeness(asked, path_of(candidate)) for candidate in known))
    surely = 1.0 in (likeness for likeness, _ in best)
    return [meant for likeness, meant in best if likeness >= (1.0 if surely else _LIKENESS)]


def _segments(uri: str) -> list[str]:
    """The URI's parts, whichever slashes are missing, doubled, backward, percent-encoded or full-width."""
    return re.split(r"[:/\\]+", unicodedata.normalize("NFKC", unquote(uri)).strip(":/\\ "))


def _likeness(asked: Sequence[str], candidate: str) -> tuple[float, str]:
    """How like the candidate it is, from 0 to 1, whatever a variable's value; and the candidate with that value."""
    given, pattern = list(asked), _segments(candidate)
    for at, segment in enumerate(pattern[: len(given)]):
        if VARIABLE_SEGMENT.fullmatch(segment) and given[at] not in pattern:
            if is_value(given[at]):
                candidate = candidate.replace(segment, given[at])
            given[at] = pattern[at] = ""
    if 1 < len(given) < len(pattern) and "{" not in candidate and _is_within(given, pattern):
        return _SHORTENED, candidate
    matcher = SequenceMatcher(None, _compared_text(pattern), _compared_text(given))
    # quick_ratio is an upper bound of ratio, and linear
    return (matcher.ratio() if matcher.quick_ratio() >= _LIKENESS else 0.0), candidate


def _is_within(given: Iterable[str], pattern: Iterable[str]) -> bool:
    """Whether nothing but segments of the pattern are missing."""
    left = iter(pattern)
    return all(segment in left for segment in given)


def _compared_text(segments: Sequence[str]) -> str:
    return "/".join(segments).lower()[:_COMPARED]


def checked_value(definition: ResourceDefinition, variable: str, raw: str, *, free_text: bool = False) -> str:
    """The decoded value of a template's variable, or of an optional parameter; free text is 1-512 characters.

    Raises:
        MissingTemplateVariable: it is empty, or the {variable} itself, and must be there.
        InvalidTemplateVariable: it is not 1-128 characters of A-Z a-z 0-9 . _ ~ -, or is "." or ".."; free text: it
            is too long, or not printable.
    """
    value = unquote(raw)  # once; broken encodings leave a % or U+FFFD, which no value may hold
    if value in ("", f"{{{variable}}}") and variable in path_variables(definition["uri"]):
        raise MissingTemplateVariable(
            f"Template URI '{definition['uri']}' requires variable(s): {variable}",
            details="Template URIs must include values for all variables.",
        )
    if not (_is_text(value) if free_text else is_value(value)):
        form = f"1-{MAX_TEXT} printable characters" if free_text else "1-128 characters of A-Z a-z 0-9 . _ ~ -"
        raise InvalidTemplateVariable(
            f"{shown(raw)} is not a valid value for '{variable}' in '{definition['uri']}'.",
            details=f"A value is {form} after percent-decoding" + ("." if free_text else ", and not '.' or '..'."),
        )
    return value


def _is_text(text: str) -> bool:
    return len(text) <= MAX_TEXT and text.isprintable() and "\N{REPLACEMENT CHARACTER}" not in text


def is_value(text: str) -> bool:
    """Whether a template's variable can have this value."""
    return bool(re.fullmatch(VALUE_PATTERN, text)) and text not in (".", "..")


def value_advice(definition: ResourceDefinition, variable: str, existing: Sequence[str]) -> list[str]:
    """What to do about a missing or invalid value, given those that exist, or the first _EXAMPLES of them."""
    if not existing:
        return [f"Put a value in place of {{{variable}}} in {definition['uri']}.", DISCOVER]
    example = path_of(definition["uri"]).replace(f"{{{variable}}}", existing[0])
    perhaps = ", or some of them" if len(existing) >= _EXAMPLES else ""
    return [f"Example: get_resource('{example}')", f"Values that exist{perhaps}: {', '.join(existing)}", DISCOVER]
