"""Write an answer as JSON, without the parts of the `json` module that code can subclass, patch or configure.

Only exact types are written: a subclass could show other content than it has.
"""

from collections.abc import Iterator
from json.encoder import encode_basestring_ascii

from quilt_mcp.analysis.messages import ANSWER_DEPTH, ANSWER_ITEMS, ANSWER_TEXT

_KINDS = frozenset({type(None), bool, str, int, float, dict, list, tuple})


class Unwritable(Exception):
    """The answer has a value of another type, is nested too deeply, or has too many items in one place."""


def write_json(value: object) -> bytes:
    """Return the value as one line of JSON. Texts longer than ANSWER_TEXT are cut.

    Raises:
        Unwritable: the value cannot be written.
    """
    return "".join(_write(value, 0)).encode("ascii")


def _write(value: object, depth: int) -> Iterator[str]:
    kind = type(value)
    if kind not in _KINDS:
        raise Unwritable
    if value is None or isinstance(value, bool):
        yield "null" if value is None else "true" if value else "false"
    elif isinstance(value, str):
        yield _write_text(value)
    elif isinstance(value, int):
        yield int.__repr__(value)
    elif isinstance(value, float):
        if value - value != 0:
            raise Unwritable  # it is infinite or not a number
        yield float.__repr__(value)
    elif isinstance(value, dict | list | tuple):
        if len(value) > ANSWER_ITEMS or depth >= ANSWER_DEPTH:
            raise Unwritable
        yield from _write_container(value, depth + 1)


def _write_container(value: dict[object, object] | list[object] | tuple[object, ...], depth: int) -> Iterator[str]:
    separator = ""
    if isinstance(value, dict):
        yield "{"
        for key, one in value.items():
            if type(key) is not str:
                raise Unwritable
            yield f"{separator}{_write_text(key)}: "
            yield from _write(one, depth)
            separator = ", "
        yield "}"
        return
    yield "["
    for one in value:
        yield separator
        yield from _write(one, depth)
        separator = ", "
    yield "]"


def _write_text(text: str) -> str:
    return encode_basestring_ascii(text if len(text) <= ANSWER_TEXT else text[: ANSWER_TEXT - 1] + "…")
