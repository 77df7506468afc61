"""Which SQL `athena_query` runs. A statement that is not known to change nothing is refused, with a reason."""

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quilt_mcp.core.errors import InvalidArguments
from quilt_mcp.services.athena_sql import LARGEST_SQL, NODES, TableName, read_statement

ALLOWED = [
    "SELECT 1",
    r"select '\d+' ; ",
    "(SELECT 1) UNION ALL (SELECT 2)",
    "WITH a AS (SELECT 1 x) SELECT * FROM a",
    "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT * FROM r",
    "SHOW TABLES IN `a-b`",
    "SHOW CREATE TABLE x.y",
    "SHOW PARTITIONS x",
    "SHOW TBLPROPERTIES x('a')",
    "DESCRIBE EXTENDED a.b",
    "EXPLAIN (FORMAT JSON) SELECT 1",
    "EXPLAIN ANALYZE SELECT 1 -- x",
    "EXPLAIN (SELECT 1)",
    "SELECT try_cast(a AS map(varchar, array(row(x int)))), a[1], filter(a, x -> x > 1) FROM t",
    "SELECT count(*) FILTER (WHERE x), rank() OVER (ORDER BY b ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)",
    "SELECT DATE '1969-07-20', INTERVAL '1' DAY, a AT TIME ZONE 'UTC', extract(year FROM d), X'65', U&'\\0041'",
    "SELECT a.b.c, \"$path\", json_extract(a, '$.x[0].y'), json_value(a, 'lax $.x') FROM t",
    "SELECT CASE WHEN a BETWEEN 1 AND 2 THEN NULL END FROM t WHERE a LIKE '%x' ESCAPE '!' OR a IS DISTINCT FROM b",
    "SELECT a FROM t GROUP BY GROUPING SETS ((a), (b)), CUBE(a) HAVING 1 = 1 ORDER BY a NULLS LAST OFFSET 1 LIMIT 2",
    "SELECT * FROM t WHERE a = ANY (SELECT 1) AND b > ALL (SELECT 2) AND EXISTS (SELECT 1) AND a IN (SELECT 1)",
    "SELECT t.*, u.a FROM t NATURAL JOIN u FETCH FIRST 5 ROWS ONLY",
    "SELECT * FROM t FOR TIMESTAMP AS OF TIMESTAMP '2020-01-01 00:00:00'",
    "SELECT * FROM t TABLESAMPLE BERNOULLI (10)",
    "SELECT * FROM t CROSS JOIN UNNEST(a, b) WITH ORDINALITY AS x(b, c, n)",
    "SELECT a FROM (VALUES (1), (2)) v(a)",
    "SELECT listagg(a, ',') WITHIN GROUP (ORDER BY a), reduce(x, 0, (s, y) -> s + y, s -> s), other(1) FROM t",
    "SELECT sum(x) OVER w FROM t WINDOW w AS (PARTITION BY a)",
    'SELECT * FROM "a$partitions"',
    'SELECT 1 AS "; DROP TABLE x"',
    "SELECT * FROM a CROSS JOIN LATERAL (SELECT 1) x",
]
TWO, CHANGES, FUNCTION = "more than one statement", "not known to only read", "place of a table"
FIRST = "begins with"
REFUSED = {
    "": "There is no statement.",
    " ;; /* x */ -- y": "There is no statement.",
    "SELECT 1; DROP TABLE x": TWO,
    "SELECT 1 -- \n; DROP TABLE x": TWO,
    "select/**/1;/**/drop table x": TWO,
    r"SELECT '\'; DROP TABLE x; --'": TWO,
    "SHOW TABLES; DROP TABLE x": TWO,
    "DESCRIBE x; DROP TABLE x": TWO,
    "/* /* */ DROP TABLE x -- */": FIRST,  # sqlglot nests comments, Trino does not
    "SELECT 1 /* x": "does not end",
    "SELECT 'a": "does not end",
    'SELECT "a': "does not end",
    "CREATE TABLE x AS SELECT 1": FIRST,
    "CREATE VIEW x AS SELECT 1": FIRST,
    "DROP TABLE x": FIRST,
    "INSERT INTO x SELECT 1": FIRST,
    "UPDATE x SET a = 1": FIRST,
    "DELETE FROM x": FIRST,
    "MERGE INTO x USING y ON 1 = 1 WHEN MATCHED THEN DELETE": FIRST,
    "UNLOAD (SELECT 1) TO 's3://x' WITH (format = 'PARQUET')": FIRST,
    "PREPARE a FROM SELECT 1": FIRST,
    "EXECUTE a": FIRST,
    "DEALLOCATE PREPARE a": FIRST,
    "USING EXTERNAL FUNCTION f(x INT) RETURNS INT LAMBDA 'l' SELECT f(1)": FIRST,
    "CALL x()": FIRST,
    "SET a = 1": FIRST,
    "VACUUM x": FIRST,
    "OPTIMIZE x REWRITE DATA USING BIN_PACK": FIRST,
    "MSCK REPAIR TABLE x": FIRST,
    "ALTER TABLE x ADD PARTITION (a = 1)": FIRST,
    "GRANT SELECT ON x TO y": FIRST,
    "VALUES 1": FIRST,
    "TABLE x": FIRST,
    "FROM x": FIRST,
    "WITH a AS (CREATE TABLE x AS SELECT 1) SELECT * FROM a": CHANGES,
    "WITH a AS (INSERT INTO x SELECT 1) SELECT * FROM a": CHANGES,
    "WITH a AS (DELETE FROM x) SELECT 1": CHANGES,
    "SELECT 1 INTO x": CHANGES,
    "SELECT * FROM t FOR UPDATE": CHANGES,
    "WITH a AS (SELECT 1) INSERT INTO x SELECT * FROM a": "not one SELECT",
    "WITH a AS (SELECT 1) DELETE FROM x": "not one SELECT",
    "EXPLAIN ANALYZE INSERT INTO x SELECT 1": "explained",
    "EXPLAIN ANALYZE VERBOSE CREATE TABLE x AS SELECT 1": "explained",
    "EXPLAIN (TYPE LOGICAL) DELETE FROM x": "explained",
    "EXPLAIN EXPLAIN SELECT 1": "explained",
    "EXPLAIN": "explained",
    "EXPLAIN (FORMAT JSON": "explained",
    "SELECT * FROM TABLE(c.system.query(query => 'DROP TABLE x'))": FUNCTION,
    "SELECT * FROM system.query('x')": FUNCTION,
    "SELECT * FROM read_csv('x')": FUNCTION,
    "SELECT c.s.f(1)": "several parts",
    "SELECT * FROM t, LATERAL f(x)": "LATERAL",
    "SHOW GRANTS": "SHOW GRANTS",
    "SHOW TABLES + 1": "cannot contain",
    "DESCRIBE x ?": "cannot contain",
    "SELECT 1 FROM": "line 1, column 13",
    "SELECT " + "(" * 200 + "1" + ")" * 200: "parentheses",
    "SELECT " + "NOT " * 20_000 + "1": "cannot be parsed",
    "SELECT " + "a[" * 20_000 + "1" + "]" * 20_000: "cannot be parsed",
}


