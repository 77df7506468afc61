"""Attacks on the sandbox: the code, and the rule that must refuse it. The sandbox must survive those without a rule.

The numbers are those of the list of attacks that the sandbox was designed against. Some have several inputs. The
attacks on the jail alone are in `jailed_attacks.py`, and 1 to 7, single modules, in `test_policy_truth.py`.
"""

from tests.analysis.attack import CALL, MARKER, Attack, failing, refused, survived
from tests.analysis.attacks_on_paths import PATH_DETECTORS, PATHS
from tests.analysis.attacks_on_wrapping import DETECTORS, WRAPPING
from tests.analysis.further_attacks import FURTHER

IMPORTS = [
    *refused(8, "import", second_name="import math, os"),
    *refused(9, "import", alias="import math, os as o", deep="import collections.abc, os.path as p"),
    *refused(10, "import", relative="from . import os", parent="from .. import x", named="from .os import path"),
    *refused(11, "import", analyser="import crosshair", own="import quilt_mcp.analysis.policy", z3="import z3"),
    *refused(
        12, "import", underscored="from random import _os", main="import __main__", future="from __future__ import *"
    ),
    *refused(
        13,
        "withheld",
        random_os=CALL.format("import random; random._os.system('true')"),
        typing_sys=CALL.format("import typing; typing.sys.modules"),
        json_codecs=CALL.format("import json; json.codecs.open('/etc/passwd')"),
        enum_builtins=CALL.format("import enum; enum.bltns.exec('1')"),
        dataclasses_inspect=CALL.format("import dataclasses; dataclasses.inspect.builtins"),
    ),
    *survived(14, star="from math import *\nfrom typing import *\nx = sqrt(4)"),
]

OBJECTS = [
    *refused(15, "builtin", getattr="x = getattr((), '__cla' + 'ss__')", alias="g = getattr"),
    *refused(
        16, "withheld", attr="import operator\noperator.attrgetter('a')", caller="from operator import methodcaller"
    ),
    *refused(
        17,
        "dunder",
        base="x = ().__class__.__base__",
        dict="x = (lambda: 0).__dict__",
        getattribute="x = object.__getattribute__",
        subclasses="object.__subclasses__()",
        globals="(lambda: 0).__globals__",
        module="def f(): pass\nf.__module__ = 'os'",
    ),
    *refused(
        18, "attribute", generator="g = (x for x in ())\ng.gi_frame.f_back", code="g = (x for x in ())\ng.gi_code"
    ),
    *refused(
        19,
        "attribute",
        traceback="try:\n    1 / 0\nexcept Exception as e:\n    e.with_traceback(None).tb_frame",
        frame="def f(t):\n    return t.tb_frame.f_globals",
    ),
    *refused(
        20, "format", attribute="'{0.__class__}'.format(1)", index="'{0[a]}'.format(1)", nested="'{:{0}}'.format(1)"
    ),
    *refused(
        21,
        "format",
        variable="t = '{0.__cl' + 'ass__}'\nt.format(1)",
        unbound="str.format('{0.__class__}', 1)",
        mapped="x = map(str.format, ['{0.__class__}'], [1])",
    ),
    *refused(21, "attribute", format_map="'{a.b}'.format_map({})"),
    *refused(
        15, "attribute", hasattr="hasattr(1, '__class__')", hasattr_frame="hasattr((i for i in ()), 'gi_' + 'frame')"
    ),
    *refused(22, "dunder", fstring="f'{().__dict__}'", specification="f'{1:{().__dict__}}'"),
    *refused(
        23,
        "dunder",
        match_class="match 1:\n    case object(__class__=c):\n        pass",
        deep="match 1:\n    case [int(), object(__dict__=d)]:\n        pass",
    ),
    *refused(23, "attribute", match_frame="match 1:\n    case object(gi_frame=c):\n        pass"),
    *refused(
        24,
        "type",
        three_arguments="type('X', (), {})",
        alias="t = type",
        starred="type(*['X', (), {}])",
        base="class M(type): pass",
        argument="list(map(type, [int]))",
        type_of_type=CALL.format("type(int)('X', (), {'__annotations__': {}})"),
        type_of_own_class=CALL.format("type(type(ValueError()))"),
        class_of_class="class A:\n    @classmethod\n    def f(cls): return cls.__class__\nA.f()",
    ),
    *failing(
        24,
        "raises TypeError",
        alias_call=CALL.format("import typing; typing.Type[int]('X', (), {})"),
    ),
    *refused(
        24,
        "withheld",
        origin=CALL.format("import typing; typing.get_origin(typing.Type[int])('X', (), {})"),
        abc_meta=CALL.format("import abc; abc.ABCMeta('X', (), {})"),
        enum_type=CALL.format("import enum; enum.EnumType('X', (), {})"),
    ),
    *refused(25, "metaclass", metaclass="class A(metaclass=int): pass", keyword="class A(x=1): pass"),
    *refused(
        26,
        "dunder",
        init_subclass="class A:\n    def __init_subclass__(cls): pass",
        class_getitem="class A:\n    def __class_getitem__(cls, x): pass",
        del_="class A:\n    def __del__(self): pass",
        getattr_="class A:\n    def __getattr__(self, name): pass",
        reduce="class A:\n    def __reduce__(self): return (print, ())",
        assigned="class A:\n    __getattr__ = print",
        lambda_="class A:\n    __reduce_ex__ = lambda self, v: (print, ())",
        class_="class __class__: pass",
        walrus="(__builtins__ := {})",
        nonlocal_="def f():\n    def g():\n        nonlocal __class__",
        keyword="dict(__class__=1)",
        argument="def f(__builtins__): pass",
        loop="for __builtins__ in (): pass",
        handler="try:\n    pass\nexcept ValueError as __builtins__:\n    pass",
        alias="import math as __builtins__",
        capture="match 1:\n    case __builtins__:\n        pass",
        rest="match {}:\n    case {**__builtins__}:\n        pass",
        star="match []:\n    case [*__builtins__]:\n        pass",
    ),
    *refused(
        26,
        "dunder",  # it would get what the analyser copies
        deepcopy="class A:\n    def __deepcopy__(self, memo):\n        list(memo.values())\n        return self",
        deepcopy_assigned="class A:\n    __deepcopy__ = lambda self, memo: memo",
        deepcopy_by_super="class A:\n    def f(self, memo):\n        return super().__deepcopy__(memo)",
    ),
    *refused(
        27,
        "builtin",
        default="f = lambda e=eval: e",
        decorator="@exec\ndef f(): pass",
        comprehension="[exec for x in ()]",
    ),
    *refused(28, "builtin", fullwidth_eval="\uff45val('1')"),
    *refused(28, "dunder", fullwidth_class="().__d\uff49ct__"),
    *refused(28, "identifier", greek="\u03b1 = 1", attribute="x = 1\nx.\u03b1", imported="from math import \u03b1"),
]

