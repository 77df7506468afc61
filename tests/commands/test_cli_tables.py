"""JSON as tables, in terminals of several widths."""

from io import StringIO
from typing import Any

import pytest

from quilt_mcp.console.output import complain, console_on, document, show, show_json


def drawn(data: dict[str, Any], width: int = 80) -> list[str]:
    stream = StringIO()
    console = console_on(stream)
    console.width = width
    console.print(document(data))
    return [line.rstrip() for line in stream.getvalue().splitlines()]


def test_plain_fields_come_first_and_objects_under_their_names() -> None:
    data = {"user": {"name": "ada", "roles": ["a", "b"]}, "ok": True, "until": None, "left": 0}
    assert drawn(data) == ["ok     yes", "until  -", "left   0", "", "user", "  name   ada", "  roles  a", "         b"]


def test_objects_of_one_kind_are_rows() -> None:
    lines = drawn({"buckets": [{"name": "one", "size": 1}, {"name": "two", "tags": {"a": 1, "b": [2]}}]})
    assert lines[2:] == [
        "  name  size  tags",
        f"  {'─' * (len(lines[3]) - 2)}",
        "  one   1     -",
        "  two   -     a: 1, b: 2",
    ]


def test_named_objects_are_rows_that_start_with_their_names() -> None:
    lines = drawn({"directories": {"data": {"path": "/a"}, "cache": {"path": "/b"}}})
    assert [line.split() for line in lines[4:]] == [["data", "/a"], ["cache", "/b"]]


def test_rows_that_are_too_wide_become_blocks() -> None:
    row = {"name": "one", "text": "x" * 30}
    assert drawn({"rows": [row, row]}, width=36)[2:] == [
        "  name  one",
        f"  text  {'x' * 28}",
        "        xx",
        "",
        "  name  one",
        f"  text  {'x' * 28}",
        "        xx",
    ]
    named = drawn({"rows": {"first": {"text": "x" * 30}}}, width=36)
    assert named[2:4] == ["  first", f"    text  {'x' * 26}"]


def test_values_cannot_control_the_terminal() -> None:
    lines = drawn({"name": "[red]\x1b[2J\x07:smile:\x9b"})
    assert lines == ["name  [red]␛[2J␇:smile:\ufffd"]
    assert drawn({"a": "x\u2028y\u202ez"}) == ["a  x\ufffdy\ufffdz"]


def test_names_and_errors_cannot_control_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"reference_id": "1", "in\x1b[2J": [{"reference_id": "2"}]}]
    for data in ({"\x1b[2J": 1}, {"\x1b[2J": {"a": {"b": 1}}}, {"a": [{"\x1b[2J": 1}]}, {"a": rows}):
        shown = "\n".join(drawn(data))
        assert ("␛[2J" in shown, "\x1b" in shown) == (True, False), data
    complain("a\x1b[2J")
    show("a\x9bb\u2028c")
    assert capsys.readouterr() == ("a\ufffdb\ufffdc\n", "a␛[2J\n")
    show_json({"a\x9b": "\x7f\u202e\n\x1b\u00e4"})
    assert capsys.readouterr().out == '{\n  "a\\u009b": "\\u007f\\u202e\\n\\u001b\u00e4"\n}\n'


def test_a_list_of_mixed_values_is_shown_completely() -> None:
    lines = drawn({"mixed": [{"a": 1}, "plain"]})
    assert any("plain" in line for line in lines)
    assert any("1" in line for line in lines)


def test_the_first_rows_of_a_file_are_a_table() -> None:
    columns = [{"name": "sample", "type": "string"}, {"name": "n", "type": "int64"}]
    lines = drawn({"size": 9, "table": {"columns": columns, "rows": [["L1", 1], ["L2", None]], "row_count": 2}})
    assert [" ".join(line.split()) for line in lines] == [
        "size 9",
        "",
        "table",
        "sample n",
        "string int64",
        lines[5].strip(),
        "L1 1",
        "L2 -",
        "",
        "row_count 2",
    ]
    odd = drawn({"table": {"columns": columns, "rows": "none"}})
    assert any("none" in line for line in odd)
