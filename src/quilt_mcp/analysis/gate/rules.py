"""The rules of the gate: their messages, and the lists of what they allow and refuse."""

import ast
from collections.abc import Mapping

from quilt_mcp.analysis.policy import ALLOWED_MODULES

# The message of each refusal: the reason and what to change. It contains no text from the code.
RULES = {
    "size": "The code is larger than code_size_bytes in config://security.",
    "encoding": "The code is not valid UTF-8, or declares another encoding.",
    "syntax": "The code is not valid Python for the version that this server runs.",
    "nesting": "The code is nested too deeply. Split expressions and blocks.",
    "nodes": "The code has too many statements and expressions. Send only the functions that the analysis needs.",
    "canonical": "The code has a construct that the sandbox cannot rewrite without changing it. Use a simpler one.",
    "construct": "The code has an unsupported construct, such as async or type parameters.",
    "import": "The code imports a module or name that is not allowed. Pass what you need of it as an argument. Allowed"
    f" are {', '.join(ALLOWED_MODULES)}.",
    "builtin": "The code uses a builtin that is not allowed. See dangerous_builtins in config://security.",
    "type": "The code uses `type` other than in a call with one argument that is not a class, or `__class__` of a"
    " class. Use typing.Type in annotations and isinstance() in checks.",
    "dunder": "The code uses a name of the form __name__ that is not allowed.",
    "attribute": "The code uses an attribute that gives access to frames, code objects or the interpreter, or that"
    " disturbs an analysis. `register` is for calls and decorators, of functools.singledispatch and of the code's own"
    " classes.",
    "format": "The code uses str.format other than on a string literal with plain fields. Use an f-string.",
    "enum": "The code creates an enum by a call. Write it as a class.",
    "private": "The code uses a name of the form _name_, which belongs to the library, other than those of the enum"
    " module such as _missing_.",
    "store": "The code sets or deletes an attribute of something that it does not define itself. Use a subclass or a"
    " variable.",
    "identifier": "The code has an identifier with a character that is not an ASCII letter, digit or underscore.",
    "literal": "The code has a literal that is too long. Compute it instead.",
    "metaclass": "The code has a class with keyword arguments, such as a metaclass. Remove them, apart from"
    " `total` of a TypedDict.",
    "annotation": "The code has an annotation that is computed, or a text there that is not an annotation. Use names,"
    " attributes, subscripts, `|`, lists, tuples and constants.",
    "withheld": "The code uses a name of an allowed module that analysed code cannot have. See withheld_names in"
    " config://security. Names of the form _name and modules inside the module are withheld too. Write the function"
    " yourself or leave it out, for example a lambda instead of operator.attrgetter.",
    "contract": "A pre:, post: or inv: line is not an expression or contains a backslash, or a raises: line is not a"
    " list of names.",
}

# Short programs that each rule refuses, for config://security. The other rules are about the limits there.
EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "encoding": ("# -*- coding: latin-1 -*-",),
    "syntax": ("def f(:",),
    "construct": ("async def f(): pass", "async def f():\n    async with x: pass"),
    "import": ("import os", "from . import x", "from random import _inst", "from __future__ import division"),
    "builtin": ("getattr(x, name)", "x = getattr", "vars(x)", "x = open", "raise SystemExit"),
    "type": ("type('C', (), {})", "kind = type", "class C(type): pass", "type(int)", "int.__class__"),
    "dunder": (
        "self.__class__ = C",
        "self.__dict__",
        "class C:\n    __slots__ = names",
        "class C:\n    def __getattr__(self, name): pass",
        "def f(__x__): pass",
    ),
    "attribute": (
        "generator.gi_frame",
        "import abc\nabc.ABC.register(int)",
        "import functools\nadd = functools.singledispatch(lambda x: x).register",
        "C.mro()",
        "error.with_traceback(None)",
        "def f_back(): 0",
    ),
    "format": ("'{0.a}'.format(x)", "'{:{}}'.format(x, y)", "template = '{0}'\ntemplate.format(1)"),
    "enum": ("from enum import Enum\nColor = Enum('Color', 'RED GREEN')",),
    "private": ("Color._member_map_", "class C:\n    def _convert_(self): pass"),
    "store": ("import json\njson.JSONEncoder.indent = 1", "import math\nmath.x = 1"),
    "identifier": ("größe = 1",),
    "metaclass": ("class C(metaclass=M): pass", "class C(B, option=1): pass"),
    "annotation": ("def f(x: int if 1 else str): pass", "x: [int][0].y() = 1", "def f(x: 'the number'): pass"),
    "withheld": (
        "from pathlib import Path",
        "import operator\nkey = operator.attrgetter('x')",
        "import logging\nlogging.root",
    ),
    "contract": ("def f(x):\n    'post: the result is right'", "def f(x):\n    'raises: f()'"),
}


