"""Programs with integers, floats, decimals and fractions."""

from tests.analysis.programs.rows import read_programs

NUMBERS = read_programs(r'''
## raises OverflowError: a quotient behind a remainder | f(11**400 * 2 + 5 - (11**400 * 2) % 11)
def f(x: int) -> float:
    if x % 11 == 5:
        return x / 2
    return 0.0
## raises OverflowError: a range behind parity | f(2**64)
def f(x: int) -> int:
    return len(range(x)) if x % 2 == 0 else 0
## raises ValueError: a character of a large number | f(1114113)
def f(x: int) -> str:
    return chr(x) if x % 3 == 0 and x > 5 else ""
## raises ValueError: a character above Unicode | f(0x110000)
def f(x: int) -> str:
    return chr(x) if 0 <= x < 2**20 + 2**17 else ""
## raises ValueError: a character within Unicode
def f(x: int) -> str:
    return chr(x) if 0 <= x < 100 else ""
## raises OverflowError: a float of a bounded integer
def f(x: int) -> float:
    return float(x) if -1000 < x < 1000 else 0.0
## raises OverflowError: a float below a bound that is too high | f(10**320)
def f(x: int) -> float:
    return float(x) if x < 10**330 else 0.0
## raises OverflowError: a float of a product | f(2**600, 2**600)
def f(x: int, y: int) -> float:
    return float(x * y) if x > 0 and y > 0 else 0.0
## raises OverflowError: the integer of infinity | f(float("inf"))
def f(x: float) -> int:
    return int(x) if x == x else 0
## raises ValueError: the integer of NaN | f(float("nan"))
def f(x: float) -> int:
    return int(x) if abs(x) != float("inf") else 0
## raises ZeroDivisionError: a sum of squares | f(0, 0)
def f(x: int, y: int) -> int:
    return 10 // (x * x + y * y)
## raises ZeroDivisionError: a sum of squares and one
def f(x: int, y: int) -> int:
    return 10 // (x * x + 1)
## raises ValueError: a negative shift | f(-1)
def f(x: int) -> int:
    return 1 << x if x < 10 else 0
## raises ValueError: the root of a negative number | f(-1.0)
import math
def f(x: float) -> float:
    return math.sqrt(x)
## raises ValueError: the root of a square
import math
def f(x: int) -> float:
    return math.sqrt(x * x) if abs(x) < 1000 else 0.0
## raises OverflowError: an exponential | f(1000.0)
import math
def f(x: float) -> float:
    return math.exp(x)
## raises ZeroDivisionError: zero to a negative power | f(0, -1)
def f(x: int, y: int) -> float:
    return x ** y if -3 < y < 3 and -3 < x < 3 else 0
## check: floor and truncation | f(-1)
def f(x: int) -> bool:
    """post: _"""
    return x // 2 == int(x / 2) if abs(x) < 100 else True
## check: remainders of negative numbers are not negative
def f(x: int) -> int:
    """post: 0 <= _ < 7"""
    return x % 7
## check: a remainder by a negative number | f(1)
def f(x: int) -> int:
    """post: _ >= 0"""
    return x % -7
## check: quotient and remainder
def f(x: int) -> bool:
    """post: _"""
    return x // 5 * 5 + x % 5 == x
## check: the average lies between | f(3, 4)
def f(x: int, y: int) -> int:
    """pre: x < y
    post: x < _ < y"""
    return (x + y) // 2
## check: the average lies between or on
def f(x: int, y: int) -> int:
    """pre: x < y
    post: x <= _ < y"""
    return (x + y) // 2
## check: a clamp
def f(x: int, low: int, high: int) -> int:
    """pre: low <= high
    post: low <= _ <= high"""
    return max(low, min(x, high))
## check: a clamp without its precondition | f(0, 1, 0)
def f(x: int, low: int, high: int) -> int:
    """post: low <= _ <= high"""
    return max(low, min(x, high))
## check: the absolute value is not negative
def f(x: int) -> int:
    """post: _ >= 0"""
    return abs(x)
## check: the sign of a product | f(0, 1)
def f(x: int, y: int) -> int:
    """pre: x >= 0 and y > 0
    post: _ > 0"""
    return x * y
## check: Pythagorean triples exist | f(3, 4, 5)
def f(a: int, b: int, c: int) -> bool:
    """pre: 0 < a < b < c < 20
    post: _"""
    return a * a + b * b != c * c
## check: bits above the eighth | f(256)
def f(x: int) -> bool:
    """pre: x >= 0
    post: _"""
    return x & 0xFF == x
## check: a power of two has one bit | f(0)
def f(x: int) -> bool:
    """post: _"""
    return bin(x).count("1") == 1 or x & (x - 1) != 0
## check: the length of a decimal | f(-10)
def f(x: int) -> int:
    """pre: -100 < x < 100
    post: _ <= 2"""
    return len(str(x))
## check: rounding half to even
def f(x: int) -> bool:
    """pre: 0 <= x < 10
    post: _"""
    return round(x / 2) == (x + 1) // 2 or x % 4 == 1
## check: floats have gaps | f(2.0**53)
def f(x: float) -> float:
    """pre: x > 0 and x < float("inf")
    post: _ > x"""
    return x + 1
## check: one tenth three times
def f(x: float) -> bool:
    """pre: 0 < x < 1
    post: _"""
    return x + x + x == 3 * x
## check: halving and doubling | f(5e-324)
def f(x: float) -> bool:
    """pre: x == x
    post: _"""
    return x / 2 * 2 == x
## check: multiplying by an inverse | f(49.0)
def f(x: float) -> bool:
    """pre: 1 <= x <= 1000
    post: _"""
    return x * (1 / x) == 1
## check: the order of addition | f(0.1, 0.2, 0.3)
def f(a: float, b: float, c: float) -> bool:
    """pre: abs(a) < 10 and abs(b) < 10 and abs(c) < 10
    post: _"""
    return (a + b) + c == a + (b + c)
## check: addition commutes unless NaN
def f(a: float, b: float) -> bool:
    """pre: a == a and b == b
    post: _"""
    return a + b == b + a or (a + b) != (a + b)
## check: NaN is not smaller | f(float("nan"))
def f(x: float) -> bool:
    """post: _"""
    return x < 0 or x >= 0
## check: minimum of NaN depends on the order | f(float("nan"), 1.0)
def f(x: float, y: float) -> bool:
    """post: _"""
    return min(x, y) == min(y, x)
## check: negative zero has a sign | f(-0.0)
def f(x: float) -> str:
    """
    pre: x == 0
    post: _ == "0.0"
    """
    return str(x)
## check: truncating toward zero | f(-0.5)
def f(x: float) -> bool:
    """pre: -100 < x < 0
    post: _"""
    return int(x) < 0
## check: a large float is even
def f(x: float) -> bool:
    """pre: 2.0**53 <= x <= 2.0**60
    post: _"""
    return int(x) % 2 == 0
## check: rounding to two digits twice
def f(x: float) -> bool:
    """pre: -100 < x < 100
    post: _"""
    return round(round(x, 2), 2) == round(x, 2)
## check: rounding cents | f(0.125)
def f(x: float) -> bool:
    """pre: 0 < x < 10
    post: _"""
    return abs(round(x, 2) - x) < 0.005
## check: the square root squared | f(2.0)
import math
def f(x: float) -> bool:
    """pre: 0 <= x < 100
    post: _"""
    return math.sqrt(x) ** 2 == x
## check: integer square root
import math
def f(x: int) -> bool:
    """pre: 0 <= x < 50
    post: _"""
    return math.isqrt(x) ** 2 <= x
## check: float square root of a large integer | f((2**27 + 1) ** 2 - 1)
import math
def f(x: int) -> bool:
    """pre: 0 <= x < 2**60
    post: _"""
    return int(math.sqrt(x)) ** 2 <= x
## check: the floor of a quotient below 2 to 50
def f(x: int) -> bool:
    """pre: 0 <= x < 2**50
    post: _"""
    return int(x / 1) == x
## check: a percentage | f(1, 3)
def f(part: int, whole: int) -> bool:
    """pre: 0 < part < whole < 100
    post: _"""
    return part * 100 // whole + (whole - part) * 100 // whole == 100
## check: is close | f(1e-12, 2e-12)
import math
def f(x: float, y: float) -> bool:
    """pre: abs(x - y) < 1e-9
    post: _"""
    return math.isclose(x, y)
## check: greatest common divisors divide
import math
def f(x: int, y: int) -> bool:
    """pre: 0 < x < 9 and 0 < y < 9
    post: _"""
    return x % math.gcd(x, y) == 0
## check: a complex number has a size | f(complex("nan"))
def f(x: complex) -> bool:
    """post: _"""
    return abs(x) >= 0
## check: decimals of different precision are equal
from decimal import Decimal
def f(x: int) -> bool:
    """post: _"""
    return Decimal("1.0") == Decimal("1.00")
## check: a decimal NaN | f(Decimal("NaN"))
from decimal import Decimal
def f(x: Decimal) -> bool:
    """post: _"""
    return x == x
## check: a third of a decimal | f(Decimal(1))
from decimal import Decimal
def f(x: Decimal) -> bool:
    """pre: x.is_finite() and abs(x) < 1000
    post: _"""
    return x / 3 * 3 == x
## check: decimals have 28 digits | f(Decimal("9" * 40))
from decimal import Decimal
def f(x: Decimal) -> bool:
    """pre: x.is_finite()
    post: _"""
    return +x == x
## check: quantizing cents | f(Decimal("0.005"))
from decimal import Decimal
def f(x: Decimal) -> bool:
    """pre: x.is_finite() and abs(x) < 100
    post: _"""
    return x.quantize(Decimal("0.01")) == x
## check: the sign of a decimal zero | f(Decimal("-0"))
from decimal import Decimal
def f(x: Decimal) -> bool:
    """pre: x == 0
    post: _"""
    return str(x)[0] != "-"
## raises InvalidOperation: comparing a signalling decimal | f(Decimal("sNaN"))
from decimal import Decimal, InvalidOperation
def f(x: Decimal) -> bool:
    return x < 1
## raises DivisionByZero: dividing by a decimal | f(Decimal(0))
from decimal import Decimal, DivisionByZero
def f(x: Decimal) -> Decimal:
    return 1 / x if x.is_finite() else x
## unstable check: the precision of the context is changed
from decimal import Context, getcontext, setcontext
def f(x: int) -> bool:
    """post: _"""
    setcontext(Context(prec=getcontext().prec - 1))
    return getcontext().prec > 5
## check: fractions are exact
from fractions import Fraction
def f(x: int) -> bool:
    """pre: 0 < x < 20
    post: _"""
    return Fraction(1, x) * x == 1
## check: a fraction is in its lowest terms | f(Fraction(1, 2))
from fractions import Fraction
def f(x: Fraction) -> bool:
    """post: _"""
    return x.denominator == 1
## check: the limit of a denominator | f(Fraction(10**30, 7))
from fractions import Fraction
def f(x: Fraction) -> bool:
    """post: _"""
    return x.denominator < 7 or x.numerator < 10**20
## check: leap years | f(1900)
def f(year: int) -> bool:
    """pre: 1800 < year < 2100
    post: _ == (year % 4 == 0)"""
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
## check: the digits add up to a multiple of nine | f(19)
def f(x: int) -> int:
    """pre: 0 <= x < 1000
    post: _ % 3 == x % 3 and _ <= 9"""
    return sum(int(one) for one in str(x))
''')