@pytest.mark.parametrize("sql", ALLOWED)
def test_a_statement_that_only_reads_runs(sql: str) -> None:
    assert read_statement(sql).kind in {"SELECT", "SHOW", "DESCRIBE", "EXPLAIN"}


@pytest.mark.parametrize("sql", REFUSED, ids=lambda sql: sql[:50])
def test_every_other_statement_is_refused_with_its_reason(sql: str, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(InvalidArguments) as caught:
        read_statement(sql)
    assert REFUSED[sql] in caught.value.message
    assert all(caught.value.suggested_actions)
    assert [one for one in caplog.records if one.levelno >= logging.WARNING] == []  # sqlglot warns of some


def test_a_statement_has_at_most_250_kb() -> None:
    with pytest.raises(InvalidArguments, match="more than 250000 bytes"):
        read_statement(f"SELECT '{'ä' * 150_000}'")
    assert len(read_statement(f"SELECT '{'x' * (LARGEST_SQL - 9)}'").sql) == LARGEST_SQL


def test_athena_gets_no_comments_and_no_semicolon() -> None:
    assert read_statement("-- a; b\nSELECT '--', /* ' */ 1;; -- x").sql == "SELECT '--',   1"


def test_the_tables_are_those_that_the_statement_does_not_define() -> None:
    sql = 'WITH a AS (SELECT * FROM b) SELECT * FROM a, x."c-d".e JOIN f.g USING (id), d.a'
    tables = {TableName("", "", "b"), TableName("x", "c-d", "e"), TableName("", "f", "g"), TableName("", "d", "a")}
    assert set(read_statement(sql).tables) == tables
    assert {*read_statement("EXPLAIN SELECT * FROM t").tables} == {TableName("", "", "t")}


def test_sqlglot_has_the_classes_that_are_allowed() -> None:
    from sqlglot import exp  # noqa: PLC0415 - it takes long to import

    assert [name for name in NODES if not hasattr(exp, name)] == []


WRITES = st.sampled_from(["DROP TABLE x", "INSERT INTO x SELECT 1", "CREATE TABLE x AS SELECT 1"])
HIDING = st.lists(
    st.sampled_from(["'", '"', "`", "\\", "--", "/*", "*/", "\n", ";", " ", "SELECT 1", "(", ")", "$$", "#", "U&"]),
    max_size=12,
).map("".join)


@given(HIDING, WRITES, HIDING)
def test_nothing_hides_a_statement_that_writes(before: str, write: str, after: str) -> None:
    """What runs has the write in a text or a name only: it is no word of the statement."""
    try:
        sql = read_statement(f"SELECT {before} {write} {after}").sql
    except InvalidArguments:
        return
    kept, quote = list[str](), ""
    for sign in sql:
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "'\"`":
            quote = sign
        else:
            kept.append(sign)
    words = "".join(kept).upper()
    assert not any(word in words.split() for word in ("DROP", "INSERT", "CREATE"))
