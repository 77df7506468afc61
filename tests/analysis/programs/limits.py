"""Operations on an integer behind a residue, which no boundary value has. In C, some functions do not hold it."""

from tests.analysis.programs.rows import Program, read_programs

_CODE = """## check: behind a residue: {title}
import bisect, heapq, math, operator, random, statistics
from collections import Counter, deque
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import cache
from itertools import combinations, islice, permutations, repeat
@cache
def memo(x: int) -> int:
    return x + 1
def f(x: int) -> bool:
    '''
    pre: x >= 0
    post: _
    '''
    if x % 1009 != 77:
        return True
    try:
        {operation}
    except (ValueError, IndexError, TypeError):
        return True
    return True
"""
# The exponent of ten in an integer for which the operation raises another exception, and the operation
_RAISING = """
20 [1].insert(x, 2)
20 [1].pop(x)
20 deque([1]).rotate(x)
20 deque([1]).insert(x, 2)
20 deque([1], x)
20 'ab'.replace('a', 'b', x)
20 'ab'.split('a', x)
20 'ab'.rsplit('a', x)
20 'a b'.expandtabs(x)
20 b'ab'.replace(b'a', b'b', x)
20 b'ab'.split(b'a', x)
20 bytearray(b'a').insert(x, 1)
20 chr(x)
20 date(x, 1, 1)
20 date(2000, x, 1)
20 date(2000, 1, x)
20 time(x)
20 time(0, 0, 0, x)
20 datetime(2000, 1, 1, x)
20 datetime(2000, 1, 1).replace(microsecond=x)
20 date(2000, 1, 1).replace(year=x)
20 time(1).replace(hour=x)
20 date.fromordinal(x)
20 timedelta(x)
20 timedelta(1) * x
20 timedelta(seconds=x)
20 timedelta(microseconds=x)
20 date(2000, 1, 1) + timedelta(x)
20 datetime.fromordinal(x)
400 statistics.mean([x, 2])
20 len(range(x))
20 list(combinations([1, 2], x))
20 list(permutations([1, 2], x))
20 repeat(1, x)
20 x.to_bytes(8, 'big')
20 (5).to_bytes(x, 'big')
20 1 << x
330 float(x)
330 x / 3
330 math.sqrt(x)
0 math.ldexp(1.0, x)
3 Decimal(1).scaleb(x)
20 '%c' % x
330 complex(x)
20 bisect.bisect([1, 2], 1, x)
"""
_OTHERS = """
[1][x]
[1].index(1, x)
[1, 2][x:]
[1, 2][:x]
(1, 2)[x:x]
deque([1])[x]
'ab'.find('a', x)
'ab'.count('a', x)
'ab'[x]
'ab'[:x]
'ab'.startswith('a', x)
'ab'.index('a', x)
b'ab'.find(x)
b'ab'[x]
bytearray(b'a').append(x)
bytes([x])
x in b'ab'
date.fromisocalendar(x, 1, 1)
range(x)[0]
range(3)[x]
range(x).index(3)
list(islice([1, 2], x))
next(islice([1, 2], x, None), 0)
heapq.nlargest(x, [1])
heapq.nsmallest(x, [2, 1])
round(1.5, x)
round(15, x)
int.from_bytes(b'a', 'big') + x
1 >> x
math.isqrt(x)
math.comb(x, 2)
math.perm(x, 1)
math.log2(x)
math.floor(x)
math.gcd(x, 6)
Decimal(x)
Fraction(1, x)
x.bit_length()
x.as_integer_ratio()
divmod(x, 7)
pow(x, 3, 11)
pow(2, x, 11)
hash(x)
'%d' % x
f'{x:d}'
str(x)
hex(x)
min([1], default=x)
sum([x, 1])
enumerate([1], x)
list(enumerate([1], x))
slice(x).indices(5)
memo(x)
operator.index(x)
operator.getitem([1], x)
bisect.bisect([1, 2], x)
random.Random(x).random()
Counter({1: x}).total()
'{:>5}'.format(x)
''.join(['a', str(x)])
"""


def _make() -> dict[str, list[Program]]:
    raising = [line.split(" ", 1) for line in _RAISING.strip().splitlines()]
    codes = [
        _CODE.format(title=f"{operation} | f(77 + 1009 * 10**{exponent})", operation=operation)
        for exponent, operation in raising
    ]
    codes += [_CODE.format(title=operation, operation=operation) for operation in _OTHERS.strip().splitlines()]
    return read_programs("\n" + "".join(codes))


LIMITS = _make()
