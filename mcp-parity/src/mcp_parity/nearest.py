"""Finds the resources with the URIs that are most like an unknown one."""

import re
import unicodedata
from collections.abc import Iterable
from difflib import SequenceMatcher
from heapq import nlargest
from urllib.parse import unquote

_VARIABLE = re.compile(r"\{[A-Za-z_]\w*\*?\}")
_VALUE = re.compile(r"[\w.~-]{1,128}")
_ENOUGH = 0.7
_LONGEST = 128  # the comparison takes quadratic time


def find_nearest(uri: str, known: Iterable[str]) -> list[str]:
    """Return at most three URIs, the most similar first, with the values of variables where the URI has them."""
    given = _segments(re.split("[?#]", uri, maxsplit=1)[0])
    best = nlargest(3, (_compare(given, one.partition("{?")[0]) for one in known))
    least = 1.0 if best and best[0][0] == 1.0 else _ENOUGH
    return [candidate for likeness, candidate in best if likeness >= least]


def _segments(uri: str) -> list[str]:
    return re.split(r"[:/\\]+", unicodedata.normalize("NFKC", unquote(uri)).strip(":/\\ "))


def _compare(given: list[str], candidate: str) -> tuple[float, str]:
    """Return how similar they are, from 0 to 1, and the candidate with the given values in place of its variables."""
    pattern, rest = _segments(candidate), list(given)
    for at, segment in enumerate(pattern[: len(rest)]):
        if _VARIABLE.fullmatch(segment) and rest[at] not in pattern:
            if _VALUE.fullmatch(rest[at]):
                candidate = candidate.replace(segment, rest[at])
            rest[at] = pattern[at] = ""
    one, other = ("/".join(segments).lower()[:_LONGEST] for segments in (pattern, rest))
    matcher = SequenceMatcher(None, one, other)
    return (matcher.ratio() if matcher.quick_ratio() >= _ENOUGH else 0.0), candidate
