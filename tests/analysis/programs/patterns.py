"""Programs with regular expressions."""

from tests.analysis.programs.rows import read_programs

PATTERNS = read_programs(r'''
## check: a dollar matches before a line feed, search | f("a\n")
import re
def f(s: str) -> bool:
    """post: _"""
    if re.search(r"a$", s):
        return s.endswith("a")
    return True
## check: a dollar matches before a line feed, compiled | f("-\n")
import re
PATTERN = re.compile(r"-$")
def f(s: str) -> bool:
    """post: _"""
    return PATTERN.match(s) is None or len(s) == 1
## check: a dollar in multi-line mode | f("a\nb")
import re
def f(s: str) -> bool:
    """post: _"""
    return re.match(r"a$", s, re.MULTILINE) is None or len(s) <= 2
## check: backslash d matches other digits | f("\u0661")
import re
def f(s: str) -> bool:
    """post: _"""
    return re.fullmatch(r"\d", s) is None or s in "0123456789"
## check: backslash w matches letters with marks | f("\u00e9")
import re
def f(s: str) -> bool:
    """post: _"""
    return re.fullmatch(r"\w", s) is None or s.isascii()
## check: backslash s matches a line separator | f("\u2028")
import re
def f(s: str) -> bool:
    """post: _"""
    return re.fullmatch(r"\s", s) is None or s in " \t\n\r\f\v"
## check: a point matches no line feed | f("\n")
import re
def f(s: str) -> bool:
    """post: _"""
    return len(s) != 1 or re.fullmatch(r".", s) is not None
## check: a point in DOTALL mode
import re
def f(s: str) -> bool:
    """post: _"""
    return len(s) != 1 or re.fullmatch(r".", s, re.DOTALL) is not None
## check: ignoring the case finds the Kelvin sign | f("\u212a")
import re
def f(s: str) -> bool:
    """post: _"""
    return re.fullmatch(r"k", s, re.IGNORECASE) is None or s in "kK"
## check: replacing every a | f("bab")
import re
def f(s: str) -> bool:
    """post: _"""
    return re.sub("a", "", s) == s or len(s) < 3
## check: replacing only at the start | f("aa")
import re
def f(s: str) -> bool:
    """post: _"""
    return "a" not in re.sub("^a", "", s)
## check: splitting at commas gives one part more than commas
import re
def f(s: str) -> bool:
    """post: _"""
    return len(re.split(",", s)) == s.count(",") + 1
## check: an empty match at the end is found | f("")
import re
def f(s: str) -> bool:
    """post: _"""
    return re.search("x*", s) is None
## check: a reference to a group | f("aa")
import re
def f(s: str) -> bool:
    """post: _"""
    return re.fullmatch(r"([ab])\1", s) is None
## check: a group is optional | f("b")
import re
def f(s: str) -> int:
    """post: _ >= 0"""
    found = re.fullmatch(r"(a)?b", s)
    return len(found.group(1)) if found else 0
## check: a look ahead | f("a1")
import re
def f(s: str) -> bool:
    """post: _"""
    return re.match(r"a(?=1)", s) is None
## check: counted repetition
import re
def f(s: str) -> bool:
    """post: _"""
    return re.fullmatch(r"[a-c]{2}", s) is None or len(s) == 2
## check: a phone number with letters | f("cb-123")
import re
def f(s: str) -> bool:
    """post: _"""
    return re.fullmatch(r"cb-[0-9]{3}", s) is None
## raises ValueError: digits of a pattern that int accepts
import re
def f(s: str) -> int:
    if re.fullmatch(r"[0-9]{1,3}", s):
        return int(s)
    return 0
## raises ValueError: a sign without digits | f("-")
import re
def f(s: str) -> int:
    if re.fullmatch(r"-?[0-9]*", s) and s:
        return int(s)
    return 0
## raises IndexError: the last character after a match | f("a")
import re
def f(s: str) -> str:
    found = re.match(r"a", s)
    return s[found.end()] if found else ""
## pair: match and fullmatch with a dollar | a("a\n")
import re
def a(s: str): return re.match("a$", s) is not None
def b(s: str): return re.fullmatch("a", s) is not None
## pair: a class and an alternative
import re
def a(s: str): return re.fullmatch("[ab]", s) is not None
def b(s: str): return re.fullmatch("a|b", s) is not None
## pair: greedy and lazy | a("aa")
import re
def a(s: str):
    found = re.match("a+", s)
    return found.end() if found else -1
def b(s: str):
    found = re.match("a+?", s)
    return found.end() if found else -1
''')
