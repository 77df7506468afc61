"""Attacks on paths without files, on dispatchers, and on attributes with the name `register`."""

from tests.analysis.attack import CALL, failing, forging, refused, survived

_CLAIMS = ("verified",)
_PATH = "from pathlib import PurePath, PurePosixPath, PureWindowsPath\np = PurePosixPath('/a/b.c')\n"
_DISPATCH = (
    "from functools import singledispatch, singledispatchmethod\n@singledispatch\ndef g(x): return 1\n"
    "@g.register\ndef _(x: str): return 2\n"
)
_METHOD = (
    "from functools import singledispatchmethod\nclass A:\n    @singledispatchmethod\n    def g(self, x): return 1\n"
    "    @g.register\n    def _(self, x: str): return 2\n"
)
_TEXT = (
    "class T(str):\n    def __str__(self): return self\n    def split(self, *a): seen.append(a); return a\nseen = []\n"
)

PATHS = [
    *refused(
        211,
        "withheld",
        file="from pathlib import Path",
        posix_file="import pathlib\npathlib.PosixPath('/etc/passwd').read_text()",
        windows_file="from pathlib import WindowsPath",
        star="from pathlib import *\nPath('/etc/passwd').read_text()",
        system="import pathlib\npathlib.os.system('true')",
        system_by_import="from pathlib import os",
        interpreter="import pathlib\npathlib.sys.modules",
        patterns="import pathlib\npathlib.fnmatch",
        in_a_try="try:\n    from pathlib import Path\nexcept Exception:\n    pass",
        by_name="import pathlib\ngetattr(pathlib, 'Path')",
        by_name_with_default="import pathlib\ngetattr(pathlib, 'Path', None)",
        asked="import pathlib\nhasattr(pathlib, 'os')",
        flavour=_PATH + CALL.format("p._flavour"),
        flavour_of_the_class=_PATH + CALL.format("PurePath._flavour"),
        flavour_by_name=_PATH + CALL.format("getattr(p, '_flavour')"),
        flavour_with_default=_PATH + CALL.format("getattr(PureWindowsPath, '_flavour', 0)"),
        flavour_of_the_parent=_PATH + CALL.format("p.parent.parents[0]._flavour"),
        flavour_caught=_PATH + CALL.format("\n    try: p._flavour.pathmod.os\n    except BaseException: pass"),
        flavour_in_a_pattern=_PATH + CALL.format("\n    match p:\n        case PurePath(_flavour=m): m.pathmod"),
        constructor_without_checks=_PATH + CALL.format("PurePosixPath._from_parsed_parts('', '', ['a'])"),
        parser_without_checks=_PATH + CALL.format("PurePath._parse_args([x])"),
        parts_of_the_library=_PATH + CALL.format("p._parts.append(1)"),
        address=_PATH + CALL.format("p.as_uri()"),
        reserved=_PATH + CALL.format("p.is_reserved()"),
        encoded=_PATH + CALL.format("bytes(p)"),
        alias=_PATH + "PurePath[int]",
        subclass=_PATH + "class Q(PurePath): pass",
        subclass_of_posix=_PATH + "class Q(PurePosixPath):\n    def match(self, x): return True",
        subclass_of_two="import pathlib, abc\nclass Q(abc.ABC, pathlib.PureWindowsPath): pass",
        subclass_of_str=_PATH + _TEXT + CALL.format("PurePosixPath(T('a/b'))"),
        subclass_of_str_joined=_PATH + _TEXT + CALL.format("p.joinpath(T('a/b'))"),
        subclass_of_str_divided=_PATH + _TEXT + CALL.format("p / T('a')"),
        subclass_of_str_before=_PATH + _TEXT + CALL.format("T('a') / p"),
        subclass_of_str_as_name=_PATH + _TEXT + CALL.format("p.with_name(T('a'))"),
        number_as_name=_PATH + CALL.format("p.with_name(7)"),
        object_as_suffix="class A:\n    def __contains__(self, o): return False\n"
        + _PATH
        + CALL.format("p.with_suffix(A())"),
        object_as_pattern="class A:\n    def __eq__(self, o): return True\n" + _PATH + CALL.format("p.match(A())"),
        object_as_option=_PATH + CALL.format("p.relative_to('/', walk_up=[])"),
    ),
    *refused(
        212,
        "dunder",
        kept=_PATH + CALL.format("p.__pure__"),
        kept_by_name=_PATH + CALL.format("getattr(p, '__pure__')"),
        kept_in_a_pattern=_PATH + CALL.format("\n    match p:\n        case PurePath(__pure__=q): q"),
        kept_by_the_class=_PATH + CALL.format("PurePath.__library__"),
        kept_paths=_PATH + CALL.format("p.parents.__paths__"),
        protocol=_PATH + CALL.format("p.__fspath__()"),
        reduced=_PATH + CALL.format("p.__reduce__()[0]"),
        reduced_more=_PATH + CALL.format("p.__reduce_ex__(2)"),
        class_dict=_PATH + CALL.format("PurePath.__dict__"),
        subclasses=_PATH + CALL.format("PurePath.__subclasses__()"),
        globals_of_a_method=_PATH + CALL.format("p.joinpath.__globals__"),
        function_of_a_method=_PATH + CALL.format("p.match.__func__"),
        globals_of_a_getter=_PATH + CALL.format("PurePath.name.fget.__globals__"),
        base=_PATH + CALL.format("PurePath.__base__"),
        new=_PATH + CALL.format("object.__new__(PurePath)"),
        setattr=_PATH + CALL.format("object.__setattr__(p, 'x', 1)"),
        definition=_PATH + "class A:\n    def __fspath__(self): return '/'\n",
        wrapped_dispatcher=_DISPATCH + CALL.format("g.__wrapped__"),
        chosen=_DISPATCH + CALL.format("g.__chosen__"),
        chosen_by_name=_DISPATCH + CALL.format("getattr(g, '__chosen__', 0)"),
        registered=_DISPATCH + CALL.format("g.__registered__"),
        globals_of_a_dispatcher=_DISPATCH + CALL.format("g.__globals__"),
        closure_of_a_dispatcher=_DISPATCH + CALL.format("g.__closure__"),
        called_by_name=_DISPATCH + CALL.format("g.__call__.__self__"),
        bound=_DISPATCH + "class A: h = g\n" + CALL.format("A().h.__func__"),
        chosen_of_a_method=_METHOD + CALL.format("A.g.__closure__"),
        globals_of_register=_DISPATCH + CALL.format("g.register(int).__closure__"),
    ),
    *refused(
        213,
        "withheld",
        registry=_DISPATCH + CALL.format("g.registry"),
        registry_by_name=_DISPATCH + CALL.format("getattr(g, 'registry', 0)"),
        registry_in_a_pattern=_DISPATCH + CALL.format("\n    match g:\n        case object(registry=r): r"),
        asked_for_the_registry=_DISPATCH + CALL.format("hasattr(g, 'registry')"),
        dispatch=_DISPATCH + CALL.format("g.dispatch(int)"),
        cache=_DISPATCH + CALL.format("g._clear_cache()"),
        dispatcher_of_a_method=_METHOD.replace("@g.register", "x = g.dispatcher\n    @g.register"),
        function_of_a_method=_METHOD.replace("@g.register", "x = g.func\n    @g.register"),
        of_a_builtin="from functools import singledispatch\nsingledispatch(len)",
        of_a_class="from functools import singledispatch\n@singledispatch\nclass A: pass",
        of_a_library="import json, functools\nfunctools.singledispatch(json.dumps)",
        of_a_manager="import contextlib, functools\nfunctools.singledispatch(contextlib.contextmanager)",
        of_an_object="import functools\nclass A:\n    def __call__(self, x): return x\nfunctools.singledispatch(A())",
        of_a_method="import functools\nfunctools.singledispatchmethod(len)",
        of_attributes="import functools\ndef g(x): return x\ng.registry = {}\nfunctools.singledispatch(g)",
        register_an_object=_DISPATCH + "class A:\n    x: int\ng.register(A())",
        register_a_text=_DISPATCH + "g.register('int')",
        register_a_builtin=_DISPATCH + "g.register(len)",
        register_a_library=_DISPATCH + "import json\ng.register(json.dumps)",
        register_a_form=_DISPATCH + "import typing\ng.register(typing.List[int])",
    ),
    *refused(
        214,
        "attribute",
        of_an_abstract_class="import abc\nclass A(abc.ABC): pass\nA.register(int)",
        of_abc="import abc\n@abc.ABC.register\nclass A: pass",
        of_a_collection="from collections.abc import Sequence\nSequence.register(int)",
        of_a_collection_as_decorator="from collections.abc import Hashable\n@Hashable.register\nclass A: pass",
        of_a_path=_PATH + "p.register(int)",
        of_parents=_PATH + "p.parents.register(int)",
        of_the_type_of_parents=_PATH + "type(p.parents).register(int)",
        of_a_buffer="from collections.abc import ByteString\nByteString.register(int)",
        of_a_library="import logging\nlogging.register(int)",
        of_a_variable="import abc\nfor a in [abc.ABC]:\n    a.register(int)",
        of_a_result="import abc\ndef g(): return abc.ABC\ng().register(int)",
        of_an_own_abstract_class="import abc\nclass A(abc.ABC): pass\nclass B(A): pass\nB.register(int)",
        by_name="import abc\ngetattr(abc.ABC, 'register')(int)",
        of_a_dispatcher_by_name=_DISPATCH + "getattr(g, 'register')(int)",
        no_call="import abc\nr = abc.ABC.register\nr(int)",
        no_call_of_a_dispatcher=_DISPATCH + "r = g.register\nr(int)",
        handed_on=_DISPATCH + "list(map(g.register, [int]))",
        stored=_DISPATCH + "g.register = print",
        deleted=_DISPATCH + "del g.register",
        in_a_pattern="import abc\ndef g(x):\n    match x:\n        case object(register=r): return r",
        in_a_contract=_DISPATCH + "def f(x: int) -> int:\n    'post: g.register(int)'\n    return x\n",
        of_super="import abc\nclass A(abc.ABC):\n    def g(self): return super().register(int)\nA().g()",
    ),
    *refused(
        215,
        "store",
        attribute_of_a_path=_PATH + CALL.format("p.name = 'x'"),
        attribute_of_a_class=_PATH + CALL.format("PurePath.match = print"),
        attribute_of_a_dispatcher=_DISPATCH + CALL.format("g.registry = {}"),
        kept_wrapped=_DISPATCH + CALL.format("g.x = 1"),
        class_of_a_dispatcher=_DISPATCH + CALL.format("type(g).dispatch = 1"),
        deleted_method=_PATH + CALL.format("del PurePosixPath.match"),
    ),
    *refused(
        216,
        "format",
        text_of_a_path=_PATH + CALL.format("str(p).format(p)"),
        field=_PATH + CALL.format("'{0._flavour}'.format(p)"),
        of_a_dispatcher=_DISPATCH + CALL.format("'{0.__chosen__}'.format(g)"),
    ),
    *failing(
        217,
        "counterexample",
        format_of_a_path=_PATH + CALL.format("f'{p:x}'"),
        missing_attribute=_PATH + CALL.format("p.read_text()"),
        exists=_PATH + CALL.format("p.exists()"),
        opened=_PATH + CALL.format("p.open()"),
        error_of_the_library=_PATH + CALL.format("\n    try: PurePath(3)\n    except TypeError as e: e.obj"),
        serialised=_PATH + CALL.format("import json; json.dumps(p)"),
        operator=_PATH + CALL.format("p + 'x'"),
    ),
    *survived(
        218,
        long_path=_PATH + CALL.format("PurePath('a/' * 10**7).parents[5]"),
        many_parents=_PATH + CALL.format("list(PurePath('a/' * 10**5).parents)"),
        slow_pattern=_PATH + CALL.format("PurePath('a' * 5000).match('*a' * 40 + 'b')"),
        endless_join=_PATH + CALL.format("\n    while True: globals_ = PurePath('a') / 'b'"),
        operator_of_an_object="class A:\n    def __eq__(self, o): seen.append(o); return True\n"
        "    def __rtruediv__(self, o): seen.append(o); return o\nseen = []\n"
        + _PATH
        + CALL.format("p == A(); A() == p; p / A(); seen[0].name"),
        order_of_an_object="class A:\n    def __gt__(self, o): return o.parts\n" + _PATH + CALL.format("p < A()"),
        decorated=_PATH
        + "from dataclasses import dataclass\ndataclass(PurePath)\n"
        + CALL.format("PurePath('a').name"),
        ordered=_PATH + "from functools import total_ordering\ntotal_ordering(PurePath)\n" + CALL.format("p < p"),
        copied=_PATH + "import copy\n" + CALL.format("copy.deepcopy([p, p.parents])"),
        field="from dataclasses import dataclass, replace\n"
        + _PATH
        + "@dataclass\nclass A:\n    p: PurePath\n"
        + CALL.format("replace(A(p), p=p.parent).p.name"),
        getter=_PATH + CALL.format("\n    try: PurePath.name.fget(x)\n    except AttributeError as e: e.obj"),
        register_itself=_DISPATCH + "g.register(int, g)\n" + CALL.format("g(x)"),
        register_in_a_circle=_DISPATCH + "@g.register\ndef h(x: int): return g(x)\n" + CALL.format("g(x)"),
        register_while_called=_DISPATCH + CALL.format("g.register(int, lambda y: y); g(x)"),
        register_many=_DISPATCH
        + CALL.format("\n    for i in range(10**6):\n        class B: pass\n        g.register(B, g)"),
        register_none=_DISPATCH + "g.register(int, None)\n" + CALL.format("g(x)"),
        type_of_a_dispatcher=_DISPATCH + CALL.format("type(g)(f)(x)"),
        method_of_the_type=_DISPATCH
        + CALL.format("\n    try: type(g).register(x, int)\n    except AttributeError as e: e.obj"),
        ambiguous=_DISPATCH
        + "from collections.abc import Sized, Iterable\ng.register(Sized, g)\ng.register(Iterable, g)\n"
        "class B:\n    def __len__(self): return 0\n    def __iter__(self): return iter(())\n" + CALL.format("g(B())"),
        no_arguments=_DISPATCH + CALL.format("g()"),
        no_arguments_of_a_method=_METHOD + CALL.format("A().g()"),
        annotation_as_text=_DISPATCH + "@g.register\ndef _(x: 'list[int]'): return 3\n",
        enumeration="from enum import Enum\n" + _PATH + "class Q(PurePosixPath, Enum):\n    A = 'a'",
        recursion_of_register="class A:\n    def register(self, x): return self.register(x)\n"
        + CALL.format("A().register(x)"),
    ),
]

