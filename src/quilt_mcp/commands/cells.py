"""Values of JSON as texts for people."""

from rich.text import Text

EMPTY: tuple[object, ...] = (None, "", [], {})
# Data must not control the terminal: control characters become symbols, except for tab and newline.
VISIBLE = {code: 0x2400 + code for code in range(32) if chr(code) not in "\t\n"} | dict.fromkeys(
    range(127, 160), "\ufffd"
)


def cell(value: object) -> Text:
    """Return a value as text. A list has one line per element."""
    return Text(_format(value).translate(VISIBLE), overflow="fold")


def _format(value: object) -> str:
    if value in EMPTY:
        return "-"
    match value:
        case bool():
            return "yes" if value else "no"
        case dict():
            return ", ".join(f"{key}: {_format(one)}" for key, one in value.items())
        case list():
            return "\n".join(_format(one) for one in value)
    return str(value)
