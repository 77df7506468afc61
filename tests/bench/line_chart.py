"""Line charts as SVG."""

import math
from html import escape

from tests.bench.outcome import Chart, Line

WIDTH, HEIGHT = 720, 400
LEFT, RIGHT, TOP, BOTTOM = 70, 190, 40, 50
COLOURS = ("#1f6f8b", "#c2571a", "#5a8f29", "#8e4585", "#b8860b", "#444444", "#d1495b", "#2e4057")


class _Axis:
    """Maps values to a range of pixels, linearly from 0 or by their logarithm."""

    def __init__(self, values: list[float], start: float, end: float, *, logarithmic: bool) -> None:
        self._log = logarithmic
        if logarithmic:
            low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
            self._low, self._high = float(low), float(max(high, low + 1))
            self.ticks = [10.0**power for power in range(low, int(self._high) + 1)]
        else:
            step = _step(max(values))
            self._low, self._high = 0.0, step * math.ceil(max(values) / step)
            self.ticks = [step * number for number in range(round(self._high / step) + 1)]
        self._start, self._end = start, end

    def at(self, value: float) -> float:
        place = math.log10(value) if self._log else value
        return round(self._start + (place - self._low) / (self._high - self._low) * (self._end - self._start), 1)


def svg(chart: Chart) -> str:
    """The chart as an SVG document."""
    points = [point for line in chart.lines for point in line.points]
    x = _Axis([x for x, _ in points], LEFT, WIDTH - RIGHT, logarithmic=chart.log_x)
    y = _Axis([y for _, y in points], HEIGHT - BOTTOM, TOP, logarithmic=chart.log_y)
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">',
        "<style>text { font-size: 12px }</style>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        _text(middle, 20, chart.title, "middle"),
        _text(middle, HEIGHT - 12, chart.x, "middle"),
        _text(LEFT - 60, TOP - 12, chart.y),
        *(_text(x.at(tick), HEIGHT - BOTTOM + 18, f"{tick:,.10g}", "middle") for tick in x.ticks),
    ]
    for tick in y.ticks:
        parts.append(f'<path d="M{LEFT} {y.at(tick)}H{WIDTH - RIGHT}" stroke="#ddd"/>')
        parts.append(_text(LEFT - 8, y.at(tick) + 4, f"{tick:,.10g}", "end"))
    for number, line in enumerate(chart.lines):
        parts += _line(line, x, y, COLOURS[number % len(COLOURS)], TOP + 18 * number)
    return "\n".join([*parts, "</svg>\n"])


def _line(line: Line, x: _Axis, y: _Axis, colour: str, legend: float) -> list[str]:
    path = " ".join(f"{x.at(one)},{y.at(other)}" for one, other in line.points)
    return [
        f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>',
        *(f'<circle cx="{x.at(one)}" cy="{y.at(other)}" r="3" fill="{colour}"/>' for one, other in line.points),
        f'<rect x="{WIDTH - RIGHT + 12}" y="{legend}" width="10" height="10" fill="{colour}"/>',
        _text(WIDTH - RIGHT + 28, legend + 9, line.name),
    ]


def _text(x: float, y: float, content: str, anchor: str = "start") -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}">{escape(content)}</text>'


def _step(largest: float) -> float:
    """A round distance between ticks, of which about five reach the largest value."""
    rough = largest / 5 or 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= rough)
