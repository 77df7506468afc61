"""Compiles queries and texts for FTS5 and for PostgreSQL's text search.

The results are bound parameters. Tokens contain only letters and digits, so that quoting them is safe in both.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from quilt_mcp.requirements.search.text import Group, ParsedQuery, Term, tokenize

TITLE_TOKENS = 1_000
BODY_TOKENS = 15_000
"""Title and body together stay below 16,383, the maximum position in a tsvector."""
_MAX_REPEATS = 256
"""The maximum number of positions of one token in a tsvector."""
GAP = "\N{HORIZONTAL ELLIPSIS}"
"""Replaces a token that is not indexed, and starts a facet in FTS5: its tokenizer treats it as a letter. No term of a
query can contain it."""


@dataclass(frozen=True, slots=True)
class IndexedText:
    """The tokens of an entity, in order. A gap stands for a token that is not indexed."""

    title: list[str]
    body: list[str]


def select_tokens(title: str, body: str) -> IndexedText:
    """Return the tokens of an entity that are indexed: only the first 256 occurrences of each."""
    of_title, of_body = tokenize(title)[:TITLE_TOKENS], tokenize(body)[:BODY_TOKENS]
    if len(of_title) + len(of_body) <= _MAX_REPEATS:  # as nearly all have
        return IndexedText(of_title, of_body)
    seen: Counter[str] = Counter()

    def keep(token: str) -> str:
        seen[token] += 1
        return token if seen[token] <= _MAX_REPEATS else GAP

    return IndexedText([keep(token) for token in of_title], [keep(token) for token in of_body])


def compile_tsvector(text: IndexedText) -> str:
    """Return the text as a tsvector of PostgreSQL. The title's tokens have weight A.

    One position between title and body is free, so that no phrase matches across them.
    """
    places: defaultdict[str, list[str]] = defaultdict(list)
    for position, token in enumerate(text.title, 1):
        places[token].append(f"{position}A")
    for position, token in enumerate(text.body, len(text.title) + 2):
        places[token].append(str(position))
    places.pop(GAP, None)
    return " ".join(f"'{token}':{','.join(positions)}" for token, positions in places.items())


def compile_fts5(query: ParsedQuery, *, in_title: bool = False) -> str:
    """Return the query for FTS5's MATCH. With `in_title`, all required terms must be in the column `title`."""

    def compile_term(term: Term, column: str = "") -> str:
        return f'{column}"{" ".join(term.tokens)}"{" *" if term.prefix else ""}'

    def compile_group(group: Group) -> str:
        column = "title : " if in_title else ""
        required = " AND ".join(compile_term(one, column) for one in group.required)
        excluded = " OR ".join(map(compile_term, group.excluded))
        return f"(({required}) NOT ({excluded}))" if excluded else f"({required})"

    return " OR ".join(map(compile_group, query.groups))


def compile_facets(facets: Sequence[Sequence[str]]) -> str:
    """Return lists of facets for FTS5's MATCH: one of each list is required. Empty without lists."""
    alternatives = (" OR ".join(f'"{GAP}{one}"' for one in several) for several in facets)
    return " AND ".join(f"({one})" for one in alternatives)


def compile_tsquery(query: ParsedQuery, *, in_title: bool = False) -> str:
    """Return the query as a tsquery of PostgreSQL. With `in_title`, all required terms must have weight A."""

    def compile_term(term: Term, weight: str = "") -> str:
        tokens = [f"'{token}'" + (f":{weight}" if weight else "") for token in term.tokens]
        if term.prefix:
            tokens[-1] = f"'{term.tokens[-1]}':*{weight}"
        return f"({' <-> '.join(tokens)})"

    return _join_groups(query, compile_term, weight="A" if in_title else "")


def _join_groups(query: ParsedQuery, compile_term: Callable[[Term, str], str], *, weight: str) -> str:
    def compile_group(group: Group) -> str:
        required = [compile_term(one, weight) for one in group.required]
        return " & ".join([*required, *(f"!{compile_term(one, '')}" for one in group.excluded)])

    return " | ".join(f"({compile_group(one)})" for one in query.groups)
