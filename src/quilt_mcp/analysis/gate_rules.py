"""The rules of the gate: what each says, and the lists that they go by."""

import ast

# What a refusal says: the reason and what to change. Nothing of the code is repeated.
RULES = {
    "size": "The code is larger than code_size_bytes in config://security.",
    "encoding": "The code is not text in UTF-8, or declares another encoding.",
    "syntax": "The code is not valid Python for the interpreter of this server.",
    "nesting": "The code is nested too deeply. Split expressions and blocks up.",
    "nodes": "The code has too many parts. Send only the functions that the analysis needs.",
    "canonical": "The code has a construct that cannot be written anew without a change. Write it more simply.",
    "construct": "The code has a statement that is not analysed, such as async, global or type parameters.",
    "import": "The code imports what is not in allowed_modules in config://security.",
    "builtin": "The code uses a builtin that is in dangerous_builtins in config://security.",
    "type": "`type` may only be called, with one argument. For annotations use typing.Type, for checks isinstance().",
    "dunder": "The code uses a name of the form __name__ that is not open to it.",
    "attribute": "The code uses an attribute that leads to frames, code objects or the interpreter.",
    "format": "str.format may only be used on a literal template with plain fields. Use an f-string.",
    "identifier": "The code has an identifier with other than ASCII letters, digits and underscores.",
    "literal": "The code has a literal that is too long. Compute it instead.",
    "metaclass": "A class may have no keyword arguments, such as a metaclass.",
    "handler": "A bare except, a finally that leaves by return, break or continue, or an __exit__ that returns a value"
    " would hide the analyser's own exceptions. Name the exceptions that you expect.",
    "contract": "A pre:, post: or inv: line is not an expression without a backslash, or a raises: line not names.",
}


class Refused(Exception):
    """The gate does not let the code in.

    Attributes:
        rule: the key in `RULES`.
        line: the line of the client's text, from 1, or None where there is no one line.
    """

    def __init__(self, rule: str, line: int | None = None) -> None:
        super().__init__(RULES[rule] + (f" (Line {line}.)" if line else ""))
        self.rule = rule
        self.line = line


# Every kind of node that may occur. What a later Python adds is refused until it stands here.
NODES: frozenset[type[ast.AST]] = frozenset(
    {
        *(ast.Module, ast.Expression, ast.FunctionDef, ast.ClassDef, ast.Lambda, ast.arguments, ast.arg, ast.keyword),
        *(ast.Return, ast.Yield, ast.YieldFrom, ast.Nonlocal, ast.Pass, ast.Break, ast.Continue, ast.Expr, ast.Delete),
        *(ast.Assign, ast.AugAssign, ast.AnnAssign, ast.NamedExpr, ast.Starred, ast.Load, ast.Store, ast.Del),
        *(ast.For, ast.While, ast.If, ast.IfExp, ast.With, ast.withitem, ast.Assert, ast.Raise, ast.Try),
        *(ast.ExceptHandler, ast.Import, ast.ImportFrom, ast.alias),
        *(ast.Match, ast.match_case, ast.MatchValue, ast.MatchSingleton, ast.MatchSequence, ast.MatchMapping),
        *(ast.MatchClass, ast.MatchStar, ast.MatchAs, ast.MatchOr),
        *(ast.Constant, ast.JoinedStr, ast.FormattedValue, ast.Name, ast.Attribute, ast.Subscript, ast.Slice, ast.Call),
        *(ast.List, ast.Tuple, ast.Set, ast.Dict, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
        *(ast.comprehension, ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.Compare, ast.And, ast.Or),
        *(ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.MatMult, ast.LShift, ast.RShift),
        *(ast.BitAnd, ast.BitOr, ast.BitXor, ast.Invert, ast.Not, ast.UAdd, ast.USub),
        *(ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Is, ast.IsNot, ast.In, ast.NotIn),
    }
)

# Attributes without underscores at both ends that lead to the interpreter, or that disturb an analysis.
CLOSED_ATTRIBUTES = frozenset(
    {
        *("tb_frame", "tb_next", "tb_lasti", "tb_lineno"),  # traceback -> frame
        *("f_back", "f_builtins", "f_code", "f_globals", "f_lasti", "f_lineno", "f_locals", "f_trace"),  # frame -> all
        *("gi_frame", "gi_code", "gi_yieldfrom", "cr_frame", "cr_code", "cr_await", "cr_origin"),  # generator -> frame
        *("ag_frame", "ag_code", "ag_await"),
        *("func_globals", "func_code", "func_closure", "func_defaults"),  # Python 2's names, kept closed
        *("_evaluate", "evaluate", "_getframe"),  # text or frame -> object
        *("mro", "register"),  # classes above Exception; classes that lie to isinstance()
        *("with_traceback", "add_note"),  # change the exceptions that the analyser works with
        "format_map",  # str.format by another name
    }
)

# Methods of the form __name__ that a class may define, and call on super(): they compute, and hook into no machinery.
DEFINABLE_METHODS = frozenset(
    """
    __init__ __post_init__ __eq__ __ne__ __lt__ __le__ __gt__ __ge__ __hash__ __repr__ __str__ __bool__ __len__
    __getitem__ __setitem__ __delitem__ __contains__ __iter__ __next__ __reversed__ __call__ __enter__ __exit__
    __add__ __radd__ __iadd__ __sub__ __rsub__ __isub__ __mul__ __rmul__ __imul__ __matmul__ __truediv__ __rtruediv__
    __floordiv__ __rfloordiv__ __mod__ __rmod__ __divmod__ __pow__ __rpow__ __neg__ __pos__ __abs__ __invert__ __and__
    __rand__ __or__ __ror__ __xor__ __rxor__ __lshift__ __rshift__ __int__ __float__ __index__ __round__ __floor__
    __ceil__ __trunc__ __copy__ __deepcopy__
    """.split()  # noqa: SIM905 - words are easier to read than a list of literals
)

# Names of the form __name__ that contract lines may use: the result, and the arguments as they were.
CONTRACT_NAMES = frozenset({"__return__", "__old__"})
