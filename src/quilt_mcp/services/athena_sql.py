"""Which SQL `athena_query` runs: one SELECT, SHOW, DESCRIBE or EXPLAIN of a SELECT, that is known to change nothing.

1. The text is read as Athena's engine, Trino, reads it: into words, quoted names, texts and signs. Comments become
   blanks. Athena gets the text without them, so nothing that it reads was read in another way: sqlglot nests comments,
   and Trino does not.
2. The first word says which statement it is. Only those that are listed here go on.
3. SELECT is parsed by sqlglot in Athena's dialect. Each node of the tree is of a kind that is listed here as one
   that only reads. Functions are allowed as values: Athena has none that changes something. They are not allowed in
   place of a table, because a table function can send a statement to a federated source, and not with a name of
   several parts. `USING EXTERNAL FUNCTION`, with which they call Lambda, is a statement of its own.
4. SHOW and DESCRIBE are not parsed by sqlglot. They have only words, names, texts and some signs, and the second word
   of SHOW is listed.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Literal, NamedTuple

from quilt_mcp.core.errors import InvalidArguments

if TYPE_CHECKING:
    from sqlglot import exp

LARGEST_SQL = 250_000
"""The bytes of a statement. The maximum of Athena is 262,144."""
DEEPEST = 100
"""The parentheses around each other. sqlglot calls itself for each."""
TOKEN = re.compile(
    r"""
    (?P<comment>--[^\r\n]*|/\*.*?\*/)
    |(?P<text>'(?:[^']|'')*')
    |(?P<name>"(?:[^"]|"")*"|`(?:[^`]|``)*`)
    |(?P<word>[\w$@]+)
    |(?P<blank>\s+)
    |(?P<sign>.)
    """,
    re.VERBOSE | re.DOTALL,
)
UNCLOSED = frozenset("'\"`")
SHOWN = frozenset(
    {"CATALOGS", "COLUMNS", "CREATE", "DATABASES", "PARTITIONS", "SCHEMAS", "TABLES", "TBLPROPERTIES", "VIEWS"}
)
SIGNS_OF_SHOW = frozenset(".,()=")
ONE_SELECT = "Send one SELECT, SHOW, DESCRIBE, or EXPLAIN of a SELECT."
KNOWN = frozenset({"SELECT", "WITH", "SHOW", "DESCRIBE", "EXPLAIN"})
NODES = (
    # the statement and its parts
    *("Select", "Union", "Intersect", "Except", "Subquery", "With", "CTE", "From", "Join", "Where", "Group", "Having"),
    *("Order", "Ordered", "Limit", "Offset", "Fetch", "Distinct", "Values", "Window", "WindowSpec", "Qualify"),
    *("GroupingSets", "Cube", "Rollup", "TableSample", "Version", "MatchRecognize", "MatchRecognizeMeasure"),
    # names
    *("Table", "TableAlias", "Alias", "Column", "Identifier", "Star", "Var", "Dot", "Unnest", "Lateral"),
    # values; operators and functions are below
    *("Literal", "National", "UnicodeString", "HexString", "Boolean", "Null", "Parameter", "Tuple", "Array", "Struct"),
    *("Interval", "IntervalSpan", "DataType", "DataTypeParam", "ColumnDef", "Lambda", "Kwarg", "PropertyEQ", "Slice"),
    *("Bracket", "Filter", "WithinGroup", "IgnoreNulls", "RespectNulls", "AtTimeZone", "JSONPath", "JSONPathRoot"),
    *("JSONPathKey", "JSONPathSubscript", "JSONPathWildcard", "JSONPathSlice", "JSONPathRecursive", "JSONPathUnion"),
    *("JSONPathFilter", "JSONPathScript", "JSONPathSelector", "JSONKeyValue", "FormatJson", "OverflowTruncateBehavior"),
    *("JSONValue", "JSONExtractQuote", "OnCondition", "LimitOptions"),
)
"""The names of the classes of sqlglot that only read."""
FAMILIES = ("Func", "Binary", "Unary", "Predicate")
"""Classes whose subclasses are operators and functions."""
HINTS: Mapping[str, str] = {
    "UNLOAD": "Run the SELECT alone: its results are stored in S3 anyway.",
    "USING": "Leave out the external function: it runs code in AWS Lambda.",
    "PREPARE": "Send the SELECT itself, with its values.",
    "EXECUTE": "Send the SELECT itself, with its values.",
    "DESC": "Write DESCRIBE.",
    "VALUES": "Write SELECT * FROM (VALUES ...).",
    "TABLE": "Write SELECT * FROM the table.",
}


class TableName(NamedTuple):
    """A table in a statement; a part that it does not have is empty."""

    catalog: str
    database: str
    name: str


class Statement(NamedTuple):
    """A statement that may run.

    Attributes:
        kind: what it is.
        sql: its text without comments and without a semicolon at its end.
        tables: the tables that it reads, without those that it defines; those of SHOW and DESCRIBE are not known.
    """

    kind: Literal["SELECT", "SHOW", "DESCRIBE", "EXPLAIN"]
    sql: str
    tables: Sequence[TableName] = ()


class _Token(NamedTuple):
    kind: str
    text: str


def read_statement(sql: str) -> Statement:
    """Return the one statement in a text.

    Raises:
        InvalidArguments: it is not one, or not one that is known to change nothing. The message says why.
    """
    if len(sql.encode("utf-8", "replace")) > LARGEST_SQL:
        raise _refuse(f"The statement has more than {LARGEST_SQL} bytes.", "Send a shorter statement.")
    tokens = _strip(_tokenize(sql))
    if not tokens:
        raise _refuse("There is no statement.", ONE_SELECT)
    if any(one == _Token("sign", ";") for one in tokens):
        raise _refuse("There is more than one statement: a semicolon is not at the end.", ONE_SELECT)
    words = [one for one in tokens if one.kind != "blank"]
    text, first = "".join(one.text for one in tokens), words[0].text.upper()
    if first in {"SHOW", "DESCRIBE"}:
        return _check_show(words, text)
    if first == "EXPLAIN":
        inner = "".join(one.text for one in _skip_explain(tokens))
        return Statement("EXPLAIN", text, _parse_select(inner))
    if first not in {"SELECT", "WITH", "("}:
        hint = HINTS.get(first, "For a statement that changes something, use the AWS console or your own tools.")
        raise _refuse(f"A statement that begins with {words[0].text[:40]!a} does not run here.", ONE_SELECT, hint)
    return Statement("SELECT", text, _parse_select(text))


def _refuse(reason: str, *actions: str) -> InvalidArguments:
    return InvalidArguments(reason, suggested_actions=actions)


def _tokenize(sql: str) -> list[_Token]:
    """Split a text as Trino does. Comments become a blank."""
    found, depth = list[_Token](), 0
    for match in TOKEN.finditer(sql):
        kind, text = str(match.lastgroup), match[0]
        if kind == "sign" and text in UNCLOSED:
            raise _refuse(f"A text or a name begins with {text} and does not end.", "Close it.")
        if kind == "sign" and sql.startswith("/*", match.start()):
            raise _refuse("A comment begins with /* and does not end.", "Close it, or remove it.")
        depth += {"(": 1, ")": -1}.get(text, 0) if kind == "sign" else 0
        if depth > DEEPEST:
            raise _refuse(f"More than {DEEPEST} parentheses are around each other.", "Use WITH for the inner parts.")
        found.append(_Token("blank", " ") if kind == "comment" else _Token(kind, text))
    return found


def _strip(tokens: Sequence[_Token]) -> list[_Token]:
    """Leave out blanks at both ends, and the semicolon at the end."""
    found = [*tokens]
    while found and found[0].kind == "blank":
        found.pop(0)
    while found and found[-1].kind == "blank":
        found.pop()
    if found and found[-1] == _Token("sign", ";"):
        found.pop()
        return _strip(found)
    return found


def _check_show(words: Sequence[_Token], text: str) -> Statement:
    """Check SHOW and DESCRIBE, which have no inner statements."""
    if odd := next((one.text for one in words if one.kind == "sign" and one.text not in SIGNS_OF_SHOW), None):
        raise _refuse(f"{words[0].text.upper()} cannot contain {odd!a}.", "Write names in backquotes.")
    if words[0].text.upper() == "DESCRIBE":
        return Statement("DESCRIBE", text)
    shown = words[1].text.upper() if len(words) > 1 else ""
    if shown not in SHOWN:
        raise _refuse(f"SHOW {shown[:40]} does not run here.", f"Use SHOW with one of: {', '.join(sorted(SHOWN))}.")
    return Statement("SHOW", text)


def _skip_explain(tokens: Sequence[_Token]) -> Sequence[_Token]:
    """Return what EXPLAIN explains, without its options."""
    at = 1
    while at < len(tokens) and (tokens[at].kind == "blank" or tokens[at].text.upper() in {"ANALYZE", "VERBOSE"}):
        at += 1
    if at < len(tokens) and tokens[at].text == "(":
        inside = [one.text.upper() for one in tokens[at:] if one.kind != "blank"]
        if inside[1:2] in (["FORMAT"], ["TYPE"]):
            at += next((offset for offset, one in enumerate(tokens[at:]) if one.text == ")"), len(tokens)) + 1
    return tokens[at:]


def _parse_select(sql: str) -> list[TableName]:
    """Return the tables of a SELECT.

    Raises:
        InvalidArguments: it is not one, or it has a part that is not known to only read.
    """
    import sqlglot  # noqa: PLC0415 - heavy, and only queries need it
    from sqlglot import exp  # noqa: PLC0415 - as above

    words = sql.split(None, 1)
    if not words or not re.match(r"(?i)(select|with)\b|\(", words[0]):
        raise _refuse("Only a SELECT can be explained here.", ONE_SELECT)
    try:
        found = sqlglot.parse(sql, read="athena")
    except (sqlglot.errors.SqlglotError, RecursionError) as error:
        raise _refuse(_describe_error(error), "Correct the statement. Names with - need double quotes.") from error
    if len(found) != 1 or not isinstance(found[0], exp.Select | exp.SetOperation | exp.Subquery):
        raise _refuse("This is not one SELECT.", ONE_SELECT)
    for node in found[0].walk():
        _check_node(node)
    return [*_list_tables(found[0])]


def _describe_error(error: Exception) -> str:
    """Say where a statement cannot be parsed. The rest of the message repeats the statement."""
    where = (getattr(error, "errors", None) or [{}])[0]
    if where.get("line"):
        return f"The statement cannot be parsed: line {where['line']}, column {where['col']}."
    return "The statement cannot be parsed."


@cache
def _load_allowed() -> tuple[frozenset[type], tuple[type, ...]]:
    from sqlglot import exp  # noqa: PLC0415 - heavy, and only queries need it

    kinds = frozenset(getattr(exp, name) for name in NODES if hasattr(exp, name))
    return kinds, tuple(getattr(exp, name) for name in FAMILIES)


def _check_node(node: "exp.Expr") -> None:
    """Check that a part of a SELECT only reads.

    Raises:
        InvalidArguments: it is not known to.
    """
    from sqlglot import exp  # noqa: PLC0415 - heavy, and only queries need it

    kinds, families = _load_allowed()
    if type(node) not in kinds and not isinstance(node, families):
        name = type(node).__name__.upper()
        raise _refuse(f"The statement contains {name}, which is not known to only read.", ONE_SELECT)
    if isinstance(node, exp.Table) and not isinstance(node.this, exp.Identifier):
        action = "Name a table. Of functions, only UNNEST can be in its place."
        raise _refuse("A function is in the place of a table. It can send statements to another source.", action)
    if isinstance(node, exp.Lateral) and not isinstance(node.this, exp.Subquery | exp.Unnest):
        raise _refuse("LATERAL has a function that is not known to only read.", "Use a subquery or UNNEST.")
    if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Func):
        raise _refuse("A function has a name of several parts.", "Use Athena's own functions, which have one part.")


def _list_tables(tree: "exp.Expr") -> Iterator[TableName]:
    from sqlglot import exp  # noqa: PLC0415 - heavy, and only queries need it

    defined = {one.alias_or_name.lower() for one in tree.find_all(exp.CTE)}
    for table in tree.find_all(exp.Table):
        name = TableName(table.catalog, table.db, table.name)
        if name.database or name.name.lower() not in defined:
            yield name
