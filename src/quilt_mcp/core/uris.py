"""Which URIs are valid, and what to say about one that is not."""

import re
import string
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from heapq import nlargest
from typing import NamedTuple
from urllib.parse import quote as percent_encode
from urllib.parse import unquote

from quilt_mcp.core.errors import DISCOVER, InvalidTemplateVariable, InvalidURI, MissingTemplateVariable
from quilt_mcp.core.registry import VARIABLE_SEGMENT, ResourceDefinition, path_of, path_variables

MAX_LENGTH = 2048
MAX_ENCODED = 12 * MAX_LENGTH  # a character has at most four bytes, and each is sent as three characters
_SHOWN = 80
_COMPARED = 128
_LIKENESS = 0.7
_SHORTENED = 0.85
VALUE_PATTERN = r"[A-Za-z0-9._~-]{1,128}"
MAX_TEXT = 512
MAX_KEY_BYTES = 1024
"""The longest path or key that object stores allow."""
_UNUSABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
"""Control characters and surrogates: no text that people write contains them."""
_NAME_FORM = "1-128 characters of A-Z a-z 0-9 . _ ~ -"
_TEXT_FORM = f"1-{MAX_TEXT} characters without control characters"
_KEY_FORM = f"a path or a key of 1-{MAX_KEY_BYTES:,} bytes in UTF-8"
_EXAMPLES = 5


class Address(NamedTuple):
    """What an address of another kind means, such as that of a page.

    Attributes:
        uri: the URI of this server.
        check: raises a ResourceFailure if the caller may not use the address. It may wait for other systems.
    """

    uri: str
    check: Callable[[], None] | None = None


Guess = Callable[[str], str | None]
"""Returns the URI that a text probably means, which is none; None if it means none. It waits for nothing."""

Translate = Callable[[str], Address | None]
"""Returns what an address means; None if it is of no kind that it knows. It may raise a ResourceFailure."""


def replace_surrogates(text: str) -> str:
    """Return the text with question marks for lone surrogates, which UTF-8 cannot encode."""
    return text.encode("utf-8", "replace").decode("utf-8")


def echo(uri: str) -> str:
    """Return the URI as an error repeats it: cut to MAX_LENGTH, without lone surrogates."""
    return replace_surrogates(uri[:MAX_LENGTH])


def quote(uri: str) -> str:
    """Quote at most 80 characters of the URI in ASCII, which makes look-alike characters visible."""
    return ascii(uri[:_SHOWN]) + ("…" if len(uri) > _SHOWN else "")


def encode_text(uri: str, known: Mapping[str, ResourceDefinition]) -> str:
    """Percent-encode spaces and characters beyond ASCII, as MCP clients do before they send a URI.

    Raises:
        InvalidURI: it is too long, or contains control characters or lone surrogates.
    """
    length = len(unquote(uri)) if len(uri) <= MAX_ENCODED else len(uri)
    if length > MAX_LENGTH:
        raise InvalidURI(f"The URI has {length} characters; at most {MAX_LENGTH} are allowed.")
    if any(one < " " or one == "\x7f" or "\ud800" <= one <= "\udfff" for one in uri):
        raise make_unencoded(uri, known)
    return percent_encode(uri, safe=string.punctuation)


def make_unencoded(uri: str, known: Mapping[str, ResourceDefinition]) -> InvalidURI:
    """Make the failure for a URI with characters that only the value of a free text can have."""
    if _encode_free_text(uri, known):
        return make_unknown_uri(uri, known, None)
    message = f"Resource URI {quote(uri)} contains characters that are not allowed in a URI."
    details = "Only printable ASCII characters without spaces are allowed. Percent-encode all others."
    return InvalidURI(message, details=details, suggested_actions=_uri_advice(uri, known))


