"""Functions and exceptions, and whether a call can raise them."""

from tests.analysis.programs.rows import OPEN, left_open, search

SEARCHES = [
    search(
        "an equation", "KeyError", "def f(x: int, y: int):\n    if 5 < x < 10 and x * y == 35: raise KeyError", "found"
    ),
    search(
        "named only in the message of another exception",
        "KeyError",
        "def f(x: int):\n    raise ValueError('KeyError')",
        "unreachable",
    ),
    search("a subclass", "LookupError", "def f(x: int):\n    if x == 77: raise KeyError(x)", "found"),
    search(
        "caught inside",
        "KeyError",
        """
        def f(x: int):
            try:
                if x > 3: raise KeyError(x)
            except KeyError:
                return 0
        """,
        "unreachable",
    ),
    search(
        "a class of the code",
        "Refusal",
        """
        class Refusal(Exception):
            pass
        def f(x: int):
            if x == 77: raise Refusal
        """,
        "found",
    ),
    search("a contradiction", "ValueError", "def f(x: int):\n    if x > 0 and x < 0: raise ValueError", "unreachable"),
    search(
        "a guarded division",
        "ZeroDivisionError",
        "def f(x: int, y: int):\n    return x // y if y else 0",
        "unreachable",
    ),
    search("a division", "ZeroDivisionError", "def f(x: int, y: int):\n    return x // y", "found"),
    search("an index", "IndexError", "def f(i: int):\n    return [1] * 123 if i != 123 else [1][i]", "found"),
    search("an empty list", "IndexError", "def f(xs: list[int]):\n    return xs[0]", "found"),
    search(
        "a string that matches a pattern",
        "KeyError",
        "import re\ndef f(s: str):\n    if re.fullmatch('cb-[0-9]{3}', s): raise KeyError",
        "found",
    ),
    search("correct types", "TypeError", "def f(x: int):\n    return x + 1", "unreachable"),
    search(
        "an unbounded loop",
        "ValueError",
        "def f(x: int):\n    while x > 0: x -= 1\n    if x == 5: raise ValueError",
        *OPEN,
    ),
    search("infinite recursion", "RecursionError", "def f(x: int):\n    return f(x)", "found"),
    search(
        "an integer too large for a float", "OverflowError", "def f(x: int):\n    return float(x)", *left_open("found")
    ),
    search(
        "a quotient too large for a float", "OverflowError", "def f(x: int):\n    return x / 2", *left_open("found")
    ),
    search(
        "a length that is too large", "OverflowError", "def f(x: int):\n    return len(range(x))", *left_open("found")
    ),
    search("an integer with too many digits", "ValueError", "def f(x: int):\n    return str(x)", *left_open("found")),
    search("a lone surrogate", "UnicodeEncodeError", "def f(s: str):\n    return s.encode()", *left_open("found")),
    search(
        "a builtin that is not an exception",
        "print",
        "def f(x: int):\n    return x",
        "error",
        error_type="UnknownExceptionType",
    ),
    search(
        "an unknown exception", "Nothing", "def f(x: int):\n    return x", "error", error_type="UnknownExceptionType"
    ),
    search(
        "an unknown type",
        "ValueError",
        "def f(x: 'nothing'):\n    return x",
        "error",
        error_type="UnsupportedSignature",
    ),
    search(
        "a number as annotation", "ValueError", "def f(x: 5):\n    return x", "error", error_type="UnsupportedSignature"
    ),
    search(
        "two definitions",
        "ValueError",
        "def f(x: int):\n    return x\ndef f(x: str):\n    return x",
        "error",
        error_type="AmbiguousFunction",
    ),
    search("no such function", "ValueError", "def g(x: int):\n    return x", "error", error_type="FunctionNotFound"),
]
