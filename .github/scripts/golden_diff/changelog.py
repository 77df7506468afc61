"""What CHANGELOG.md announces as breaking."""

import re


def announced(changelog: str) -> set[str]:
    """All that stands in backticks in the entries under `### Breaking` of the section [Unreleased]."""
    text = re.sub(r"<!--.*?-->|^```.*?^```", "", changelog, flags=re.DOTALL | re.MULTILINE)
    unreleased = _below(r"## \[Unreleased\][^\n]*", r"##? ", text)
    breaking = _below(r"### Breaking *", r"#{1,3} ", unreleased)
    entries = re.findall(r"^[-*] .*(?:\n(?![-*] |\n).*)*", breaking, re.MULTILINE)
    return {name for entry in entries for name in re.findall(r"`([^`\n]+)`", entry)}


def _below(heading: str, end: str, text: str) -> str:
    """The lines between a heading and the next that ends its section."""
    found = re.search(rf"^{heading}$\n(.*?)(?=^{end}|\Z)", text, re.DOTALL | re.MULTILINE)
    return found[1] if found else ""
