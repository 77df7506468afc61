"""Bar charts as SVG, for a light and a dark page."""

from collections.abc import Mapping
from html import escape
from typing import NamedTuple

WIDTH, LEFT, RIGHT, TOP, BAR, GAP = 720, 190, 90, 56, 14, 10


class Theme(NamedTuple):
    """The colours of a chart."""

    page: str
    text: str
    bars: tuple[str, str]


THEMES = {
    "light": Theme("#ffffff", "#1f2328", ("#1f6f8b", "#c2571a")),
    "dark": Theme("#0d1117", "#e6edf3", ("#58b6d6", "#f0883e")),
}

Bars = Mapping[str, Mapping[str, float]]
"""By group, the values of its bars by their names. A group can lack a bar."""


def svg(title: str, unit: str, bars: Bars, theme: Theme) -> str:
    """Return the chart as an SVG document. Each bar has its value beside it, and its names as a tooltip."""
    names = list(dict.fromkeys(name for group in bars.values() for name in group))
    longest = max(value for group in bars.values() for value in group.values())
    parts = [_text(12, 22, title, "start", "bold")]
    for number, name in enumerate(names):
        place = LEFT + 110 * number
        parts += [_bar((place, 34), BAR, theme.bars[number]), _text(place + 20, 45, name)]
    top = TOP
    for label, group in bars.items():
        middle = top + len(group) * BAR / 2 + 4
        parts.append(_text(LEFT - 8, middle, label, "end"))
        for name, value in group.items():
            width = round((WIDTH - LEFT - RIGHT) * value / longest, 1)
            tooltip = f"<title>{escape(f'{label}, {name}: {value:,.0f} {unit}')}</title>"
            parts.append(_bar((LEFT, top), width, theme.bars[names.index(name)], tooltip))
            parts.append(_text(LEFT + width + 6, top + BAR - 4, f"{value:,.0f} {unit}"))
            top += BAR
        top += GAP
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" font-family="sans-serif" role="img">\n'
        f"<style>text {{ font-size: 12px; fill: {theme.text} }}</style>\n"
        f'<rect width="{WIDTH}" height="{top}" fill="{theme.page}"/>'
    )
    return "\n".join([head, *parts, "</svg>\n"])


def _bar(corner: tuple[float, float], width: float, colour: str, inside: str = "") -> str:
    x, y = corner
    return f'<rect x="{x}" y="{y}" width="{width}" height="{BAR - 2}" fill="{colour}">{inside}</rect>'


def _text(x: float, y: float, content: str, anchor: str = "start", weight: str = "normal") -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" font-weight="{weight}">{escape(content)}</text>'
