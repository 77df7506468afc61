"""Functions with branches, which outcomes are reachable, and how complex the functions are."""

from tests.analysis.programs.rows import branches, complexity, left_open

BRANCHES = [
    branches(
        "a contradiction, a constant and dead code",
        """
        # a comment moves the lines
        def f(x: int) -> int:

            if x > 0 and x < 0:
                return 1
            elif x == 7:
                y = 1 if x > 3 else 2
                return y
            while x > 100:
                return 4
                x = 3
            return 2
        """,
        "complete",
        branches=[
            {"line": 4, "true_reachable": False, "false_reachable": True},
            {"line": 6, "true_reachable": True, "false_reachable": True},
            {"line": 7, "true_reachable": True, "false_reachable": False},
            {"line": 9, "true_reachable": True, "false_reachable": True},
        ],
        dead_code_lines=[5, 11],
        cyclomatic_complexity=6,
        total_branches=4,
        reachable_branches=4,
    ),
    branches(
        "what a nested function does later is not decided, and a line with live code is not dead",
        """
        def f(x: int):
            if x != x: return lambda: 1 if x else 2
            def g() -> int:
                if x > 0:
                    return 1
                return 2
            return g
        """,
        "complete",
        branches=[
            {"line": 2, "true_reachable": False, "false_reachable": True},
            {"line": 2, "true_reachable": None, "false_reachable": None},
            {"line": 4, "true_reachable": None, "false_reachable": None},
        ],
        dead_code_lines=[],
    ),
    branches(
        "an undecided outcome is null",
        """
        def f(n: int) -> int:
            total = 0
            for i in range(n):
                total += i
            if total == -1:
                return 0
            return total
        """,
        "partial",
        branches=[{"line": 5, "true_reachable": None, "false_reachable": True}],
        dead_code_lines=[],
    ),
    branches(
        "an unreachable branch within another",
        """
        def f(x: int) -> int:
            if x > 10:
                if x < 5:
                    return 1
                if x > 5:
                    return 2
                return 3
            return 0
        """,
        "complete",
        branches=[
            {"line": 2, "true_reachable": True, "false_reachable": True},
            {"line": 3, "true_reachable": False, "false_reachable": True},
            {"line": 5, "true_reachable": True, "false_reachable": False},
        ],
        dead_code_lines=[4, 7],
    ),
    branches(
        "statements that leave their block",
        """
        def f(x: int, xs: list[int]) -> int:
            if x == 1:
                if xs: return 1
                else: raise ValueError
                x = 5
            elif x == 2:
                while True:
                    if xs: return 1
                x = 9
            elif x == 3:
                for _ in xs:
                    if x: continue
                else: return 2
                x = 14
            elif x == 4:
                try: return 1 // x
                except ZeroDivisionError: return 0
                x = 18
            elif x == 5:
                match x:
                    case 1: return 1
                    case _: return 2
                x = 23
            elif False:
                x = 25
            with xs: return 1
            while True:
                if x: break
            for _ in xs:
                if x: break
            else: return 2
            try: return 1 // x
            except ZeroDivisionError: x = 0
            match x:
                case 1: return 1
            return x
        """,
        "complete",
        symbolic=False,
        dead_code_lines=[5, 9, 14, 18, 23, 25],
    ),
    branches(
        "a branch that only large numbers reach",
        """
        def f(x: int) -> int:
            try:
                float(x)
            except OverflowError:
                return 1 if x > 0 else 2
            return 0
        """,
        *left_open("complete"),
    ),
    branches(
        "other functions do not count",
        """
        def g(x: int) -> int:
            return 1 if x else 2
        def f(x: int) -> int:
            return x
        """,
        "complete",
        branches=[],
        cyclomatic_complexity=1,
    ),
]

COMPLEXITIES = [
    complexity(1, "no branch", "return x"),
    complexity(2, "if", "if x: return 1"),
    complexity(2, "if and else", "if x: return 1\nelse: return 2"),
    complexity(4, "a chain of elif", "if x: pass\nelif y: pass\nelif x > y: pass\nelse: pass"),
    complexity(2, "for", "for i in range(x): pass"),
    complexity(2, "while", "while x: x -= 1"),
    complexity(3, "two except clauses", "try: pass\nexcept KeyError: pass\nexcept ValueError: pass"),
    complexity(4, "and, or", "if x and y or x > y: return 1"),
    complexity(2, "conditional expression", "return 1 if x else 2"),
    complexity(3, "comprehension", "return [i for i in range(x) if i > y]"),
    complexity(3, "match", "match x:\n    case 1: pass\n    case 2: pass\n    case _: pass"),
    complexity(3, "a nested function", "def g(z):\n    return 1 if z else 2\nif x: return g(y)"),
    complexity(1, "with statement", "with x: return y"),
]
