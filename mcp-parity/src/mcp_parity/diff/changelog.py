"""Reads which breaking changes CHANGELOG.md announces."""

import re


def read_announced(changelog: str) -> set[str]:
    """Return the names in backticks in the entries under `### Breaking` of the section [Unreleased]."""
    text = re.sub(r"<!--.*?-->|^```.*?^```", "", changelog, flags=re.DOTALL | re.MULTILINE)
    unreleased = _below(r"## \[Unreleased\][^\n]*", r"##? ", text)
    breaking = _below(r"### Breaking *", r"#{1,3} ", unreleased)
    entries = re.findall(r"^[-*] .*(?:\n(?![-*] |\n).*)*", breaking, re.MULTILINE)
    return {name for entry in entries for name in re.findall(r"`([^`\n]+)`", entry)}


def _below(heading: str, end: str, text: str) -> str:
    """Return the lines between a heading and the end of its section."""
    found = re.search(rf"^{heading}$\n(.*?)(?=^{end}|\Z)", text, re.DOTALL | re.MULTILINE)
    return found[1] if found else ""
