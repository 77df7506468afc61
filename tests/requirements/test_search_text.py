"""How texts are split into words, and which queries are valid."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quilt_mcp.core.errors import InvalidTemplateVariable
from quilt_mcp.requirements.search_text import (
    Group,
    ParsedQuery,
    Term,
    compile_fts5,
    compile_tsquery,
    compile_tsvector,
    parse_query,
    parse_reference,
    select_tokens,
    tokenize,
)


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
def test_letters_and_digits_form_tokens(text: str, tokens: list[str]) -> None:
    assert tokenize(text) == tokens


def test_only_the_first_50_000_characters_count() -> None:
    assert tokenize("ab " * 20_000)[-2:] == ["ab", "ab"]
    assert len(tokenize("ab " * 20_000)) == 50_000 // 3 + 1
    assert len("".join(tokenize("\N{ARABIC LIGATURE SALLALLAHOU ALAYHE WASALLAM}" * 5_000))) <= 50_000


@given(st.text())
def test_tokenizing_tokens_returns_the_same_tokens(text: str) -> None:
    tokens = tokenize(text)
    assert tokenize(" ".join(tokens)) == tokens
    assert all(token.isalnum() and len(token) <= 64 for token in tokens)


def word(text: str, *, prefix: bool = False) -> Term:
    return Term(tuple(tokenize(text)), prefix, text)


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
def test_a_query_is_parsed(query: str, groups: list[Group]) -> None:
    assert parse_query(query) == ParsedQuery(tuple(groups))


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("", "no words"),
        (" \t", "no words"),
        ("* & '' \x00 \ud800 🚀", "no words"),
        ('""', "no words"),
        ("AND", "no words"),
        ("OR", "no words"),
        ("-a", "only excluded words"),
        ('-"a b" -c', "only excluded words"),
        ("a OR -b", "only excluded words"),
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
def test_an_invalid_query_is_refused_with_the_reason(query: str, reason: str) -> None:
    with pytest.raises(InvalidTemplateVariable) as refused:
        parse_query(query)
    assert reason in str(refused.value.details)
    examples = [action.partition("for example: ")[2] for action in refused.value.suggested_actions]
    assert examples
    for example in examples:
        assert parse_query(example).groups


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
def test_a_reference_id_is_parsed(query: str, reference: str | None) -> None:
    assert parse_reference(query) == reference


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
def test_a_group_that_is_a_reference_id_finds_its_entity(query: str, references: tuple[str, ...]) -> None:
    assert parse_query(query).references == references


@given(st.text(alphabet=st.one_of(st.sampled_from("ab\"*-OR '\\:&|!<>()\x00\ud800é"), st.characters()), max_size=60))
def test_compiled_terms_contain_only_letters_and_digits(text: str) -> None:
    try:
        query = parse_query(text)
    except InvalidTemplateVariable:
        return
    for in_title in (False, True):
        for token in re.findall(r'"([^"]*)"', compile_fts5(query, in_title=in_title)):
            assert tokenize(token) == token.split(" ")
        assert re.fullmatch(r"((title : )?\"[^\"]+\"( \*)?|[() ]|AND|OR|NOT)+", compile_fts5(query, in_title=in_title))
        assert re.fullmatch(r"('[^\W_]+'(:\*?A?)?|<->|[()!&| ])+", compile_tsquery(query, in_title=in_title))


def test_one_position_between_title_and_body_is_free() -> None:
    assert compile_tsvector(select_tokens("Log in", "in time")) == "'log':1A 'in':2A,4 'time':5"


def test_only_256_occurrences_of_a_token_are_indexed() -> None:
    text = select_tokens("", "a b " * 300)
    assert text.body[:512] == ["a", "b"] * 256
    assert set(text.body[512:]) == {"…"}
    assert "…" not in compile_tsvector(text)
