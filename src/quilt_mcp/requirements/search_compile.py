"""Queries and texts in the terms of FTS5 and of PostgreSQL's text search.

The results are bound parameters. Tokens hold letters and digits only, so that quoting them is safe in both.
"""

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from quilt_mcp.requirements.search_text import Group, ParsedQuery, Term, tokens_of

TITLE_TOKENS = 1_000
BODY_TOKENS = 15_000
"""With the title's they stay within the 16,383 positions of a tsvector."""
_MOST_OF_ONE = 256
"""A tsvector keeps no more positions of one token."""
# in the place of a token that is not indexed; FTS5's tokenizer takes it for a word, and no query can hold it
_GAP = "\N{HORIZONTAL ELLIPSIS}"


@dataclass(frozen=True, slots=True)
class IndexedText:
    """The tokens of an entity, each at its place; where one is not indexed, a gap is."""

    title: list[str]
    body: list[str]


def indexed_text(title: str, body: str) -> IndexedText:
    """The tokens by which an entity is found; of one that occurs again and again only the first 256."""
    seen: Counter[str] = Counter()

    def kept(token: str) -> str:
        seen[token] += 1
        return token if seen[token] <= _MOST_OF_ONE else _GAP

    return IndexedText(
        [kept(token) for token in tokens_of(title)[:TITLE_TOKENS]],
        [kept(token) for token in tokens_of(body)[:BODY_TOKENS]],
    )


def tsvector(text: IndexedText) -> str:
    """The text as PostgreSQL reads a tsvector; the title's tokens have weight A.

    Between title and body one position is free, so that no phrase spans the border.
    """
    places: defaultdict[str, list[str]] = defaultdict(list)
    for position, token in enumerate(text.title, 1):
        places[token].append(f"{position}A")
    for position, token in enumerate(text.body, len(text.title) + 2):
        places[token].append(str(position))
    places.pop(_GAP, None)
    return " ".join(f"'{token}':{','.join(positions)}" for token, positions in places.items())


def fts5(query: ParsedQuery, *, in_title: bool = False) -> str:
    """The query for FTS5's MATCH; `in_title` asks for all that is wanted to stand in the column `title`."""

    def term(wanted: Term, column: str = "") -> str:
        return f'{column}"{" ".join(wanted.tokens)}"{" *" if wanted.prefix else ""}'

    def group(group: Group) -> str:
        column = "title : " if in_title else ""
        wanted = " AND ".join(term(one, column) for one in group.wanted)
        unwanted = " OR ".join(map(term, group.unwanted))
        return f"(({wanted}) NOT ({unwanted}))" if unwanted else f"({wanted})"

    return " OR ".join(map(group, query.groups))


def tsquery(query: ParsedQuery, *, in_title: bool = False) -> str:
    """The query as PostgreSQL reads a tsquery; `in_title` asks for all that is wanted to have weight A."""

    def term(wanted: Term, weight: str = "") -> str:
        tokens = [f"'{token}'" + (f":{weight}" if weight else "") for token in wanted.tokens]
        if wanted.prefix:
            tokens[-1] = f"'{wanted.tokens[-1]}':*{weight}"
        return f"({' <-> '.join(tokens)})"

    return _tsquery(query, term, weight="A" if in_title else "")


def to_tsquery(query: ParsedQuery, *, in_title: bool = False) -> str:
    """The same for `to_tsquery`, which takes the terms apart itself, as `to_tsvector` does with texts."""

    def term(wanted: Term, weight: str = "") -> str:
        text = "".join(c if c.isprintable() else " " for c in wanted.written).replace("\\", " ").replace("'", "''")
        flags = ("*" if wanted.prefix else "") + weight
        return f"('{text}'" + (f":{flags})" if flags else ")")

    return _tsquery(query, term, weight="A" if in_title else "")


def _tsquery(query: ParsedQuery, term: Callable[[Term, str], str], *, weight: str) -> str:
    def group(group: Group) -> str:
        wanted = [term(one, weight) for one in group.wanted]
        return " & ".join([*wanted, *(f"!{term(one, '')}" for one in group.unwanted)])

    return " | ".join(f"({group(one)})" for one in query.groups)