def make_unknown_uri(uri: str, known: Mapping[str, ResourceDefinition], parameters: Sequence[str] | None) -> InvalidURI:
    """Make the failure for a URI that matches no resource, or one with the same path and these parameters."""
    details = "The URI must match one of the available resource patterns exactly."
    if parameters is not None:
        allowed = f"can be {' and '.join(parameters)}, each once" if parameters else "are not allowed"
        details = f"Parameters after ? {allowed}. In a text, write ? as %3F."
    elif _encode_free_text(uri, known):
        details = "In the text at the end of this URI, write / as %2F and ? as %3F."
    advice = _uri_advice(uri, known)
    return InvalidURI(f"Resource URI {quote(uri)} not recognized.", details=details, suggested_actions=advice)


def _encode_free_text(uri: str, known: Mapping[str, ResourceDefinition]) -> list[str]:
    """Return a list of the URI with its end encoded, if a template has free text there; else an empty list."""
    if "=" in uri.partition("?")[2]:  # parameters, not a text with a question mark
        return []
    for pattern, definition in known.items():
        start, _, variable = path_of(pattern).rpartition("{")
        if variable.removesuffix("}") in definition.get("free_text", ()) and uri.startswith(start):
            text = unquote(uri.removeprefix(start))
            if text and is_text(text):
                meant = start + percent_encode(text, safe="")
                return [meant] if meant != uri else []
    return []


def _uri_advice(uri: str, known: Mapping[str, ResourceDefinition]) -> list[str]:
    near = _encode_free_text(uri, known) or find_nearest(uri, known) or _find_word(uri, known)
    return [*([f"Did you mean {' or '.join(near)}?"] if near else []), *InvalidURI.default_actions]


def _find_word(uri: str, known: Collection[str]) -> list[str]:
    """Find at most three known URIs with a segment that is the scheme of this one, or its plural."""
    scheme = uri.partition(":")[0].lower()
    if not scheme or any(one.startswith(f"{scheme}:") for one in known):
        return []
    found = (path_of(one) for one in known if not {scheme, f"{scheme}s"}.isdisjoint(path_of(one).split("/")[2:]))
    return sorted(found, key=lambda one: (len(one), one))[:3]


def find_nearest(uri: str, known: Iterable[str]) -> list[str]:
    """Find at most three known URIs that look like this one, the nearest first; templates with the value it has."""
    asked = _segments(re.split("[?#]", uri, maxsplit=1)[0])
    best = nlargest(3, (_likeness(asked, path_of(candidate)) for candidate in known))
    surely = 1.0 in (likeness for likeness, _ in best)
    return [meant for likeness, meant in best if likeness >= (1.0 if surely else _LIKENESS)]


def _segments(uri: str) -> list[str]:
    """Split the URI into its parts. Missing, doubled, backward, encoded or full-width slashes do not matter."""
    return re.split(r"[:/\\]+", unicodedata.normalize("NFKC", unquote(uri)).strip(":/\\ "))


def _likeness(asked: Sequence[str], candidate: str) -> tuple[float, str]:
    """Return the similarity from 0 to 1, without values of variables, and the candidate with those values."""
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
    """Return whether the URI only lacks segments of the pattern."""
    left = iter(pattern)
    return all(segment in left for segment in given)


def _compared_text(segments: Sequence[str]) -> str:
    return "/".join(segments).lower()[:_COMPARED]


def decode_value(definition: ResourceDefinition, variable: str, raw: str) -> str:
    """Decode and check the value of a template's variable or of an optional parameter.

    Raises:
        MissingTemplateVariable: it is empty, or the {variable} itself, and is not optional.
        InvalidTemplateVariable: it is not 1-128 characters of A-Z a-z 0-9 . _ ~ -, or is "." or "..". Free text can be
            any 1-512 characters but control characters, and a path or key everything that an object store can hold.
    """
    try:
        value = unquote(raw, errors="strict")  # once
    except UnicodeDecodeError:
        value = None
    if value in ("", f"{{{variable}}}") and variable in path_variables(definition["uri"]):
        raise MissingTemplateVariable(
            f"Template URI '{definition['uri']}' requires variable(s): {variable}",
            details="A template URI needs a value for each variable.",
        )
    is_allowed, form = _find_form(definition, variable)
    if value is None or not is_allowed(value):
        raise InvalidTemplateVariable(
            f"{quote(raw)} is not a valid value for '{variable}' in '{definition['uri']}'.",
            details=f"A value must be {form} after percent-decoding"
            + (", and not '.' or '..'." if is_allowed is is_value else "."),
        )
    return value


