"""Values of the types without elements: for each type the boundary values, and a way to draw random ones.

CrossHair's model of Python is inexact at these boundaries: its integers have no size, its floats are partly real
numbers, and its strings have a moderate length. Constants of the code, and of its contracts, are values too.
"""

import ast
import functools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from random import Random

from quilt_mcp.analysis.gate.paths import PurePath, PurePosixPath, PureWindowsPath

# As the gate writes them
_CLAUSE = re.compile(r"^\s*(?:pre|post(?:\[[\w, ]*\])?|inv): (.+)$", re.MULTILINE)


def include_clauses(tree: ast.Module) -> ast.Module:
    """Return a module with the statements of the code and the expressions of its contracts."""
    texts = [text for docstring in find_docstrings(tree) for text in _CLAUSE.findall(str(docstring.value))]
    clauses = [ast.parse(text.strip(), mode="eval").body for text in texts]
    return ast.Module([*tree.body, *(ast.Expr(one) for one in clauses)], [])


def find_docstrings(tree: ast.AST) -> list[ast.Constant]:
    owners = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    first = [node.body[0].value for node in owners if isinstance(node.body[0], ast.Expr)]
    return [one for one in first if isinstance(one, ast.Constant) and isinstance(one.value, str)]


STRIDE = math.lcm(*range(1, 41)) << 1100
"""A multiple of every number up to 40 and of a large power of two. Adding it keeps the remainders of small divisors."""
_INTEGERS = (
    *(0, 1, -1, 2, 3, -2, 5, 7, 10, -10, 31, 100, 255, 1000, 2**31, -(2**31) - 1, 2**53 + 1),
    *(0x10FFFF, 0x110000, 2**63, -(2**63) - 1, 2**64, 10**400, -(10**400), STRIDE, STRIDE + 5, 1 << 16700),
)
_FLOATS = (
    *(
        0.0,
        -0.0,
        0.1,
        1.0,
        -1.5,
        0.5,
        2.5,
        3.0,
        100.0,
        5e-324,
        1e-9,
        2.0**53,
        2.0**53 + 2,
        1e16,
        1e308,
        -1e308,
        -5e-324,
    ),
    *(1.7976931348623157e308, float("inf"), float("-inf"), float("nan")),
)
_TEXTS = (
    *("", "a", "A b", "0", "-1", " ", "ab\n", "\n", "²", "\u0661", "ß", "İ", "ǆ", "e\u0301", "\ud800", "a\udc80"),
    *("\x00\n", " x ", "abc", "1.5", "\u2028", "\x1c", "aa", "aba", "9" * 5000),
    *("µ", "\u03bc", "ς", "\u1e9e", "\u2167", "¼", "01.1.1.1", "0" * 12, "a//b/", "/a/../B.c", "\u03a3"),
)  # fmt: skip
_BYTES = (b"", b"a", b"0", b"ab", b"\n", b"\xff", b"a\xc3", b"\x00" * 5000, b"\xb2")
_DECIMALS = tuple(
    map(Decimal, ("0", "-0", "1", "1.0", "0.1", "-2.5", "1E+30", "1E-30", "NaN", "Infinity", "-Infinity", "9" * 40))
)
_DATES = (
    date(2024, 2, 29),
    date(2023, 12, 31),
    date(2023, 3, 31),
    date(2000, 1, 1),
    date(1970, 1, 1),
    date.min,
    date.max,
)
_TIMES = (time(0), time(23, 59, 59, 999999), time(12, 30), time(1, 2, 3, 4, UTC), time(2, fold=1))
_DURATIONS = (timedelta(0), timedelta(1), timedelta(-1), timedelta(seconds=-1, microseconds=1), timedelta.max)
_ZONES = (UTC, timezone(timedelta(hours=5, minutes=30)), timezone(timedelta(hours=-23, minutes=-59)))
_MOMENTS = (
    *(datetime(2024, 2, 29, 12), datetime(2023, 12, 31, 23, 59, 59, 999999), datetime(2024, 3, 31, 2, 30, tzinfo=UTC)),  # noqa: DTZ001 - without a zone
    *(datetime(2024, 10, 27, 2, 30, fold=1), datetime.min, datetime.max, datetime.max.replace(tzinfo=_ZONES[2])),  # noqa: DTZ001, DTZ901 - the same
)
_PATHS = ("", "a", "/", "..", "a.b", "a/b.tar.gz", "/a/../b", ".a", "a.", "//a", "A.B", " ", "a/b/c/d")
BOUNDARIES: Mapping[object, Sequence[object]] = {
    int: _INTEGERS,
    bool: (False, True),
    float: _FLOATS,
    complex: (0j, 1j, -1 + 0j, complex("nan"), 1e308j),
    str: _TEXTS,
    bytes: _BYTES,
    None: (None,),
    type(None): (None,),
    Decimal: _DECIMALS,
    Fraction: (Fraction(0), Fraction(1, 2), Fraction(-7, 3), Fraction(10**30, 7), Fraction(3)),
    date: _DATES,
    time: _TIMES,
    datetime: _MOMENTS,
    timedelta: (*_DURATIONS, timedelta.min),
    timezone: _ZONES,
    PurePath: tuple(map(PurePosixPath, _PATHS)),
    PurePosixPath: tuple(map(PurePosixPath, _PATHS)),
    PureWindowsPath: tuple(map(PureWindowsPath, (*_PATHS, "C:", "C:/a", "C:b", "//host/share/a", "A.TXT"))),
}
_ALPHABETS = (
    *("ab", "abcxyz", "0123456789", "AaZz09 _-", " \t\n.,"),
    *("ßİ²\u0661ǆé\u0301\u212a\u017f", "\ud800\udc80\x00\x1c\u2028"),
)
_LARGE = 1e300
_COUNTED = 1_000
_NEAR = 24
_FEW = 3
_PROSE = 200  # characters
_LENGTHS = (0, 1, 1, 2, 2, 3, 3, 4, 5, 6, 8, 12, 20)


