"""The part of Elasticsearch's syntax of query strings that the stack's search understands in the demo.

AND, OR, NOT and parentheses; words, phrases in quotation marks, `field:value`, the wildcards `*` and `?`, and for
numbers `>`, `>=`, `<` and `<=`. A word is found anywhere in a text, also inside of other words: the real search
compares words. Several words without an operator are a phrase here; the operator of the real search is not documented.
Not here: ranges, regular expressions, fuzzy words and boosts.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

TOKEN = re.compile(r'\(|\)|(?:[\w.]+:)?"[^"]*"|[^\s()]+')
FIELD = re.compile(r"([\w.]+):(.+)", re.DOTALL)
WORD = re.compile(r"[\w./-]+")
COMPARISON = re.compile(r"(>=|<=|>|<)(\d+)")
COMPARE: Mapping[str, Callable[[int, int], bool]] = {
    ">=": int.__ge__,
    "<=": int.__le__,
    ">": int.__gt__,
    "<": int.__lt__,
}
KEYWORDS = frozenset({"ext", "key", "ptr_name", "mnfst_workflow.id", "entry_lk", "entry_pk"})
"""The fields that are compared as a whole. The others are searched for words."""

Value = str | int
Has = Callable[["Term"], bool]
"""Returns whether something contains a term."""


class Term(NamedTuple):
    """What is searched for, in lower case: in one field, or in all."""

    field: str | None
    text: str

    def fits(self, field: str, value: Value) -> bool:
        if self.field not in {None, field}:
            return False
        if compared := COMPARISON.fullmatch(self.text):
            return isinstance(value, int) and COMPARE[compared[1]](value, int(compared[2]))
        found = str(value).lower()
        if isinstance(value, int) and self.field is None:
            return False
        if self.field in KEYWORDS:
            return fnmatchcase(found, self.text)
        if {"*", "?"} & set(self.text):
            return any(fnmatchcase(word, self.text) for word in WORD.findall(found))
        return self.text in found


class QueryString:
    """A parsed query string.

    Attributes:
        terms: all terms that are searched for, without those behind NOT.
    """

    def __init__(self, text: str) -> None:
        self.terms: list[Term] = []
        self._tokens = _join_words(TOKEN.findall(text))
        self._test = self._parse_or() if self._tokens else lambda _: True

    def fits(self, has: Has) -> bool:
        return self._test(has)

    def _take(self, *tokens: str) -> str | None:
        return self._tokens.pop(0) if self._tokens and self._tokens[0] in tokens else None

    def _parse_or(self) -> Callable[[Has], bool]:
        tests = [self._parse_and()]
        while self._take("OR"):
            tests.append(self._parse_and())
        return lambda has: any(test(has) for test in tests)

    def _parse_and(self) -> Callable[[Has], bool]:
        tests = [self._parse_one()]
        while self._take("AND") or (self._tokens and self._tokens[0] not in {"OR", ")"}):
            tests.append(self._parse_one())
        return lambda has: all(test(has) for test in tests)

    def _parse_one(self) -> Callable[[Has], bool]:
        if self._take("NOT"):
            kept = list(self.terms)
            test = self._parse_one()
            self.terms = kept
            return lambda has: not test(has)
        if self._take("("):
            inner = self._parse_or() if self._tokens else lambda _: True
            self._take(")")
            return inner
        term = _read_term(self._tokens.pop(0)) if self._tokens else Term(None, "")
        self.terms.append(term)
        return lambda has: has(term)


def _read_term(token: str) -> Term:
    field = FIELD.fullmatch(token)
    text = field[2] if field else token
    return Term(field[1] if field else None, re.sub(r"\\(.)", r"\1", text.strip('"')).lower())


def _join_words(tokens: Sequence[str]) -> list[str]:
    """Return the tokens with adjacent plain words as one."""
    joined, was_word = list[str](), False
    for token in tokens:
        is_word = token not in {"AND", "OR", "NOT", "(", ")"} and not set('*?":') & set(token)
        if is_word and was_word:
            joined[-1] += f" {token}"
        else:
            joined.append(token)
        was_word = is_word
    return joined
