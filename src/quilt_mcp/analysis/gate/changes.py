"""Find out from the syntax what the code of a file changes outside of a call, and which values get a second name.

A function that an analysis leaves out can be called before the analysed one. It can change values of module names, by
their name or by another one. The checks find too many changes rather than too few.
"""

import ast
from collections import Counter, deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Self, TypeGuard

from quilt_mcp.analysis.gate.tree import is_dunder, read_last_name
from quilt_mcp.analysis.policy import ALLOWED_MODULES

_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
# The methods that set the attributes of new objects. No name shows where they are called.
CONSTRUCTORS = frozenset({"__init__", "__post_init__", "__new__"})
# The methods of objects that change them, and the functions of permitted modules that change their first argument
CHANGING_METHODS = frozenset(
    """
    __delitem__ __iadd__ __iand__ __imul__ __init__ __ior__ __isub__ __ixor__ __setitem__ __setstate__ add append
    appendleft clear difference_update discard extend extendleft insert intersection_update move_to_end pop popitem
    popleft register remove reverse rotate setdefault sort subtract symmetric_difference_update update
    """.split()  # noqa: SIM905 - words are easier to read than a list of literals
)
CHANGING_FUNCTIONS = frozenset(
    """
    delitem heapify heappop heappush heappushpop heapreplace iadd iand iconcat ifloordiv ilshift imatmul imod imul
    insort insort_left insort_right ior ipow irshift isub itruediv ixor next setitem shuffle
    """.split()  # noqa: SIM905 - words are easier to read than a list of literals
)
# Functions with a new object as result, those that keep nothing of their arguments, and those that keep items of them
_NEW = frozenset(
    """
    Counter OrderedDict bool bytearray bytes defaultdict deque dict float frozenset int len list range set sorted str
    tuple
    """.split()  # noqa: SIM905 - words are easier to read than a list of literals
)
_READERS = frozenset("all any bool float hash int isinstance issubclass len print repr str type".split())  # noqa: SIM905 - as above
_COPIES = frozenset(
    {"dict", "enumerate", "frozenset", "iter", "list", "max", "min", "reversed", "set", "sorted", "sum", "tuple", "zip"}
)
_BY_OPERATORS = frozenset({"abs", "round", "sum"})
_NEW_NODES = ast.List | ast.Dict | ast.Set | ast.ListComp | ast.DictComp | ast.SetComp | ast.Constant | ast.JoinedStr
# What code that the analysis leaves out can rebind any name with, and set any attribute with
_REBINDING = frozenset({"__globals__", "__import__", "__self__", "eval", "exec", "globals", "import_module", "modules"})
_SETTING = frozenset({"__delattr__", "__setattr__", "delattr", "setattr"})
# Nothing refers afterwards to a value that is directly in one of these
_READING = (
    ast.Compare | ast.UnaryOp | ast.FormattedValue | ast.Expr | ast.If | ast.While | ast.Assert | ast.Raise
    | ast.ExceptHandler | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | ast.arg
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Changes:
    """What functions change outside of themselves."""

    names: frozenset[str] = frozenset()  # module names that a function rebinds, and those with values that it changes
    # the attributes that a function outside of constructors sets or changes. Each has the class of the method that
    # changes it through its first parameter, or None. "" is a state that no constructor makes.
    attributes: frozenset[tuple[str | None, str]] = frozenset()
    context: bool = False  # whether a function reads or changes the context of decimal numbers
    others: bool = False  # whether a function changes a value that it did not make, so also one with another name
    # names with a value that gets another name, and how deep in the value: 0 for `a`, 1 for `a[0]`
    shared: frozenset[tuple[str, int]] = frozenset()

    def __or__(self, other: "Changes") -> "Changes":
        together = self.names | other.names, self.attributes | other.attributes, self.context or other.context
        return Changes(*together, self.others or other.others, self.shared | other.shared)


@dataclass(frozen=True, slots=True)
class Meanings:
    """What names and operators of a file can mean, apart from what they mean in Python."""

    bound: frozenset[str]  # all names that it binds anywhere, so that they may be no builtins
    outer: frozenset[str]  # those that a function declares global or nonlocal
    has_operators: bool  # whether an operator can run code of the file, or of another one

    @classmethod
    def read(cls, tree: ast.Module) -> Self:
        """Read them in a file. What it imports from other files or libraries can have operators too."""
        nodes = list(ast.walk(tree))
        methods = {one.name for one in nodes if isinstance(one, ast.FunctionDef) and is_dunder(one.name)}
        imports = {name for one in nodes if isinstance(one, ast.Import) for name in [alias.name for alias in one.names]}
        imports |= {one.module or "" for one in nodes if isinstance(one, ast.ImportFrom)}
        # such as `deque`, which means the same in every file
        known = [one.names for one in nodes if isinstance(one, ast.ImportFrom) and one.module in ALLOWED_MODULES]
        same = {id(alias) for names in known for alias in names if not alias.asname}
        bound = {name for one in nodes if id(one) not in same for name in list_bound(one)}
        bound |= {one.arg for one in nodes if isinstance(one, ast.arg)}
        outer = {name for one in nodes if isinstance(one, ast.Global | ast.Nonlocal) for name in one.names}
        has_operators = not (methods <= CONSTRUCTORS and imports <= {*ALLOWED_MODULES})
        return cls(frozenset(bound), frozenset(outer), has_operators)

    def read_called(self, node: ast.AST | None) -> str:
        """Return the name of the builtin that an expression calls, or ""."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id not in self.bound:
            return node.func.id
        return ""


def find_changes(tree: ast.Module) -> Changes:
    """Return what the functions and methods of a file change."""
    meanings = Meanings.read(tree)
    names = {*meanings.outer}
    attributes: set[tuple[str | None, str]] = set()
    classes = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    imported = find_imported(tree)
    others = _hands_on_changing(tree)
    for owner, function, local in _find_functions(tree, None, frozenset()):
        others = others or changes_others(function, meanings)
        first = function.args.args[0].arg if owner and function.args.args else None
        for target in _find_targets(function):
            path = _read_path(target)
            if path and path[0] not in local:
                names.add(path[0])
            if path and path[0] in imported:  # in another file the value can have the name alone
                names |= {imported[path[0]], *path}
            if len(path) > 1 and path[0] == "type":  # `type(self).n = 1`
                names |= {owner} if owner else classes
            if owner and first == "cls" and path[:1] == ["cls"]:
                names.add(owner)
            of_owner = owner if path[:1] == [first] else None
            attributes |= _list_attributes(target, path, of_owner, in_constructor=_is_constructor(function))
        # an object of a class that only a function knows has a state that no constructor at the top level makes
        bases = [base for node in _walk_scope(function) if isinstance(node, ast.ClassDef) for base in node.bases]
        attributes |= {(read_last_name(base), "") for base in bases}
    mentioned = {read_last_name(node) for node in ast.walk(tree)} | imported.keys()
    if mentioned & _REBINDING:
        names |= meanings.bound
    if mentioned & _SETTING or (others and mentioned & {"vars", "__dict__"}):
        names, others = names | classes, True
        attributes |= {(None, node.attr) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    context = any(uses_decimal_context(node) for node in ast.walk(tree) if isinstance(node, _FUNCTIONS))
    return Changes(frozenset(names), frozenset(attributes), context, others, frozenset(_find_shared(tree, meanings)))


def _list_attributes(
    target: ast.expr, path: Sequence[str], of_owner: str | None, *, in_constructor: bool
) -> set[tuple[str | None, str]]:
    """Return the attributes that change with a target, which is `a.b` or below it. "" stands for one that is gone."""
    if not path[1:]:
        return set()
    *above, last = path[1:]
    changed: set[tuple[str | None, str]] = set()
    if of_owner and (above or not in_constructor):
        changed.add((of_owner, path[1]))
    if above or not of_owner:
        changed.add((None, last))
    if isinstance(target, ast.Attribute) and isinstance(target.ctx, ast.Del):
        changed.add((of_owner, ""))
    return changed


def find_changed_names(tree: ast.Module) -> set[str]:
    """Return the module names with values that the file can change after it binds them, when it starts or later."""
    changes = find_changes(tree)
    by_other_names = (
        {name for name, _ in changes.shared} if changes.others or changes_others(tree, Meanings.read(tree)) else set()
    )
    return {*changes.names, *by_other_names, *_find_changed_at_start(tree)}


def changes_imported(tree: ast.Module) -> bool:
    """Return whether a file changes what it imports when it starts, such as a list of another file."""
    return not _find_changed_at_start(tree).isdisjoint(find_imported(tree))


def _find_changed_at_start(tree: ast.Module) -> set[str]:
    targets = [one for one in _find_targets(tree) if not isinstance(one, ast.Name) or _is_read(one)]
    return {path[0] for one in targets if (path := _read_path(one))}


def changes_others(code: ast.AST, meanings: Meanings) -> bool:
    """Return whether a function or an expression changes values that it did not make, such as its parameters.

    A constructor can set attributes of its object. Functions within the code are not part of it.
    """
    nodes = list(_walk_scope(code))
    new = _find_new(nodes, meanings)
    made = code.args.args[0].arg if _is_constructor(code) and code.args.args else None
    for target in _find_targets(code):
        match target:
            case ast.Name(name) if name in new or not isinstance(target.ctx, ast.Load):
                continue
            case ast.Attribute(ast.Name(name), ctx=ast.Store()) if name == made:
                continue
        return True
    added = [one.target for one in nodes if isinstance(one, ast.AugAssign) and not _counts(one)]
    return any(not (isinstance(one, ast.Name) and one.id in new) for one in added)


def _counts(node: ast.AugAssign) -> bool:
    """Return whether it adds a number or subtracts one, which is an error for a list. Others change it in its place."""
    is_number = isinstance(node.value, ast.Constant) and isinstance(node.value.value, int | float)
    return is_number and isinstance(node.op, ast.Add | ast.Sub)


def uses_decimal_context(tree: ast.AST) -> bool:
    """Return whether code gets or sets the context of decimal numbers of its thread."""
    return any(read_last_name(node) in {"getcontext", "setcontext"} for node in ast.walk(tree))


def _is_constructor(code: ast.AST) -> TypeGuard[ast.FunctionDef]:
    return isinstance(code, ast.FunctionDef) and code.name in CONSTRUCTORS


def find_imported(tree: ast.Module) -> dict[str, str]:
    """Return the names that imports bind, each with the name that it has where it comes from."""
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    return {one.asname or one.name.partition(".")[0]: one.name for node in imports for one in node.names}


def _find_functions(
    node: ast.AST, owner: str | None, local: frozenset[str]
) -> Iterator[tuple[str | None, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, frozenset[str]]]:
    """Yield the functions, each with the class that it is a method of, and with the names that are no module names."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _FUNCTIONS):
            names = local | _find_local_names(child)
            yield owner, child, names
            yield from _find_functions(child, None, names)
        else:
            yield from _find_functions(child, child.name if isinstance(child, ast.ClassDef) else owner, local)


def _find_local_names(function: ast.AST) -> set[str]:
    nodes = list(_walk_scope(function))
    # the variables of a comprehension and the names in a class are not those of the function
    inner = {id(one) for node in nodes if isinstance(node, ast.comprehension) for one in ast.walk(node.target)}
    inner |= {
        id(one) for node in nodes if isinstance(node, ast.ClassDef) for part in node.body for one in ast.walk(part)
    }
    bound = {name for one in nodes if id(one) not in inner for name in list_bound(one)}
    outer = {name for one in nodes if isinstance(one, ast.Global | ast.Nonlocal) for name in one.names}
    return (bound - outer) | {one.arg for one in nodes if isinstance(one, ast.arg)}


def list_bound(node: ast.AST) -> list[str]:
    """Return the names that a node binds, but for parameters."""
    match node:
        case ast.Name(name, ast.Store() | ast.Del()) | ast.MatchMapping(rest=str(name)):
            return [name]
        case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.ExceptHandler(name=str(name)):
            return [name]
        case ast.FunctionDef(name) | ast.AsyncFunctionDef(name) | ast.ClassDef(name):
            return [name]
        case ast.alias(name, other_name):
            return [other_name or name.partition(".")[0]]
    return []


def _find_targets(code: ast.AST) -> Iterator[ast.expr]:
    """Yield what code binds, deletes or changes, apart from functions within it."""
    for node in _walk_scope(code):
        if isinstance(node, ast.Name | ast.Attribute) and not isinstance(node.ctx, ast.Load):
            yield node
        elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            yield node.value
        for one in getattr(node, "decorator_list", ()):  # which is called too
            if isinstance(one, ast.Attribute) and one.attr in CHANGING_METHODS:
                yield one.value
        if isinstance(node, ast.Call):
            function = node.func
            is_base = isinstance(function, ast.Attribute) and function.attr == "__init__" and _is_constructor(code)
            if isinstance(function, ast.Attribute) and function.attr in CHANGING_METHODS and not is_base:
                yield function.value
            if read_last_name(function) in CHANGING_FUNCTIONS:
                yield from node.args[:1]


def _read_path(node: ast.expr) -> list[str]:
    """Return the names of `a.b[0].c` from left to right. The first is "type" for `type(a).c`, and "" for `f().c`.

    `f()[0]` has none.
    """
    path: list[str] = []
    while isinstance(node, ast.Attribute | ast.Subscript):
        if isinstance(node, ast.Attribute):
            path.insert(0, node.attr)
        node = node.value
    if isinstance(node, ast.Call) and path:
        return ["type" if read_last_name(node.func) == "type" else "", *path]
    if isinstance(node, ast.Name):
        return [node.id, *path]
    return ["", *path] if path else []


def _walk_scope(code: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function without those of functions within it. Decorators run where the function stands."""
    own = {id(one) for one in getattr(code, "decorator_list", ())}
    waiting = deque(one for one in ast.iter_child_nodes(code) if id(one) not in own)
    while waiting:
        node = waiting.popleft()
        yield node
        waiting += getattr(node, "decorator_list", ()) if isinstance(node, _FUNCTIONS) else ast.iter_child_nodes(node)


def _find_new(nodes: Collection[ast.AST], meanings: Meanings) -> set[str]:
    """Return the local names that only new objects are bound to."""
    new: Counter[str] = Counter()
    for node in nodes:
        if isinstance(node, ast.Assign | ast.AnnAssign) and _makes_new(node.value, meanings):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            new.update(one.id for one in targets if isinstance(one, ast.Name))
    added = {id(node.target) for node in nodes if isinstance(node, ast.AugAssign)}
    bound = Counter(name for one in nodes if id(one) not in added for name in list_bound(one))
    parameters = {getattr(one, "arg", "") for one in nodes}
    return {name for name, count in new.items() if count == bound[name]} - meanings.outer - parameters


def _makes_new(value: ast.expr | None, meanings: Meanings) -> bool:
    called = meanings.read_called(value)
    if isinstance(value, ast.Call) and called in _BY_OPERATORS:
        return len(value.args) == 1 and not value.keywords and not meanings.has_operators
    by_operator = isinstance(value, ast.BinOp) and not meanings.has_operators
    return called in _NEW or by_operator or isinstance(value, _NEW_NODES)


def _hands_on_changing(tree: ast.Module) -> bool:
    """Return whether what changes its argument is a value, as in `map(a.append, b)`, or has another name."""
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    called |= {id(one) for node in ast.walk(tree) for one in getattr(node, "decorator_list", ())}
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    getters = {"methodcaller"} | (
        {"attrgetter"} if any(one.split(".")[-1] in CHANGING_METHODS for one in texts) else set()
    )
    return any(
        read_last_name(node) in getters
        or (isinstance(node, ast.Attribute) and node.attr in CHANGING_METHODS and id(node) not in called)
        or (read_last_name(node) in CHANGING_FUNCTIONS and id(node) not in called)
        or (isinstance(node, ast.alias) and node.asname is not None and node.name in getters | CHANGING_FUNCTIONS)
        for node in ast.walk(tree)
    )


def _find_shared(tree: ast.Module, meanings: Meanings) -> Iterator[tuple[str, int]]:
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    imported = find_imported(tree)
    for name in ast.walk(tree):
        if not (isinstance(name, ast.Name) and isinstance(name.ctx, ast.Load)):
            continue
        depth = _find_depth(name, parents, own, meanings)
        if depth is None:
            continue
        yield name.id, depth
        if name.id in imported:
            yield imported[name.id], depth
            part = parents[name]
            while isinstance(part, ast.Attribute):
                yield part.attr, 0
                part = parents[part]


def _find_depth(
    name: ast.Name, parents: Mapping[ast.AST, ast.AST], own: Collection[str], meanings: Meanings
) -> int | None:
    """Return how deep in the value of a name the part is that this use gives another name, or None.

    `x = a` gives one to depth 0, and `x = a[0]`, `x = a.get(0)` and `for x in a` to depth 1. A change of a result that
    has no name, as in `a.get(0).append(1)`, counts too.
    """
    node: ast.expr = name  # grows: `a`, `a.b`, `a.b[0]`, `a.b[0].get`, `a.b[0].get(1)`
    depth = 0
    container: int | None = None  # the depth of what the node is an item of; None for a copy
    is_result = is_copy = False  # of a method; a copy is new, and its items are at the depth
    compared: int | None = None  # `a.index(b)` gives the items of `a` to `__eq__`
    while True:
        parent = parents[node]
        if isinstance(parent, ast.Attribute):
            user = parents[parent]
            is_called = isinstance(user, ast.Call) and user.func is parent
            is_change = parent.attr in CHANGING_METHODS and (not is_called or (is_result and not is_copy))
            if parent.attr in own or is_change:  # `self` is the other name
                return depth
            if is_called and meanings.has_operators:
                compared = depth + 1
            container = None if is_copy else depth
            depth += not is_copy and (not is_called or parent.attr in {"get", "copy"})
            is_copy = is_called and parent.attr == "copy"
        elif isinstance(parent, ast.Subscript) and node is parent.value:
            container = None if is_copy else depth
            depth, is_copy = depth + (not is_copy), False
        elif not (isinstance(parent, ast.Call) and isinstance(node, ast.Attribute) and node is parent.func):
            break
        is_result = is_result or isinstance(parent, ast.Call)
        node = parent
    if isinstance(parent, ast.Call) and read_last_name(parent.func) == "join" and "join" not in own:
        return None
    if not _is_read(node) and is_result:
        return container
    kept = _find_kept(node, parent, meanings)
    return depth + kept if _is_read(node) and kept is not None else compared


def _is_read(node: ast.expr) -> bool:
    return isinstance(getattr(node, "ctx", ast.Load()), ast.Load)


def _find_kept(node: ast.expr, user: ast.AST, meanings: Meanings) -> int | None:
    """Return what can be referred to after its use: 0 for the value of the expression, 1 for its items, else None."""
    kept: int | None = None if isinstance(user, ast.Subscript | ast.comprehension | _READING) else 0
    called = meanings.read_called(user)
    match user:
        case ast.Call() if node is user.func or called in _READERS:
            kept = None
        case ast.Call() if called in _COPIES and (node is user.args[0] or called == "zip"):
            kept = 0 if called in {"max", "min"} and len(user.args) > 1 else 1
        case ast.For() | ast.comprehension() if node is user.iter:
            kept = 1
        case ast.Starred():
            kept = 1
        case ast.BinOp():
            kept = 0 if meanings.has_operators else 1
        case ast.Compare() if meanings.has_operators:  # `__eq__` is given the items if it is only about them
            about_items = node is not user.left and all(isinstance(one, ast.In | ast.NotIn) for one in user.ops)
            kept = 1 if about_items else 0
        case ast.Subscript() if meanings.has_operators and node is user.slice:
            kept = 0
        case ast.AnnAssign(annotation=only_read) | ast.IfExp(test=only_read) if node is only_read:
            kept = None
    return kept