@dataclass(frozen=True, slots=True)
class Literals:
    """The constants of a program. Its conditions often compare arguments with them."""

    integers: tuple[int, ...] = ()
    floats: tuple[float, ...] = ()
    texts: tuple[str, ...] = ()
    bytes_: tuple[bytes, ...] = ()
    divisors: tuple[int, ...] = ()  # the constants on the right of `%`


def find_literals(tree: ast.AST) -> Literals:
    """Return the constants in a syntax tree, in the order of their occurrence. Docstrings do not count."""
    docstrings = {id(one) for one in find_docstrings(tree)}
    constants = [node for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    values = [one.value for one in constants if id(one) not in docstrings]
    rests = [one.right for one in ast.walk(tree) if isinstance(one, ast.BinOp) and isinstance(one.op, ast.Mod)]
    divisors = [one.value for one in rests if isinstance(one, ast.Constant) and type(one.value) is int]
    return Literals(
        tuple(dict.fromkeys(one for one in values if type(one) is int)),
        tuple(dict.fromkeys(one for one in values if type(one) is float)),
        tuple(dict.fromkeys(one for one in values if type(one) is str and len(one) < _PROSE)),
        tuple(dict.fromkeys(one for one in values if type(one) is bytes)),
        tuple(dict.fromkeys(one for one in divisors if 1 < one < _COUNTED * _COUNTED)),
    )


class Drawer:
    """Draws random values of the types without elements. The same state of `random` gives the same values."""

    def __init__(self, random: Random, literals: Literals) -> None:
        self.random = random
        self._literals = literals
        self.stride = math.lcm(*literals.divisors[:_FEW])  # adding it keeps the rests
        self._decimals: list[Decimal] = []  # programs make decimal numbers from texts
        for text in literals.texts:
            with suppress(InvalidOperation):
                self._decimals.append(Decimal(text))
        self.draws: Mapping[object, Callable[[], object]] = {
            int: self.draw_integer,
            float: self.draw_float,
            str: self.draw_text,
            bytes: self._draw_bytes,
            complex: lambda: complex(self.draw_float(), self.draw_float()),
            Decimal: self._draw_decimal,
            Fraction: self._draw_fraction,
            date: lambda: date.fromordinal(random.randint(1, date.max.toordinal())),
            time: lambda: self._draw_moment().timetz(),
            datetime: self._draw_moment,
            **{kind: functools.partial(self._draw_path, kind) for kind in (PurePath, PurePosixPath, PureWindowsPath)},
            timedelta: lambda: timedelta(self._draw_small(), random.randint(-90000, 90000), self._draw_small()),
        }

    def list_neighbours(self, annotation: object) -> Sequence[object]:
        """Return values of this type next to the constants of the program, which its conditions can compare with."""
        if annotation is int:
            near = [near for one in self._literals.integers for near in (one, one + 1, one - 1, -one, one // 2)]
            return [*[*dict.fromkeys(one for one in near if one not in _INTEGERS)][:_NEAR], *self._list_with_rests()]
        if annotation is float:
            known = [float(one) for one in (*self._literals.floats, *self._literals.integers) if abs(one) < _LARGE]
            close = [near for one in known for near in (one, math.nextafter(one, math.inf), one / 2)]
            return [*dict.fromkeys(one for one in close if one not in _FLOATS)][:_NEAR]
        if annotation is str:
            texts = [near for one in self._literals.texts for near in (one, one.swapcase(), f"{one}a", f"a{one}")]
            return [*dict.fromkeys(one for one in texts if one not in _TEXTS)][:_NEAR]
        if annotation is Decimal:
            return self._decimals[:_NEAR]
        if annotation in {PurePath, PurePosixPath, PureWindowsPath}:
            kind = PurePosixPath if annotation is PurePath else annotation
            parts = [near for one in self._literals.texts for near in (one, f"a{one}", f"a/{one}", f"{one}/a")]
            return [kind(one) for one in parts][:_NEAR]
        return ()

    def _list_with_rests(self) -> Iterator[int]:
        """Yield integers of several sizes with the rests that conditions such as `x % 11 == 3` ask for."""
        for divisor in self._literals.divisors[:_FEW]:
            for rest in [one for one in self._literals.integers if 0 <= one < divisor][:_FEW]:
                yield from (rest + divisor * (size // divisor + 1) for size in (0, 1 << 31, 1 << 63, 10**400))

    def pick_weighted(self, *weights: int) -> int:
        """Return the number of one of the weights: a `case` is as frequent as its weight."""
        return self.random.choices(range(len(weights)), weights)[0]

    def happens(self, times: int, *, of: int) -> bool:
        """Return true so many times of a number of calls, by chance."""
        return self.random.random() * of < times

    def draw_integer(self) -> int:
        """Return a small number, a constant of the program or a neighbour of it, or a large number."""
        sign = self.random.choice((1, -1))
        match self.pick_weighted(45, 25, 15, 10, 5):
            case 1 if self._literals.integers:
                return self._vary(self.random.choice(self._literals.integers))
            case 2:
                return self._draw_small()
            case 3:
                number = (1 << self.random.randint(4, 70)) + self.random.randint(-2, 2)
                return self.random.choice((number, -number, number * number + self.random.randint(-2, 2)))
            case 4:
                return sign * (STRIDE + self.random.randint(0, 5000))
        return self.random.randint(-12, 12)

    def _vary(self, number: int) -> int:
        if self.happens(1, of=5):  # between two constants: a frequent precondition
            low, high = sorted((number, self.random.choice(self._literals.integers)))
            return self.random.randint(low, high)
        if 0 < abs(number) <= _COUNTED and self.happens(1, of=4):
            return self.random.randint(0, abs(number))
        change = self.random.choice((0, 0, 0, 1, -1, 2, -2))
        return self.random.choice((number, number, -number, number * 2, number // 2)) + change

    def _draw_small(self) -> int:
        return self.random.randint(-(10 ** self.random.randint(1, 5)), 10 ** self.random.randint(1, 5))

    def draw_float(self) -> float:
        """Return a number with few digits, a constant of the program, or one of any magnitude."""
        known = (*self._literals.floats, *self._literals.integers)
        match self.pick_weighted(25, 30, 15, 10, 20):
            case 1 if known:
                return self._vary_float(self.random.choice(known))
            case 2:
                return self.random.uniform(-10, 10)
            case 3:
                return self.random.choice(_FLOATS)
            case 4:
                return math.ldexp(self.random.uniform(-1, 1), self.random.randint(-1074, 1024))
        return self.random.randint(-200, 200) / self.random.choice((1, 2, 4, 10, 100, 3))

    def _vary_float(self, number: float) -> float:
        if self.happens(1, of=3):  # as for integers
            known: list[float] = [*self._literals.floats, *self._literals.integers]
            other = self.random.choice([one for one in known if one != number] or [0.0])
            if abs(number) < _LARGE > abs(other):
                return self.random.uniform(number, other)
        near = float(number) if abs(number) < _LARGE else 0.0
        above, below = math.nextafter(near, math.inf), math.nextafter(near, -math.inf)
        return self.random.choice((near, near, -near, above, below, near * self.random.random()))

    def draw_text(self) -> str:
        """Return a text of characters of one or all kinds, or one that is made of the constants of the program."""
        known = self._literals.texts
        if not (known and self.happens(35, of=100)):
            return self._draw_characters()
        text = self.random.choice(known)
        match self.pick_weighted(5, 3, 2):
            case 0:
                return text
            case 1:
                return text + self._draw_characters()
        return self._draw_characters() + text

    def _draw_characters(self) -> str:
        own = "".join(self._literals.texts)[:500]
        alphabets = (*_ALPHABETS, "".join(_ALPHABETS)) + ((own, own, own) if own else ())
        alphabet = self.random.choice(alphabets)
        return "".join(self.random.choice(alphabet) for _ in range(self.draw_length()))

    def draw_length(self) -> int:
        wanted = [one for one in self._literals.integers if 0 < one <= _LENGTHS[-1] * 2]
        return self.random.choice((*_LENGTHS, *wanted[:8]))

    def _draw_path(self, kind: Callable[..., object]) -> object:
        parts = [self.draw_text()[:12] for _ in range(self.random.choice((1, 1, 2, 3)))]
        end = self.random.choice(("", "", ".txt", *(one for one in self._literals.texts if one.startswith("."))))
        return kind(self.random.choice(("", "", "/")) + "/".join(parts) + end)

    def _draw_bytes(self) -> bytes:
        if self._literals.bytes_ and self.happens(3, of=10):
            return self.random.choice(self._literals.bytes_)
        choices = (0, 10, 48, 97, 98, 127, 128, 195, 255, self.random.randrange(256))
        return bytes(self.random.choice(choices) for _ in range(self.draw_length()))

    def _draw_fraction(self) -> Fraction:
        if self._decimals and self.happens(1, of=4):
            number = self.random.choice(self._decimals)
            return Fraction(number) if number.is_finite() and abs(number.adjusted()) < _COUNTED else Fraction(0)
        return Fraction(self._draw_small(), abs(self._draw_small()) + 1)

    def _draw_decimal(self) -> Decimal:
        known = [*self._decimals, *map(Decimal, self._literals.integers)]
        if known and self.happens(1, of=4):
            low, high = self.random.choice(known), self.random.choice(known)
            if low == high or not (low.is_finite() and high.is_finite()):
                return low
            return self.random.choice((low, low + (high - low) * self.random.randint(0, 100) / 100))
        if self.happens(1, of=10):
            return self.random.choice(_DECIMALS)
        sign, digits = self.random.randint(0, 1), self.random.choice((1, 2, 3, 5, 30))
        return Decimal((sign, [self.random.randrange(10) for _ in range(digits)], self.random.randint(-6, 3)))

    def _draw_moment(self) -> datetime:
        zone = self.random.choice((None, None, *_ZONES))
        day = date.fromordinal(self.random.choice((self.random.randint(1, date.max.toordinal()), 738000)))
        hour, minute = self.random.choice((0, 2, 12, 23)), self.random.choice((0, 30, 59))
        return datetime(day.year, day.month, day.day, hour, minute, self.random.randrange(60), tzinfo=zone)
