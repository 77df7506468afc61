"""What a search that finds little looks for besides: other forms of its words, then most of them.

The index has the words as they are written. Another form of a word begins like it: with the part that the word and its
stem have in common, in one of the languages. So both databases find the same, and no index changes.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from difflib import get_close_matches
from itertools import combinations
from typing import Literal

import snowballstemmer  # type: ignore[import-untyped]  # it has no types
from sqlalchemy import select

from quilt_mcp.requirements.answers import MissingWord
from quilt_mcp.requirements.parameters import guess_reference
from quilt_mcp.requirements.search_text import Group, ParsedQuery, Term, tokenize
from quilt_mcp.requirements.tables import AnyRow, Statement

FEW = 5
"""With fewer exact results, a search looks for others."""
MOST_WORDS = 8
"""Of more words, none is left out: there are too many choices."""
SHORTEST_STEM, SHORTEST_WORD = 4, 4
"""Shorter stems begin too many words, and shorter words say little."""
LANGUAGES = ("english", "german", "french")
NEAREST = 3
"""How many words are named that resemble one that does not occur."""
LONGEST_START, SHORTEST_START = 6, 3
"""How many letters a word has in common with those that resemble it."""
RESEMBLING = 0.75
READ_CHARACTERS = 2_000
"""How much of a description is searched for words that resemble another."""
LATER = 3
"""What is added to the tier of a result that is not exact."""

Relaxation = Literal["stems", "some_words"]
Find = Callable[[ParsedQuery], Sequence[AnyRow]]
"""Returns the best results of a query, of all that the caller may see."""


def relax(query: ParsedQuery, missing: Collection[str]) -> Iterator[tuple[Relaxation, ParsedQuery]]:
    """Return queries that find more, the nearest first. What occurs nowhere, and short words, are left out first."""
    groups = tuple(Group(tuple(map(_stem, group.required)), group.excluded) for group in query.groups)
    if groups != query.groups and not missing:
        yield "stems", ParsedQuery(groups)
    if len(groups) > 1:
        return
    terms = [
        stem
        for term, stem in zip(query.groups[0].required, groups[0].required, strict=True)
        if term.written not in missing
    ]
    terms = [one for one in terms if len("".join(one.tokens)) >= SHORTEST_WORD] or terms
    number = len(query.groups[0].required)
    for count in range(min(len(terms), number - 1), 0, -1) if len(terms) <= MOST_WORDS else ():
        yield "some_words", ParsedQuery(tuple(replace(groups[0], required=some) for some in combinations(terms, count)))


def put_later(candidates: Sequence[Statement]) -> list[Statement]:
    """Return candidates that follow all exact ones."""
    parts = [one.subquery() for one in candidates]
    return [
        select(one.c.kind, one.c.entity_id, one.c.reference_id, (one.c.tier + LATER).label("tier"), one.c.score)
        for one in parts
    ]


def find_missing(query: ParsedQuery, find: Find) -> list[MissingWord]:
    """Return the words of a query that occur nowhere, each with words that resemble it."""
    if len(query.groups) > 1:
        return []
    words = [term for term in query.groups[0].required if len(term.tokens) == 1 and not term.prefix]
    missing = [term for term in words[:MOST_WORDS] if not find(ParsedQuery((Group((_stem(term),)),)))]
    return [{"word": term.written, "nearest": _find_nearest(term, find)} for term in missing]


def _find_nearest(term: Term, find: Find) -> list[str]:
    guess = guess_reference(term.written)
    if guess and find(ParsedQuery((Group((Term((guess.reference.casefold(),)),)),), (guess.reference,))):
        return [guess.reference]
    [token] = term.tokens
    for length in range(min(LONGEST_START, len(token) - 1), SHORTEST_START - 1, -1):
        start = token[:length]
        texts = [f"{row.title or ''} {(row.description or '')[:READ_CHARACTERS]}" for row in find(_starting(start))]
        words = {one for text in texts for one in tokenize(text) if one.startswith(start)}
        if nearest := get_close_matches(token, sorted(words), NEAREST, RESEMBLING):
            return nearest
    return []


def _starting(start: str) -> ParsedQuery:
    return ParsedQuery((Group((Term((start,), prefix=True),)),))


def _stem(term: Term) -> Term:
    """Return the beginning of the words that have the stem of a word, or the term if its stem is short."""
    if term.prefix or len(term.tokens) > 1:
        return term
    [token] = term.tokens
    if not token.isalpha():  # a number or a name has no other forms
        return term
    stems = [snowballstemmer.stemmer(language).stemWord(token) for language in LANGUAGES]
    # a stem can end in another letter than its words: safeti for safety
    starts = [stem if token.startswith(stem) else stem[:-1] for stem in stems]
    starts = [one for one in starts if len(one) >= SHORTEST_STEM and token.startswith(one)]
    return replace(term, tokens=(min(starts, key=len),), prefix=True) if starts else term
