"""Programs with text and bytes."""

from tests.analysis.programs.rows import read_programs

TEXTS = read_programs(r'''
## raises UnicodeEncodeError: a surrogate in second place | f("a\ud800")
def f(s: str) -> bytes:
    return s.encode() if s[:1] == "a" else b""
## raises UnicodeEncodeError: a letter outside ASCII | f("\u00e9")
def f(s: str) -> bytes:
    return s.encode("ascii")
## raises UnicodeDecodeError: half a character | f(b"\xc3")
def f(b: bytes) -> str:
    return b.decode()
## raises IndexError: the first character of an empty text | f("")
def f(s: str) -> str:
    return s[0]
## raises IndexError: a guarded first character
def f(s: str) -> str:
    return s[0] if s else ""
## raises ValueError: int of a superscript | f("\u00b2")
def f(s: str) -> int:
    return int(s) if s.isdigit() else 0
## raises ValueError: int of decimal digits
def f(s: str) -> int:
    return int(s) if s.isdecimal() and len(s) < 10 else 0
## raises ValueError: float of a text | f("1.2.3")
def f(s: str) -> float:
    return float(s) if s and s[0] == "1" else 0.0
## raises ValueError: a missing part | f("a")
def f(s: str) -> int:
    return s.index(",") if len(s) == 1 else 0
## raises ValueError: unpacking parts | f("a=b=c")
def f(s: str) -> str:
    if "=" not in s:
        return ""
    key, value = s.split("=")
    return key
## raises ValueError: unpacking with a limit
def f(s: str) -> str:
    if "=" not in s:
        return ""
    key, value = s.split("=", 1)
    return key
## raises TypeError: ord of two characters | f("ab")
def f(s: str) -> int:
    return ord(s) if s else 0
## check: upper case has the same length | f("\u00df")
def f(s: str) -> bool:
    """post: _"""
    return len(s.upper()) == len(s)
## check: lower case has the same length | f("\u0130")
def f(s: str) -> bool:
    """post: _"""
    return len(s.lower()) == len(s)
## check: upper of lower is upper | f("\u0130")
def f(s: str) -> bool:
    """post: _"""
    return s.lower().upper() == s.upper()
## check: swapping the case twice | f("\u00df")
def f(s: str) -> bool:
    """post: _"""
    return s.swapcase().swapcase() == s
## check: case folding ignores the case
def f(s: str) -> bool:
    """pre: s.isascii()
    post: _"""
    return s.upper().casefold() == s.casefold()
## check: stripping is idempotent
def f(s: str) -> bool:
    """post: _"""
    return s.strip().strip() == s.strip()
## check: stripping removes more than blanks | f("\u2003")
def f(s: str) -> bool:
    """post: _"""
    return s.strip() == s.strip(" \t\n\r\x0b\x0c")
## check: stripped text does not begin with a blank
def f(s: str) -> bool:
    """post: _"""
    return not s.strip().startswith(" ")
## check: split and join | f("  ")
def f(s: str) -> bool:
    """post: _"""
    return " ".join(s.split()) == s or " " not in s
## check: split at a comma and join
def f(s: str) -> bool:
    """post: _"""
    return ",".join(s.split(",")) == s
## check: lines end with more than a line feed | f("a\x0bb")
def f(s: str) -> bool:
    """post: _"""
    return len(s.splitlines()) <= s.count("\n") + s.count("\r") + 1
## check: title case | f("they're")
def f(s: str) -> bool:
    """pre: s.isascii() and s.islower()
    post: _"""
    return s.title() == s.capitalize() or " " in s
## check: replace removes all | f("aabb")
def f(s: str) -> bool:
    """post: _"""
    return "ab" not in s.replace("ab", "")
## check: replace of one character removes all
def f(s: str) -> bool:
    """post: _"""
    return "a" not in s.replace("a", "")
## check: find and in agree
def f(s: str, t: str) -> bool:
    """post: _"""
    return (s.find(t) >= 0) == (t in s)
## check: count of an empty text | f("")
def f(s: str) -> bool:
    """post: _"""
    return s.count("") == len(s)
## check: a palindrome of two characters | f("ab")
def f(s: str) -> bool:
    """pre: len(s) == 2
    post: _"""
    return s == s[::-1]
## check: a prefix and a suffix | f("a")
def f(s: str) -> bool:
    """pre: s.startswith("a") and s.endswith("a")
    post: _"""
    return len(s) >= 2
## check: slices put together
def f(s: str, i: int) -> bool:
    """post: _"""
    return s[:i] + s[i:] == s
## check: cutting to a length with an ellipsis within
def f(s: str, n: int) -> str:
    """pre: n >= 3
    post: len(_) <= n"""
    return s if len(s) <= n else s[:n - 3] + "..."
## check: padding | f("abc", 2)
def f(s: str, n: int) -> str:
    """pre: 0 <= n < 10
    post: len(_) == n"""
    return s.ljust(n)
## check: zero padding of a sign | f("-1")
def f(s: str) -> str:
    """pre: len(s) < 4
    post: _.endswith(s)"""
    return s.zfill(4)
## check: alphanumeric means ASCII | f("\u00e9")
def f(s: str) -> bool:
    """pre: s.isalnum()
    post: _"""
    return all("a" <= one.lower() <= "z" or "0" <= one <= "9" for one in s)
## check: decimal and digit and numeric | f("\u00bd")
def f(s: str) -> bool:
    """post: _"""
    return s.isnumeric() == s.isdecimal()
## check: text compares by code points | f("a", "B")
def f(s: str, t: str) -> bool:
    """pre: s.isalpha() and t.isalpha() and s.isascii() and t.isascii()
    post: _"""
    return (s < t) == (s.lower() < t.lower())
## check: sorted characters keep the length
def f(s: str) -> bool:
    """post: _"""
    return len(sorted(s)) == len(s)
## check: a secret word | f("open sesame")
def f(s: str) -> bool:
    """post: _"""
    return s != "open sesame"
## check: a secret prefix | f("key:1")
def f(s: str) -> bool:
    """post: _"""
    return not (s.startswith("key:") and len(s) > 4)
## check: formatting a number | f(-1)
def f(x: int) -> str:
    """pre: -5 < x < 5
    post: len(_) == 3"""
    return f"{x:03d}"[:3] if x >= 0 else f"{x}"
## check: percent formatting
def f(x: int) -> str:
    """pre: 0 <= x < 10
    post: _ == "0" + str(x)"""
    return "%02d" % x
## check: quotes in a representation | f("'")
def f(s: str) -> str:
    """
    pre: len(s) == 1
    post: _ == "'" + s + "'"
    """
    return repr(s)
## check: normal forms of one letter | f("e\u0301")
def f(s: str) -> bool:
    """pre: len(s) == 2
    post: _"""
    return s.isascii() or not s[0].isascii() or s[1].isalpha() or s[1] in " 0"
## check: encoding takes one byte for each character | f("\u00e9")
def f(s: str) -> bool:
    """pre: len(s) == 1 and s.isalpha()
    post: _"""
    return len(s.encode()) == len(s)
## check: bytes are small numbers
def f(b: bytes) -> bool:
    """post: _"""
    return all(0 <= one < 256 for one in b)
## check: hexadecimal bytes
def f(b: bytes) -> bool:
    """pre: len(b) < 3
    post: _"""
    return len(b.hex()) == 2 * len(b)
## check: a byte of a slice | f(b"\x00")
def f(b: bytes) -> bool:
    """post: _"""
    return not b or b[0] != 0
## check: bytes and text of digits | f(b"\xb2")
def f(b: bytes) -> bool:
    """post: _"""
    return b.decode("latin-1").isdigit() == b.isdigit()
## pair: two ways to test for empty text
def a(s: str): return s == ""
def b(s: str): return len(s) == 0
## pair: strip and lstrip | a("a ")
def a(s: str): return s.strip()
def b(s: str): return s.lstrip()
## pair: lower and casefold | a("\u00df")
def a(s: str): return s.lower()
def b(s: str): return s.casefold()
## pair: split and split at a blank | a("")
def a(s: str): return s.split()
def b(s: str): return s.split(" ")
## pair: isdigit and isdecimal | a("\u00b2")
def a(s: str): return s.isdigit()
def b(s: str): return s.isdecimal()
## pair: a slice and removeprefix | a("ab")
def a(s: str): return s[2:] if s.startswith("a") else s
def b(s: str): return s.removeprefix("a")
## pair: startswith and a slice
def a(s: str): return s.startswith("ab")
def b(s: str): return s[:2] == "ab"
## pair: partition and split | a("a=b=c")
def a(s: str): return s.partition("=")[2]
def b(s: str): return s.split("=")[-1] if "=" in s else ""
## pair: rstrip of characters and removesuffix | a("ab.a.a")
def a(s: str): return s.rstrip(".a")
def b(s: str): return s.removesuffix(".a")
''')
