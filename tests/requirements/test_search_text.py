"""What counts as a word, and which queries can be used."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quilt_mcp.errors import InvalidTemplateVariable
from quilt_mcp.requirements.search_compile import fts5, indexed_text, to_tsquery, tsquery, tsvector
from quilt_mcp.requirements.search_text import Group, ParsedQuery, Term, parse, reference_of, tokens_of


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Login page", ["login", "page"]),
        ("naïve CAFÉ Åse", ["naive", "cafe", "ase"]),
        ("cafe\u0301", ["cafe"]),
        ("Straße ﬁne Ⅻ \uff12 x²", ["strasse", "fine", "xii", "2", "x2"]),
        ("don't stop", ["don", "t", "stop"]),
        ("foo_bar-baz user@example.com v1.2.3", ["foo", "bar", "baz", "user", "example", "com", "v1", "2", "3"]),
        ("ЁЖИК ёлка", ["ежик", "елка"]),
        ("ΟΔΟΣ οδος", ["οδοσ", "οδοσ"]),
        ("日本語でログインok", ["日", "本", "語", "て", "ロ", "ク", "イ", "ン", "ok"]),
        ("हिन्दी भाषा", ["हनद", "भष"]),
        ("مَرْحَبًا שָׁלוֹם", ["مرحبا", "שלום"]),
        ("a🚀b\u200bc\x00d\ud800e", ["a", "b", "c", "d", "e"]),
        ("... --- '\"", []),
        ("x" * 100, ["x" * 64]),
    ],
)
def test_letters_and_digits_make_tokens(text: str, tokens: list[str]) -> None:
    assert tokens_of(text) == tokens


def test_only_the_first_50_000_characters_count() -> None:
    assert tokens_of("ab " * 20_000)[-2:] == ["ab", "ab"]
    assert len(tokens_of("ab " * 20_000)) == 50_000 // 3 + 1
    assert len("".join(tokens_of("\N{ARABIC LIGATURE SALLALLAHOU ALAYHE WASALLAM}" * 50_000))) <= 50_000


@given(st.text())
def test_tokens_stay_what_they_are(text: str) -> None:
    tokens = tokens_of(text)
    assert tokens_of(" ".join(tokens)) == tokens
    assert all(token.isalnum() and len(token) <= 64 for token in tokens)


def word(text: str, *, prefix: bool = False) -> Term:
    return Term(tuple(tokens_of(text)), prefix, text)


@pytest.mark.parametrize(
    ("query", "groups"),
    [
        ("Login page", [Group((word("Login"), word("page")))]),
        ('"login page"', [Group((word("login page"),))]),
        ("“login page”", [Group((word("login page"),))]),
        ("log*", [Group((word("log", prefix=True),))]),
        ('"login pa"*', [Group((word("login pa", prefix=True),))]),
        ("sign-in", [Group((word("sign-in"),))]),
        ("a OR b c", [Group((word("a"),)), Group((word("b"), word("c")))]),
        ("a AND b", [Group((word("a"), word("b")))]),
        ('a or "OR"', [Group((word("a"), word("or"), word("OR")))]),
        ('a -b -"c d"', [Group((word("a"),), (word("b"), word("c d")))]),
        ("-b a", [Group((word("a"),), (word("b"),))]),
        ("C++ & (beta) - *", [Group((word("C++"), word("(beta)")))]),
        ('foo"bar baz"qux', [Group((word("foo"), word("bar baz"), word("qux")))]),
        ('"" a', [Group((word("a"),))]),
        (" ".join("abcdefghijklmnop"), [Group(tuple(map(word, "abcdefghijklmnop")))]),
    ],
)
def test_a_query_says_what_is_wanted(query: str, groups: list[Group]) -> None:
    assert parse(query) == ParsedQuery(tuple(groups))


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("", "no words"),
        (" \t", "no words"),
        ("* & '' \x00 \ud800 🚀", "no words"),
        ('""', "no words"),
        ("AND", "no words"),
        ("OR", "no words"),
        ("-a", "must not occur"),
        ('-"a b" -c', "must not occur"),
        ("a OR -b", "must not occur"),
        ('"a b', "not closed"),
        ('a "b" c"', "not closed"),
        ("OR a", "both sides"),
        ("a OR", "both sides"),
        ("a OR OR b", "both sides"),
        ("a OR * OR b", "both sides"),
        ("a " * 17, "more than 16"),
        ('"' + "a " * 129 + '"', "more than 128"),
        ("a" * 513, "513 characters"),
        ("a" * 65_536, "65536 characters"),
    ],
)
def test_a_query_that_cannot_be_used_is_refused_with_the_reason(query: str, reason: str) -> None:
    with pytest.raises(InvalidTemplateVariable) as refused:
        parse(query)
    assert reason in str(refused.value.details)
    examples = [action.partition("for example: ")[2] for action in refused.value.suggested_actions]
    assert examples
    for example in examples:
        assert parse(example).groups


@pytest.mark.parametrize(
    ("query", "reference"),
    [
        ("EP-001", "EP-001"),
        ("ep-1", "EP-001"),
        (" Us-0012 ", "US-012"),
        ("REQ-999", "REQ-999"),
        ("req-1000", "REQ-1000"),
        ("AC-123456", "AC-123456"),
        ("EP-\u0661", None),
        ("u\N{LATIN SMALL LETTER LONG S}-1", None),
        ("EP-", None),
        ("EP-1234567890", None),
        ("EP1", None),
        ("STD-1", None),
        ("EP-1 login", None),
    ],
)
def test_a_reference_id_is_recognised(query: str, reference: str | None) -> None:
    assert reference_of(query) == reference


@pytest.mark.parametrize(
    ("query", "references"),
    [
        ("ep-1", ("EP-001",)),
        ('"EP-1"', ("EP-001",)),
        ("EP-1 OR login OR us-20000", ("EP-001", "US-20000")),
        ("EP-1 login", ()),
        ("EP-1 -login", ()),
        ("EP-1*", ()),
    ],
)
def test_a_reference_id_alone_asks_for_its_entity(query: str, references: tuple[str, ...]) -> None:
    assert parse(query).references == references


@given(st.text(alphabet=st.one_of(st.sampled_from("ab\"*-OR '\\:&|!<>()\x00\ud800é"), st.characters()), max_size=60))
def test_whatever_a_client_sends_only_letters_and_digits_are_compiled(text: str) -> None:
    try:
        query = parse(text)
    except InvalidTemplateVariable:
        return
    for in_title in (False, True):
        for token in re.findall(r'"([^"]*)"', fts5(query, in_title=in_title)):
            assert tokens_of(token) == token.split(" ")
        assert re.fullmatch(r"((title : )?\"[^\"]+\"( \*)?|[() ]|AND|OR|NOT)+", fts5(query, in_title=in_title))
        assert re.fullmatch(r"('[^\W_]+'(:\*?A?)?|<->|[()!&| ])+", tsquery(query, in_title=in_title))
        assert re.fullmatch(r"('([^'\\\x00]|'')+'(:\*?A?)?|[()!&| ])+", to_tsquery(query, in_title=in_title))


def test_a_title_and_a_body_have_a_position_between_them() -> None:
    assert tsvector(indexed_text("Log in", "in time")) == "'log':1A 'in':2A,4 'time':5"


def test_of_a_token_only_as_many_places_are_indexed_as_a_tsvector_keeps() -> None:
    text = indexed_text("", "a b " * 300)
    assert text.body[:512] == ["a", "b"] * 256
    assert set(text.body[512:]) == {"…"}
    assert "…" not in tsvector(text)
