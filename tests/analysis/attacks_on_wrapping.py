"""Attacks on decorators, context managers, digests, attributes by name, and handlers of all exceptions."""

from tests.analysis.attack import CALL, forging, refused, survived

_CLAIMS = ("verified",)
_F = "def f(x: int) -> int:\n    'post: True'\n"
_WRAPS = "from functools import wraps, update_wrapper\n"

WRAPPING = [
    *refused(
        201,
        "builtin",
        computed_name=CALL.format("n = '__cl' + 'ass__'; getattr(x, n)"),
        no_call=CALL.format("g = getattr"),
        as_key=CALL.format("sorted([x], key=getattr)"),
        mapped=CALL.format("list(map(getattr, [x], ['real']))"),
        starred=CALL.format("getattr(*[x, 'real'])"),
        keyword=CALL.format("getattr(x, 'real', default=1)"),
        four=CALL.format("getattr(x, 'real', 1, 2)"),
        no_identifier=CALL.format("getattr(x, 'a b')"),
        joined=CALL.format("getattr(x, f'real')"),
        bytes_name=CALL.format("getattr(x, b'real')"),
        default_only=CALL.format("getattr(x, *['real', 1])"),
    ),
    *refused(
        202,
        "dunder",
        class_by_name=CALL.format("getattr(x, '__class__')"),
        globals_by_name=CALL.format("getattr(f, '__globals__')"),
        dict_by_name=CALL.format("getattr(f, '__dict__', 0)"),
        wrapped=_WRAPS + CALL.format("f.__wrapped__"),
        wrapped_by_name=_WRAPS + CALL.format("getattr(f, '__wrapped__')"),
        nested=CALL.format("getattr(getattr(f, '__code__', 0), 'co_consts', 0)"),
        in_a_default=CALL.format("getattr(x, 'real', getattr(f, '__closure__'))"),
        traceback=CALL.format("getattr(ValueError(), '__traceback__')"),
    ),
    *refused(
        203,
        "attribute",
        frame=CALL.format("getattr((i for i in ()), 'gi_frame')"),
        mro=CALL.format("getattr(ValueError, 'mro')()"),
        register=CALL.format("getattr(object, 'register', 1)"),
        traceback=CALL.format("getattr(x, 'tb_frame', 1)"),
        format_map=CALL.format("getattr('{0}', 'format_map', 1)"),
    ),
    *refused(
        204,
        "format",
        of_text=CALL.format("t = '{0.real}'; getattr(t, 'format')(x)"),
        of_a_class=CALL.format("getattr(str, 'format')('{0.real}', x)"),
        literal=CALL.format("getattr('{0.real}', 'format')(x)"),
        default=CALL.format("t = '{0.real}'; getattr(t, 'format', None)(x)"),
    ),
    *refused(
        205,
        "withheld",
        redirect="from contextlib import redirect_stdout",
        stderr="import contextlib\ncontextlib.redirect_stderr(1)",
        directory="from contextlib import chdir",
        library="import contextlib\ncontextlib.sys",
        abc_of_contextlib="import contextlib\ncontextlib.abc",
        os_of_contextlib="from contextlib import os",
        file="from hashlib import file_digest",
        by_name="import hashlib\nhashlib.new('md5')",
        slow="import hashlib\nhashlib.pbkdf2_hmac('sha1', b'', b'', 10**9)",
        memory="from hashlib import scrypt",
        dispatch="from functools import singledispatch\nsingledispatch(lambda x: x).dispatch",
        assignments="from functools import WRAPPER_ASSIGNMENTS",
    ),
    *refused(
        206,
        "metaclass",
        metaclass="from typing import TypedDict\nclass C(TypedDict, metaclass=dict): pass",
        total_of_another="class C(dict, total=False): pass",
        total_computed="from typing import TypedDict\nclass C(TypedDict, total=bool(0)): pass",
        unpacked="from typing import TypedDict\nclass C(TypedDict, **{'total': False}): pass",
        further="from typing import TypedDict\nclass C(TypedDict, total=False, closed=True): pass",
    ),
    *refused(
        207,
        "store",
        wrapped_library="import json\n" + _WRAPS + CALL.format("json.dumps.x = 1"),
        cache_of_a_library="import functools\n" + CALL.format("functools.wraps.x = 1"),
        of_a_manager="import contextlib\n" + CALL.format("contextlib.suppress.y = 1"),
    ),
    *survived(
        208,
        wrap_a_builtin=_WRAPS + "@wraps(len)\ndef g(x): return x\nname = g.__name__\n" + CALL.format("g(x)"),
        wrap_a_class=_WRAPS
        + "class A: pass\ndef g(x): return x\nupdate_wrapper(A, g)\nupdate_wrapper(g, A)\n"
        + CALL.format("g(x)"),
        wrap_a_library=_WRAPS + "import json\nupdate_wrapper(json.dumps, lambda: 0)\n" + CALL.format("json.dumps(x)"),
        wrap_a_module=_WRAPS + "import json\nupdate_wrapper(json, lambda: 0)\n" + CALL.format("json.dumps(x)"),
        wrap_in_a_circle=_WRAPS + "def g(x): return x\nupdate_wrapper(g, g)\n" + CALL.format("g(x)"),
        names_of_a_function=_WRAPS + "def g(x): return x\ng.format = 1\ng.evil = print\n@wraps(g)\n"
        "def h(x): return x\nh.evil('x')\n" + CALL.format("h(x)"),
        own_wrapped=_WRAPS + "def g(): return 1\n@wraps(g)\ndef f(x: int) -> int:\n    'post: True'\n    return x\n",
        circle_of_the_subject=_WRAPS + "def f(x: int) -> int:\n    'post: True'\n    return x\nupdate_wrapper(f, f)\n",
        exit_of_a_stack="from contextlib import ExitStack\n" + CALL.format("s = ExitStack(); s.push(print); s.close()"),
        callback="from contextlib import ExitStack\n" + CALL.format("s = ExitStack(); s.callback(len, [1]); s.close()"),
        pop_all="from contextlib import ExitStack\n" + CALL.format("ExitStack().pop_all().close()"),
        endless_manager="from contextlib import contextmanager\n@contextmanager\ndef g():\n    while True:\n"
        "        try:\n            yield\n        except BaseException:\n            pass\n"
        + CALL.format("with g(): pass"),
        generator_of_a_manager="from contextlib import contextmanager\n@contextmanager\ndef g():\n    yield 1\n"
        + CALL.format("g().gen.throw(ValueError)"),
        function_of_a_manager="from contextlib import contextmanager\n@contextmanager\ndef g():\n    yield 1\n"
        + CALL.format("g().func().send(None)"),
        large_digest="import hashlib\n" + CALL.format("hashlib.shake_256(b'').hexdigest(10**12)"),
        many_digests="import hashlib\n" + CALL.format("[hashlib.sha512(b'x' * 10**6) for _ in range(10**9)]"),
        key_of_a_digest="import hashlib\n" + CALL.format("hashlib.blake2b(b'', key=b'k' * 10**9)"),
        suppress_all="from contextlib import suppress\n" + CALL.format("with suppress(Exception): f(x)"),
        recursion="from functools import wraps\ndef d(g):\n    @wraps(g)\n    def h(x): return h(x)\n    return h\n"
        "@d\ndef f(x: int) -> int:\n    'post: True'\n    return x\n",
        endless_handler=_F + "    while 1:\n        try:\n            while 1: x += 1\n"
        "        except:\n            pass\n",
        endless_finally="def f(x: int) -> int:\n    'post: True'\n    while 1:\n        try:\n            x += 1\n"
        "        finally:\n            continue\n",
        group="def f(x: int) -> int:\n    'post: True'\n    try:\n        f(x + 1)\n    except* RecursionError:\n"
        "        pass\n    return x\n",
        exit_that_swallows="class A:\n    def __enter__(self): return self\n    def __exit__(self, *a): return True\n"
        "def f(x: int) -> int:\n    'post: True'\n    while 1:\n        with A(): x += 1\n",
        state_of_a_class="class A:\n    def __len__(self): raise KeyError\na = [A()]\ncalls = []\n"
        + CALL.format("calls.append(a)"),
        state_that_restores="class A(dict):\n    def clear(self): raise MemoryError\na = A()\n"
        + CALL.format("a[x] = 1"),
        state_with_a_setter="class M:\n    n = 0\n    def __eq__(self, other): raise KeyError\nm = M()\n"
        + CALL.format("M.n += 1; m.n = x"),
        module_that_is_cleared="n = 0\ndef f(x: int) -> int:\n    'post: True'\n    global n, f\n    n += 1\n"
        "    f = None\n    return n\n",
    ),
]