PATH_DETECTORS = [
    *forging(
        219,
        _CLAIMS,
        symbolic_text="from pathlib import PurePosixPath\ndef f(s: str) -> int:\n    'post: _ == 0'\n"
        "    try:\n        PurePosixPath(s)\n    except BaseException:\n        return 0\n"
        "    return 1 if s == 'secret7' else 0",
        by_class=_DISPATCH + "@g.register\ndef _(x: int): return 0\ndef f(x: int) -> int:\n    'post: _ == 0'\n"
        "    return 1 if x == 1234567 else g(x)",
        by_subclass=_DISPATCH + "@g.register\ndef _(x: bool): return 7\ndef f(x: int) -> int:\n    'post: _ == 1'\n"
        "    return g(x)",
        by_own_subclass=_DISPATCH + "class N(int): pass\n@g.register\ndef _(x: N): return 7\n"
        "def f(x: int) -> int:\n    'post: _ == 1'\n    return g(x)",
        registered_later=_DISPATCH + "def other(): g.register(int, lambda y: 7)\n"
        "def f(x: int) -> int:\n    'post: _ == 1'\n    return g(x)",
        registered_by_a_parameter=_DISPATCH + "def other(d): d.register(int, lambda y: 7)\ndef main(): other(g)\n"
        "def f(x: int) -> int:\n    'post: _ == 1'\n    return g(x)",
        registered_in_a_class="from functools import singledispatchmethod\nclass A:\n    @singledispatchmethod\n"
        "    def g(self, x): return 1\n    @classmethod\n    def h(cls):\n        cls.__name__\n"
        "def f(x: int) -> int:\n    'post: _ == 1'\n    return 2 if x == 7654321 else A().g(x)",
        counts=_DISPATCH + "calls = []\n@g.register\ndef _(x: int):\n    calls.append(x)\n    return len(calls)\n"
        "def f(x: int) -> int:\n    'post: _ < 900'\n    return g(x)",
        hidden_list="from functools import singledispatch\n"
        "@singledispatch\ndef g(x): return 0\ng.register(int, (lambda xs: lambda x: (xs.append(x), len(xs))[1])([]))\n"
        "def f(x: int) -> int:\n    'post: _ < 900'\n    return g(x)",
    ),
]
