"""Pairs of functions, and whether they behave the same."""

from tests.analysis.programs.rows import left_open, pair

PAIRS = [
    pair("doubled and added", "def a(x: int): return x * 2\ndef b(x: int): return x + x", "equivalent"),
    pair("doubled and shifted", "def a(x: int): return x * 2\ndef b(x: int): return x << 1", *left_open("equivalent")),
    pair("five, and five at five", "def a(x: int): return 5\ndef b(x: int): return 5 if x == 5 else x", "different"),
    pair(
        "one number differs",
        "def a(x: int): return x * 2\ndef b(x: int): return x * 2 if x != 12345 else 0",
        "different",
    ),
    pair("sorted in place or not", "def a(xs: list[int]): xs.sort()\ndef b(xs: list[int]): sorted(xs)", "different"),
    pair("true and one", "def a(x: int): return x == 1\ndef b(x: int): return 1 if x == 1 else 0", "different"),
    pair("integer and float", "def a(x: int): return x\ndef b(x: int): return float(x)", *left_open("different")),
    pair("halves", "def a(x: int): return int(x / 2)\ndef b(x: int): return x // 2", *left_open("different")),
    pair("two parameters", "def a(x: int, y: int): return x + y\ndef b(x: int, y: int): return y + x", "equivalent"),
    pair("absolute", "def a(x: int): return abs(x)\ndef b(x: int): return x if x > 0 else -x", "equivalent"),
    pair("different exceptions", "def a(x: int): raise KeyError\ndef b(x: int): raise ValueError", "different"),
    pair(
        "different messages of the same exception",
        "def a(x: int): raise KeyError(x)\ndef b(x: int): raise KeyError",
        "equivalent",
    ),
    pair("raised or returned", "def a(x: int): return 1 // x\ndef b(x: int): return 1 // x if x else 0", "different"),
    pair("NaN equals NaN", "def a(x: float): return x\ndef b(x: float): return x", *left_open("equivalent")),
    pair(
        "NaN is not equal to itself in Python",
        "def a(x: float): return x == x\ndef b(x: float): return True",
        *left_open("different"),
    ),
    pair(
        "stripped on one side",
        "def a(s: str): return s.strip()\ndef b(s: str): return s.lstrip()",
        *left_open("different"),
    ),
    pair("order of keys", "def a(x: int): return {1: x, 2: x}\ndef b(x: int): return {2: x, 1: x}", "equivalent"),
    pair(
        "a loop and its formula",
        """
        def a(n: int): return sum(range(n + 1)) if n > 0 else 0
        def b(n: int): return n * (n + 1) // 2 if n > 0 else 0
        """,
        *left_open("equivalent"),
    ),
    pair(
        "a wrong __eq__",
        """
        class Box:
            def __init__(self, x): self.x = x
            def __eq__(self, other): return True
        def a(x: int): return Box(x)
        def b(x: int): return Box(x + 1)
        """,
        *left_open("different"),
    ),
    pair("iterators", "def a(x: int): return iter([x])\ndef b(x: int): return iter([x])", *left_open("equivalent")),
    pair(
        "different parameter names",
        "def a(x: int): return x\ndef b(y: int): return y",
        "error",
        error_type="SignatureMismatch",
    ),
    pair(
        "different parameter types",
        "def a(x: int): return x\ndef b(x: str): return x",
        "error",
        error_type="SignatureMismatch",
    ),
    pair("module data", "n = []\ndef a(x: int): n.append(x); return len(n)\ndef b(x: int): return 1", "unknown"),
]
