"""What the search takes for a word, and the language of its queries.

Texts and queries become tokens here, before either database sees them, so that SQLite and PostgreSQL find the same:
case and accents are folded, letters and digits make tokens, all else separates them. There is no stemming.

    query    words of a group are all wanted, in any order; groups are separated by OR
    "a b"    a phrase: the words follow each other
    log*     words that begin so
    -word    must not occur; -"a b" neither. Each group needs something that is wanted.
    EP-12    alone in a group: the entity of this reference id as well
"""

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from quilt_mcp.errors import InvalidTemplateVariable
from quilt_mcp.requirements.kinds import BY_PREFIX, DESCRIPTION_LENGTH, format_reference

QUERY_LENGTH = 512
"""Characters in a query, at most."""
QUERY_TERMS = 16
"""Words and phrases in a query, at most."""
QUERY_TOKENS = 128
"""Tokens in all of a query's terms together, at most."""
TOKEN_LENGTH = 64
"""Characters of a token that count."""

_EXAMPLES = (
    'Give words that all have to occur, for example: login "session timeout" token* -legacy',
    "Between alternatives put OR, for example: login OR sign-in",
)
# Chinese and Japanese put no blanks between words: each character is a token, and what is written together a phrase.
_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003fffd"
_TOKEN = re.compile(rf"(?=[^\W_])[{_UNSPACED}]|[^\W_{_UNSPACED}]+")
_TERM = re.compile(r'(?P<minus>-?)(?:"(?P<phrase>[^"]*)"(?P<star>\*?)|(?P<word>[^\s"]+))')
_REFERENCE = re.compile(rf"({'|'.join(BY_PREFIX)})-([0-9]{{1,9}})", re.ASCII | re.IGNORECASE)
_STRAIGHT_QUOTES = str.maketrans("“”„", '"""')


@dataclass(frozen=True, slots=True)
class Term:
    """A word or a phrase.

    Attributes:
        tokens: they follow each other in the text; at least one.
        prefix: whether the last one is only the beginning of a word.
        written: the term as it stands in the query, without its quotation marks, - and *.
    """

    tokens: tuple[str, ...]
    prefix: bool = False
    written: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """What has to be true of one entity.

    Attributes:
        wanted: all of them occur in it; at least one.
        unwanted: none of them does.
    """

    wanted: tuple[Term, ...]
    unwanted: tuple[Term, ...] = ()


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """A query that can be answered.

    Attributes:
        groups: an entity is found if one of them fits it; at least one.
        references: the reference ids that are asked for, in their usual form.
    """

    groups: tuple[Group, ...]
    references: tuple[str, ...] = ()

    def wanted(self) -> "ParsedQuery":
        """The query without what must not occur."""
        return ParsedQuery(tuple(Group(group.wanted) for group in self.groups), self.references)


def tokens_of(text: str) -> list[str]:
    """The tokens of a text, of its first 50,000 characters before and after folding."""
    return [token[:TOKEN_LENGTH] for token in _TOKEN.findall(_folded(text[:DESCRIPTION_LENGTH])[:DESCRIPTION_LENGTH])]


def _folded(text: str) -> str:
    """The text without case, accents and compatibility forms: Å is a, ﬁ is fi, Ⅻ is xii, ß is ss."""
    if text.isascii():
        return text.lower()
    # twice, because folding the case can bring up what decomposes again
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    return "".join(character for character in folded if not unicodedata.category(character).startswith("M"))


def reference_of(query: str) -> str | None:
    """The reference id that a query or a term is, in its usual form, such as "EP-012" for "ep-12"; else None."""
    match = _REFERENCE.fullmatch(query.strip())
    return format_reference(BY_PREFIX[match[1].upper()], int(match[2])) if match else None


def parse(query: str) -> ParsedQuery:
    """What a query asks for.

    Raises:
        InvalidTemplateVariable: it is too long, has too many terms, a quotation mark that is not closed, an OR
            without words on both sides, or nothing that is to be found.
    """
    if len(query) > QUERY_LENGTH:
        raise _refusal(f"It has {len(query)} characters; at most {QUERY_LENGTH} are allowed.")
    text = query.translate(_STRAIGHT_QUOTES)
    if text.count('"') % 2:
        raise _refusal("A quotation mark is not closed.")
    groups = _groups(_TERM.finditer(text))
    if sum(len(term.tokens) for group in groups for term in group.wanted + group.unwanted) > QUERY_TOKENS:
        raise _refusal(f"Its phrases have more than {QUERY_TOKENS} words.")
    return ParsedQuery(groups, tuple(filter(None, map(_reference_of_group, groups))))


def _groups(matches: Iterable[re.Match[str]]) -> tuple[Group, ...]:
    sides: list[list[tuple[bool, Term]]] = [[]]
    for match in matches:
        if match[0] == "OR":
            sides.append([])
        elif match[0] != "AND" and (term := _term(match)):  # words of a group are all wanted, also without an AND
            sides[-1].append((bool(match["minus"]), term))
    if not any(sides):
        raise _refusal("It holds no words to search for.")
    if not all(sides):
        raise _refusal("An OR needs words on both sides.")
    if sum(map(len, sides)) > QUERY_TERMS:
        raise _refusal(f"It has more than {QUERY_TERMS} words and phrases.")
    return tuple(map(_group, sides))


def _group(terms: list[tuple[bool, Term]]) -> Group:
    wanted = tuple(term for negative, term in terms if not negative)
    if not wanted:
        raise _refusal("It only says what must not occur; name something that is to be found, on each side of an OR.")
    return Group(wanted, tuple(term for negative, term in terms if negative))


def _term(match: re.Match[str]) -> Term | None:
    """The term; None if there is nothing but punctuation, which no text is searched for."""
    word = match["word"]
    written = match["phrase"] if word is None else word.rstrip("*")
    tokens = tokens_of(written)
    prefix = bool(match["star"]) if word is None else word.endswith("*")
    return Term(tuple(tokens), prefix, written) if tokens else None


def _reference_of_group(group: Group) -> str | None:
    if len(group.wanted) > 1 or group.unwanted or group.wanted[0].prefix:
        return None
    return reference_of(group.wanted[0].written)


def _refusal(reason: str) -> InvalidTemplateVariable:
    return InvalidTemplateVariable("The search query cannot be used.", details=reason, suggested_actions=_EXAMPLES)