# What code can use in the place of a withheld name
_PURE = " Use pathlib.PurePath, PurePosixPath or PureWindowsPath, which open no files."
INSTEAD: Mapping[str, str] = {"pathlib.Path": _PURE, "pathlib.PosixPath": _PURE, "pathlib.WindowsPath": _PURE}


class Refused(BaseException):
    """The code breaks a rule of the gate.

    Code that runs can raise it too. It is not an `Exception`, so that neither the code nor an analysis takes it for an
    outcome of the code.

    Attributes:
        rule: the key in `RULES`.
        line: the line of the submitted text, from 1; None if there is no single line.

    Args:
        name: a name of the standard library or of a module that the message shows.
    """

    def __init__(self, rule: str, line: int | None = None, name: str = "") -> None:
        shown = f"{name}: " if name else ""
        super().__init__(shown + RULES[rule] + INSTEAD.get(name, "") + (f" (Line {line}.)" if line else ""))
        self.rule = rule
        self.line = line


class Interrupted(BaseException):
    """A run took too long. Analysed code cannot handle it."""


# Every allowed kind of node. Nodes of later Python versions are refused until they are added here.
NODES: frozenset[type[ast.AST]] = frozenset(
    {
        *(ast.Module, ast.Expression, ast.FunctionDef, ast.ClassDef, ast.Lambda, ast.arguments, ast.arg, ast.keyword),
        *(ast.Return, ast.Yield, ast.YieldFrom, ast.Nonlocal, ast.Global, ast.Pass, ast.Break, ast.Continue, ast.Expr),
        ast.Delete,
        *(ast.Assign, ast.AugAssign, ast.AnnAssign, ast.NamedExpr, ast.Starred, ast.Load, ast.Store, ast.Del),
        *(ast.For, ast.While, ast.If, ast.IfExp, ast.With, ast.withitem, ast.Assert, ast.Raise, ast.Try),
        ast.TryStar,
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

# Names that give access to the interpreter, or make isinstance() look at attributes. No identifier can have one: class
# patterns read the attributes that a class declares.
INTERNAL_NAMES = frozenset(
    {
        *("tb_frame", "tb_next", "tb_lasti", "tb_lineno"),  # traceback -> frame
        *("f_back", "f_builtins", "f_code", "f_globals", "f_lasti", "f_lineno", "f_locals", "f_trace"),  # frame -> all
        *("f_generator", "f_trace_lines", "f_trace_opcodes"),
        *("gi_frame", "gi_code", "gi_yieldfrom", "gi_running", "gi_suspended"),  # generator -> frame
        *("cr_frame", "cr_code", "cr_await", "cr_origin", "cr_running", "cr_suspended"),
        *("ag_frame", "ag_code", "ag_await", "ag_running", "ag_suspended"),
        *("func_globals", "func_code", "func_closure", "func_defaults"),  # names in Python 2
        *("_is_protocol", "_is_runtime_protocol", "_getframe", "format_map"),
    }
)

# Attributes, apart from names of the form __name__, that give access to the interpreter or disturb an analysis
CLOSED_ATTRIBUTES = INTERNAL_NAMES | {
    *("_evaluate", "evaluate"),  # text -> object
    "mro",  # base classes of Exception
    *("with_traceback", "add_note"),  # change exceptions that the analyser uses
    "_inst",  # whether a call of typing.Type creates a class
    "cache_info",  # how often a function was called
}

# An attribute of abstract classes, with which a class deceives isinstance(). Code can call that of dispatchers and that
# of its own classes, or use it as a decorator.
REGISTER = "register"

# Names of the form _name_ that a class or a member of an enum has for its users
ENUM_NAMES = frozenset({"_generate_next_value_", "_ignore_", "_missing_", "_name_", "_order_", "_value_"})

# Methods of the form __name__ that a class can define and call on super(). They only compute. `__deepcopy__` is
# not one: it gets the memo of the calling copy, which refers to everything that is copied.
DEFINABLE_METHODS = frozenset(
    """
    __init__ __post_init__ __eq__ __ne__ __lt__ __le__ __gt__ __ge__ __hash__ __repr__ __str__ __bool__ __len__
    __getitem__ __setitem__ __delitem__ __contains__ __iter__ __next__ __reversed__ __call__ __enter__ __exit__
    __add__ __radd__ __iadd__ __sub__ __rsub__ __isub__ __mul__ __rmul__ __imul__ __matmul__ __truediv__ __rtruediv__
    __floordiv__ __rfloordiv__ __mod__ __rmod__ __divmod__ __pow__ __rpow__ __neg__ __pos__ __abs__ __invert__ __and__
    __rand__ __or__ __ror__ __xor__ __rxor__ __lshift__ __rshift__ __int__ __float__ __index__ __round__ __floor__
    __ceil__ __trunc__ __copy__
    """.split()  # noqa: SIM905 - words are easier to read than a list of literals
)

# Names of the form __name__ that contract lines can use: the result, and the arguments before the call
CONTRACT_NAMES = frozenset({"__return__", "__old__"})

# Public names of allowed modules that facades do not have, with the reason
WITHHELD: Mapping[str, frozenset[str]] = {
    "abc": frozenset({"ABCMeta"}),  # called with three arguments, it creates a class with any names
    # set attributes of `sys`; change the directory; are for async
    "contextlib": frozenset(
        {"redirect_stdout", "redirect_stderr", "chdir"}
        | {"AbstractAsyncContextManager", "AsyncExitStack", "aclosing", "asynccontextmanager"}
    ),
    "dataclasses": frozenset({"make_dataclass"}),  # makes code from names in strings
    "enum": frozenset({"EnumMeta", "EnumType", "global_enum"}),  # create classes; write into other modules
    # data of `wraps`, which is in facades.py, as `update_wrapper`; `singledispatch` is in dispatch.py
    "functools": frozenset({"WRAPPER_ASSIGNMENTS", "WRAPPER_UPDATES"}),
    # read files; take long on purpose; load algorithms by name
    "hashlib": frozenset({"file_digest", "new", "pbkdf2_hmac", "scrypt"}),
    "operator": frozenset({"attrgetter", "methodcaller"}),  # get attributes by computed name
    "pathlib": frozenset({"Path", "PosixPath", "UnsupportedOperation", "WindowsPath"}),  # open files
    "random": frozenset({"SystemRandom"}),  # random numbers of the operating system: no run can be repeated
    "string": frozenset({"Formatter"}),  # gets attributes by computed name
    "typing": frozenset(
        # evaluate text; functools.wraps under another name; `type` as the origin of typing.Type; let isinstance() look
        # at attributes
        {"ForwardRef", "evaluate_forward_ref", "get_args", "get_origin", "get_type_hints", "no_type_check_decorator"}
        | {"clear_overloads", "get_overloads", "runtime_checkable"}
    ),
    "typing_extensions": frozenset(
        {"clear_overloads", "get_overloads"}
        | {"ForwardRef", "evaluate_forward_ref", "get_annotations", "get_args", "get_origin", "get_original_bases"}
        | {"get_type_hints", "no_type_check_decorator", "runtime", "runtime_checkable", "type_repr"}
    ),
}