DETECTORS = [
    *forging(
        209,
        _CLAIMS,
        swallow="def f(x: int) -> int:\n    'post: _ == 0'\n    try:\n        big = x * x * x - 7 * x == 1234566\n"
        "    except BaseException:\n        return 0\n    return 1 if x == 77777 else 0",
        swallow_bare="def f(x: int) -> int:\n    'post: _ == 0'\n    seen = 0\n    try:\n"
        "        if x * x * x == 27 * x + 1:\n"
        "            seen = 1\n    except:\n        return 0\n    return 1 if x == 77777 else seen",
        finally_return="def f(x: int, y: int) -> int:\n    'post: _ == 0'\n    r = 0\n    try:\n"
        "        r = 1 if x * y == 20127115652867 and 1 < x < y else 0\n    finally:\n        return r",
        exit_true="class Q:\n    def __enter__(self): return self\n    def __exit__(self, *a): return True\n"
        "def f(x: int, y: int) -> int:\n    'post: _ == 0'\n    r = 0\n    with Q():\n"
        "        r = 1 if x * x * y == 123454321000 + y and x > 9 else 0\n    return 1 if x == 5 and y == 77777 else r",
        attribute_by_name="def f(x: int) -> int:\n    'post: _ == 0'\n    if getattr(x, 'var', None) is not None:\n"
        "        return 0\n    return 1 if x == 1234567 else 0",
        missing_attribute="def f(x: int) -> int:\n    'post: _ == 0'\n    try:\n        getattr(x, 'python_type')\n"
        "    except AttributeError:\n        return 1 if x == 1234567 else 0\n    return 0",
        chain="def f(x: int) -> int:\n    'post: _ == 0'\n    y = x + 0\n    if y is x is y:\n"
        "        return 1 if x == 77 else 0\n    return 0",
        pattern="def f(s: str) -> int:\n    'post: _ == 0'\n    match s:\n        case [*_]: return 0\n"
        "        case _: return 1 if s == 'secret7' else 0",
        digest="import hashlib\ndef f(s: str) -> int:\n    'post: _ == 0'\n    try:\n"
        "        hashlib.md5(s.encode())\n    except TypeError:\n        return 0\n"
        "    return 1 if s == 'secret7' else 0",
        counter="n = 0\ndef f(x: int) -> int:\n    'post: _ == 0'\n    global n\n    n += 1\n    return n > 3",
        cache="from functools import lru_cache\n@lru_cache\ndef g(): return []\n"
        "def f(x: int) -> int:\n    'post: _ == 0'\n"
        "    g().append(x)\n    return len(g()) > 2",
        clock="from datetime import datetime\ndef f(x: int) -> int:\n    'post: _ == 0'\n"
        "    return datetime.now().microsecond == 123",
    ),
]