def is_allowed(definition: ResourceDefinition, variable: str, value: str) -> bool:
    """Return whether a variable can have this value, which is decoded."""
    return variable in definition["parameter_mapping"] and bool(value) and _find_form(definition, variable)[0](value)


def find_meant(uri: str, known: Mapping[str, ResourceDefinition]) -> str | None:
    """Return the URI that another one surely means; None if that is not certain.

    It has a value as a parameter that belongs into the path, as in `x://search?query=abc`, or more segments than a URI
    with a parameter for a path, as in `x://files/a/b.csv`.
    """
    path, _, query = uri.partition("?")
    given = dict(pair.partition("=")[::2] for pair in query.split("&") if "=" in pair)
    for pattern in known:
        start, _, variable = path_of(pattern).rpartition("/{")
        name = variable.removesuffix("}")
        if given and variable and path.rstrip("/") == start and given.get(name):
            rest = "&".join(f"{other}={value}" for other, value in given.items() if other != name)
            return f"{start}/{given[name]}{f'?{rest}' if rest else ''}"
    for pattern, definition in known.items():
        keys = definition.get("keys", ())
        if len(keys) == 1 and (match := _compile_start(path_of(pattern)).match(path)) and not query:
            [key] = keys
            return f"{match[1]}?{key}={percent_encode(unquote(match[2]), safe='')}"
    return None


def _compile_start(pattern: str) -> re.Pattern[str]:
    """Return the expression for a URI that continues another one, with what continues it as its second group."""
    parts = (re.escape(part) for part in VARIABLE_SEGMENT.split(pattern)[::2])
    return re.compile(f"({'[^/?]+'.join(parts)})/([^?]+)$")


def _find_form(definition: ResourceDefinition, variable: str) -> tuple[Callable[[str], bool], str]:
    """Return which values a variable can have: a predicate, and its description."""
    if variable in definition.get("keys", ()):
        return _is_key, _KEY_FORM
    if variable in definition.get("free_text", ()):
        return is_text, _TEXT_FORM
    return is_value, _NAME_FORM


def is_text(text: str) -> bool:
    """Return whether a free text can have this value: any characters of any script, but no control characters."""
    return len(text) <= MAX_TEXT and not _UNUSABLE.search(text)


def _is_key(text: str) -> bool:
    # Object stores hold control characters too. Lone surrogates cannot be encoded, and cannot be decoded from a URI.
    return "\0" not in text and len(text.encode(errors="replace")) <= MAX_KEY_BYTES


def is_value(text: str) -> bool:
    """Return whether a variable that is not free text can have this value."""
    return bool(re.fullmatch(VALUE_PATTERN, text)) and text not in (".", "..")


def suggest_values(definition: ResourceDefinition, variable: str, existing: Sequence[str]) -> list[str]:
    """Suggest what to do about a missing or invalid value, with at most _EXAMPLES existing values."""
    if not existing:
        return [f"Replace {{{variable}}} in {definition['uri']} with a value.", DISCOVER]
    example = path_of(definition["uri"]).replace(f"{{{variable}}}", existing[0])
    more = ", among others" if len(existing) > _EXAMPLES else ""
    values = ", ".join(existing[:_EXAMPLES])
    return [f"Example: get_resource('{example}')", f"Existing values: {values}{more}", DISCOVER]