_SHELL = f"__import__('os').system('touch {MARKER}')"

TEXTS = [
    *refused(29, "builtin", post=f'def f(x: int) -> int:\n    """post: {_SHELL}"""\n    return x'),
    *refused(29, "dunder", pre='def f(x: int) -> int:\n    """\n    pre:\n        ().__class__\n    """\n    return x'),
    *survived(  # the second string must not become the docstring
        29, second_text=f'def f(x: int) -> int:\n    """all well"""\n    """post: {_SHELL}"""\n    return x'
    ),
    *refused(
        30,
        "contract",
        raises=f'def f(x: int) -> int:\n    """\n    post: True\n    raises: {_SHELL}\n    """\n    return x',
    ),
    *refused(30, "contract", sphinx='def f(x: int) -> int:\n    """\n    :raises a.b.c: never\n    """\n    return x'),
    *refused(31, "builtin", inv=f'class A:\n    """inv: {_SHELL}"""\n    x: int = 0'),
    *refused(
        32, "builtin", annotation=f'def f(x: "{_SHELL}") -> int:\n    return 1', result='def f() -> "eval":\n    pass'
    ),
    *refused(
        32,
        "builtin",
        variable='x: "open" = 1',
        nested='def f(x: "list[exec]"): pass',
        inner='def f(x: list["exec"]): pass',
    ),
    *refused(
        32,
        "annotation",
        joined="def f(x: '().__cla' + 'ss__'): pass",
        f_string="A = 'ss__'\ndef f(x: f'().__cla{A}'): pass",
        called="def f(x: list(['int'])): pass",
        returned="def f() -> (lambda: 'int')(): pass",
        of_a_variable="x: '().__cl' 'ass__' + '' = 1",
        in_a_subscript="def f(x: list['().__cla' + 'ss__']): pass",
        in_a_text="def f(x: 'list[str(1)]'): pass",
        in_a_nested_text="def f(x: 'list[\"str(1)\"]'): pass",
        no_expression="def f(x: 'import os'): pass",
    ),
    *refused(33, "construct", computed="import typing\ntyping.Optional['*' + '()']"),
    *refused(33, "builtin", alias="A = '__imp' + 'ort__(1)'\nimport typing\ntyping.List[A]"),
    *refused(33, "builtin", argument="A = '__imp' + 'ort__(1)'\ndef f(x: A) -> int:\n    'post: True'\n    return 1"),
    *refused(34, "dunder", attribute_walk="A = '().__cl' + 'ass__'\nimport typing\ntyping.List[A]"),
    *refused(34, "dunder", argument="A = '().__cl' + 'ass__'\ndef f(x: A) -> int:\n    'post: True'\n    return 1"),
    *refused(35, "builtin", renamed_literal="from typing import List as Literal\ndef f(x: Literal['exec']): pass"),
    *refused(
        36, "withheld", forward_ref="from typing import ForwardRef", hints="import typing\ntyping.get_type_hints(int)"
    ),
    *survived(37, wrapper="import functools\nfunctools.update_wrapper(print, print)"),
    *survived(
        37,
        property_doc="class A:\n    x = property(lambda self: 1, None, None, 'post: __import__(1)')\n"
        "def f(a: A) -> int:\n    'post: True'\n    return a.x",
        dataclass_doc="from dataclasses import dataclass\n"
        "class R:\n    def __repr__(self):\n        return '\\n inv: exec(1)\\n'\n"
        "@dataclass\nclass A:\n    x: object = R()\ndef f(a: A) -> int:\n    'post: True'\n    return 1",
    ),
    *refused(
        37,
        "dunder",
        field_name="from typing import TypedDict\nfrom dataclasses import dataclass\n"
        "X = TypedDict('X', {'a=().__class__': int})\ndataclass(X)",
    ),
    Attack(38, "bound", "def f[T: __import__('os')](x: T) -> T: return x", ("construct", "syntax")),
    Attack(38, "type_statement", "type X = __import__('os')", ("construct", "syntax")),
    Attack(38, "class_bound", "class A[T: eval]: pass", ("construct", "syntax")),
    Attack(
        39,
        "directive",
        "# crosshair: off\ndef f(x: int) -> int:\n    # crosshair: off\n    'post: _ != 42'\n    return x",
        contains='"counterexample"',
    ),
]

