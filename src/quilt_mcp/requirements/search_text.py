"""Splits texts into words, and parses the query language.

Texts and queries are split into tokens here, before either database receives them, so that SQLite and PostgreSQL find
the same. Case and accents are removed. Letters and digits form tokens; all other characters separate them. There is no
stemming.

    a b      all words of a group must occur, in any order; OR separates groups
    "a b"    a phrase: the words must be adjacent
    log*     words that start with log
    -word    must not occur; also -"a b". Each group needs at least one required term.
    EP-12    if it is the whole group: the entity with this reference ID comes first
"""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from quilt_mcp.core.errors import InvalidTemplateVariable
from quilt_mcp.requirements.model import BY_PREFIX, DESCRIPTION_LENGTH, format_reference

QUERY_LENGTH = 512
"""Maximum number of characters in a query."""
QUERY_TERMS = 16
"""Maximum number of words and phrases in a query."""
QUERY_TOKENS = 128
"""Maximum number of tokens in all terms of a query together."""
TOKEN_LENGTH = 64
"""Number of characters after which a token is cut."""

_EXAMPLES = (
    'Use words that must all occur, for example: login "session timeout" token* -legacy',
    "Separate alternatives with OR, for example: login OR sign-in",
)
# Chinese and Japanese have no spaces between words: each character is a token, and adjacent characters are a phrase.
UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003fffd"
_TOKEN = re.compile(rf"(?=[^\W_])[{UNSPACED}]|[^\W_{UNSPACED}]+")
_TERM = re.compile(r'(?P<minus>-?)(?:"(?P<phrase>[^"]*)"(?P<star>\*?)|(?P<word>[^\s"]+))')
_REFERENCE = re.compile(rf"({'|'.join(BY_PREFIX)})-([0-9]{{1,9}})", re.ASCII | re.IGNORECASE)
_STRAIGHT_QUOTES = str.maketrans("“”„", '"""')


@dataclass(frozen=True, slots=True)
class Term:
    """A word or a phrase.

    Attributes:
        tokens: adjacent tokens; at least one.
        prefix: whether the last token is the prefix of a word.
        written: the term as written in the query, without quotation marks, - and *.
    """

    tokens: tuple[str, ...]
    prefix: bool = False
    written: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """The terms of one alternative."""

    required: tuple[Term, ...]
    excluded: tuple[Term, ...] = ()


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """A valid query.

    Attributes:
        groups: alternatives: an entity matches if it matches one of them; at least one.
        references: the reference IDs that are a whole group, in their standard form.
    """

    groups: tuple[Group, ...]
    references: tuple[str, ...] = ()

    @property
    def has_excluded(self) -> bool:
        return any(group.excluded for group in self.groups)

    def without_excluded(self) -> "ParsedQuery":
        return ParsedQuery(tuple(Group(group.required) for group in self.groups), self.references)


def tokenize(text: str) -> list[str]:
    """Return the tokens of a text: of its first 50,000 characters, counted before and after folding."""
    return [token[:TOKEN_LENGTH] for token in _TOKEN.findall(_fold(text[:DESCRIPTION_LENGTH])[:DESCRIPTION_LENGTH])]


def _fold(text: str) -> str:
    """Remove case, accents and compatibility forms: Å becomes a, ﬁ becomes fi, Ⅻ becomes xii, ß becomes ss."""
    if text.isascii():
        return text.lower()
    # twice, because case folding can produce characters that decompose again
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    return "".join(character for character in folded if not unicodedata.category(character).startswith("M"))


def parse_reference(query: str) -> str | None:
    """Return the reference ID in a query or term in its standard form, such as "EP-012" for "ep-12"; else None."""
    match = _REFERENCE.fullmatch(query.strip())
    return format_reference(BY_PREFIX[match[1].upper()], int(match[2])) if match else None


def parse_query(query: str) -> ParsedQuery:
    if len(query) > QUERY_LENGTH:
        raise _refuse(f"It has {len(query)} characters; the maximum is {QUERY_LENGTH}.")
    text = query.translate(_STRAIGHT_QUOTES)
    if text.count('"') % 2:
        raise _refuse("A quotation mark is not closed.")
    groups = _parse_groups(_TERM.finditer(text))
    if sum(len(term.tokens) for group in groups for term in group.required + group.excluded) > QUERY_TOKENS:
        raise _refuse(f"Its words and phrases have more than {QUERY_TOKENS} tokens.")
    return ParsedQuery(groups, tuple(filter(None, map(_parse_group_reference, groups))))


def _parse_groups(matches: Iterable[re.Match[str]]) -> tuple[Group, ...]:
    sides: list[list[tuple[bool, Term]]] = [[]]
    for match in matches:
        if match[0] == "OR":
            sides.append([])
        elif match[0] != "AND" and (term := _parse_term(match)):  # AND is optional
            sides[-1].append((bool(match["minus"]), term))
    if not any(sides):
        raise _refuse("It contains no words.")
    if not all(sides):
        raise _refuse("OR needs words on both sides.")
    if sum(map(len, sides)) > QUERY_TERMS:
        raise _refuse(f"It has more than {QUERY_TERMS} words and phrases.")
    return tuple(map(_make_group, sides))


def _make_group(terms: list[tuple[bool, Term]]) -> Group:
    required = tuple(term for negative, term in terms if not negative)
    if not required:
        raise _refuse("It contains only excluded words. Each side of an OR needs a word without a minus sign.")
    return Group(required, tuple(term for negative, term in terms if negative))


def _parse_term(match: re.Match[str]) -> Term | None:
    """Return the term; None if it contains only punctuation, which is not searched."""
    word = match["word"]
    written = match["phrase"] if word is None else word.rstrip("*")
    tokens = tokenize(written)
    prefix = bool(match["star"]) if word is None else word.endswith("*")
    return Term(tuple(tokens), prefix, written) if tokens else None


def _parse_group_reference(group: Group) -> str | None:
    if len(group.required) > 1 or group.excluded or group.required[0].prefix:
        return None
    return parse_reference(group.required[0].written)


def _refuse(reason: str) -> InvalidTemplateVariable:
    return InvalidTemplateVariable("The search query is not valid.", details=reason, suggested_actions=_EXAMPLES)


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
        labels = [weight] * len(term.tokens)
        labels[-1] = f"*{weight}" if term.prefix else weight
        lexemes = [f"'{token}':{label}".removesuffix(":") for token, label in zip(term.tokens, labels, strict=True)]
        return f"({' <-> '.join(lexemes)})"

    def compile_group(group: Group) -> str:
        required = [compile_term(one, "A" if in_title else "") for one in group.required]
        return " & ".join([*required, *(f"!{compile_term(one)}" for one in group.excluded)])

    return " | ".join(f"({compile_group(one)})" for one in query.groups)