PARSER = [
    Attack(40, "parentheses", "(" * 3000 + ")" * 3000, ("syntax", "nesting")),
    Attack(40, "brackets", "x = " + "[" * 150 + "]" * 150, ("syntax", "nesting")),
    Attack(41, "minus", "x = " + "-" * 30_000 + "1", ("syntax", "nesting")),
    Attack(41, "attributes", "x" + ".a" * 10_000, ("syntax", "nesting")),
    Attack(41, "conditions", "if 1: pass\n" + "elif 1: pass\n" * 3000, ("syntax", "nesting")),
    *refused(42, "syntax", nul="x = 1\0"),
    *refused(43, "encoding", surrogate="x = '\ud800'"),
    *refused(
        44,
        "encoding",
        cookie="# -*- coding: utf-7 -*-\n+AGkAbQBwAG8AcgB0ACAAbwBz-",
        second="\n# vim: set fileencoding=utf-7 :\n",
    ),
    Attack(45, "integer", "x = " + "9" * 5000, ("syntax", "literal")),
    *refused(45, "literal", shorter="x = " + "9" * 1000, text=f"x = '{'a' * 30_000}'"),
    *refused(46, "nodes", nodes="x = 1\n" * 10_000),
    *survived(46, functions="".join(f"def f{n}(): return {n}\n" for n in range(1500))),
    Attack(47, "exact", "x = 1\n" + "#" * (65536 - 6)),
    Attack(47, "one_more", "x = 1\n" + "#" * (65537 - 6), ("size",)),
    *survived(48, crlf="x = 1\r\nif x:\r\n\ty = 2\r\n"),
]

RESOURCES = [
    *survived(49, import_loop="while True: pass"),
    *survived(50, function_loop=CALL.format("while True: x += 1")),
    *survived(51, power="x = 9**9**9", in_function=CALL.format("y = 9**(9**9)")),
    *survived(52, sum="x = sum(range(10**12))"),
    *survived(53, membership="x = -1 in (i for i in iter(int, 1))"),
    *survived(
        54,
        regex="import re\nre.match('(a+)+$', 'a' * 40 + 'b')",
        in_function=CALL.format("import re; re.match('(a|a)*$', 'a' * 40 + 'b')"),
    ),
    *survived(55, doubling="x = [0]\nwhile True: x = x * 2"),
    *survived(56, product="import itertools\nfor x in itertools.product(range(10**6), repeat=3): pass"),
    *survived(57, text="x = 'a' * 10**11"),
    *survived(
        58, percent="x = '%1000000000d' % 1", width="x = f'{1:1000000000}'", format="x = '{:1000000000}'.format(1)"
    ),
    *survived(59, decimal="from decimal import Decimal\nx = int(Decimal('1e999999999'))"),
    *survived(
        60,
        recursion="def g(): return g()\ng()",
        in_function="def f(x: int) -> int:\n    'post: True'\n    return f(x + 1)",
    ),
    *survived(61, deep_list="x = []\nfor _ in range(100000): x = [x]\nrepr(x)"),
    *survived(
        62,
        clock="from datetime import datetime, timedelta\nend = datetime.now() + timedelta(days=1)\n"
        "while datetime.now() < end: pass",
    ),
    *survived(63, contract_list="def f(x: int) -> int:\n    'post: len([0] * 10**10) > 0'\n    return x"),
]

ANSWERS = [
    *survived(
        64,
        exception_text="raise ValueError('x' * 50_000_000)",
        in_function=CALL.format("raise ValueError('x' * 50_000_000)"),
    ),
    *survived(
        65,
        repr="class A:\n    def __repr__(self): raise ValueError\n"
        "def f(x: int) -> A:\n    'post: False'\n    return A()",
        name="class A(Exception): pass\nA.__name__\nraise A",
    ),
    *survived(66, surrogate="def f(x: str) -> str:\n    'post: _ != chr(0xd800)'\n    return x"),
    *survived(67, nan="def f(x: float) -> float:\n    'post: _ == _'\n    return x * float('inf') - float('inf')"),
    *survived(
        68,
        eq="class A:\n    def __eq__(self, other): return True\n"
        "def f(x: int) -> A:\n    'post: _ == 3'\n    return A()",
    ),
    *survived(69, prints="print('x' * 1_000_000)\nfor _ in range(1000): print('y' * 1000)"),
    Attack(70, "function_name", "def f(): pass", request={"function_name": "f(); import os"}, contains='"error"'),
    Attack(70, "dunder_name", "def f(): pass", request={"function_name": "__builtins__"}, contains='"error"'),
    Attack(
        71,
        "exception_type",
        "def f(x: int) -> int: return x",
        request={"tool": "find_path_to_exception", "exception_type": "int"},
        contains='"error"',
    ),
    Attack(
        71,
        "base_exception",
        "def f(x: int) -> int: return x",
        request={"tool": "find_path_to_exception", "exception_type": "BaseException"},
        contains='"error"',
    ),
    *refused(
        72,
        "builtin",
        system_exit="raise SystemExit(0)",
        base="x = BaseException",
        base_of_class="class A(BaseException): pass",
        base_in_a_tuple="try:\n    pass\nexcept (ValueError, BaseException):\n    pass",
        base_in_a_pattern="match 1:\n    case BaseException(): pass",
        group="try:\n    pass\nexcept (ValueError, KeyboardInterrupt):\n    pass",
        exit="exit()",
    ),
    *survived(
        72,
        bare="try:\n    pass\nexcept:\n    pass",
        finally_="def f(x: int):\n    'post: _ == 2'\n    try:\n        return 1\n    finally:\n        return 2",
        exit_method="class A:\n    def __exit__(self, *a): return True",
        except_star="try:\n    pass\nexcept* ValueError:\n    pass",
        raised_again="def f(x: int) -> int:\n    'post: _ == x'\n    try:\n        return x\n"
        "    except BaseException as e:\n        raise e from None",
        endless="def f(x: int) -> int:\n    'post: True'\n    while True:\n        try:\n            x += 1\n"
        "        except BaseException:\n            continue",
        a_class_of_its_own="def g():\n    try:\n        yield 1\n    except BaseException as e:\n"
        "        kind = type(e)\n        class Mine(kind): pass\n        raise Mine\n"
        "def f(x: int) -> int:\n    'post: True'\n    return next(g())",
    ),
    *refused(72, "attribute", mro="ValueError.mro()", register="import abc\nabc.ABC.register(int)"),
    *refused(
        72,
        "construct",
        asynchronous="async def f(): pass",
    ),
    *refused(72, "dunder", global_="def f():\n    global __builtins__"),
    *survived(73, rebound="len = lambda x: 42\ndef f(x: int) -> int:\n    'post: _ == 42'\n    return len([x])"),
]

GATED = [
    *IMPORTS,
    *OBJECTS,
    *TEXTS,
    *PARSER,
    *RESOURCES,
    *ANSWERS,
    *FURTHER,
    *WRAPPING,
    *DETECTORS,
    *PATHS,
    *PATH_DETECTORS,
]
