"""Reduce a file to what a function uses. Everyday code gets another form first, which the sandbox can check."""

import ast
import builtins
import inspect
import re
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from quilt_mcp.analysis.gate.changes import CONSTRUCTORS, find_changed_names, list_bound, uses_decimal_context
from quilt_mcp.analysis.gate.tree import read_last_name


def find_imports(tree: ast.AST) -> set[str]:
    """Return the names of modules that the code imports, also in functions, and imported names that can be modules."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


_CONTRACT = re.compile(r"^\s*:?(pre|post)\b[^:]*:", re.MULTILINE)
_RAISES = re.compile(
    r"^(?P<indent>[ \t]*)Raises:[ \t]*\n(?P<entries>((?P=indent)[ \t]+\S.*(\n|$)|[ \t]*\n)+)", re.MULTILINE
)
_ENTRY = re.compile(r"([A-Za-z]\w*):", re.ASCII)


def rewrite_everyday_code(tree: ast.Module) -> ast.Module:
    """Return the tree, changed: no `__all__`, `type(x)` for `x.__class__`, `raises:` lines for sections `Raises:`."""
    tree.body = [node for node in tree.body if not _assigns_dunder_all(node)]
    if any(isinstance(node, ast.Attribute) and node.attr == "abc" for node in ast.walk(tree)):
        _import_abstract_classes(tree)
    rewritten: ast.Module = _Rewriter({*_find_exception_names(tree)}).visit(tree)
    return rewritten


def _assigns_dunder_all(node: ast.stmt) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return [one.id for one in targets if isinstance(one, ast.Name)] == ["__all__"]


def _import_abstract_classes(tree: ast.Module) -> None:
    for node in ast.walk(tree):
        names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.Import) and "collections" in names and "collections.abc" not in names:
            node.names.append(ast.copy_location(ast.alias("collections.abc"), node.names[0]))


def _find_exception_names(tree: ast.Module) -> Iterator[str]:
    """Yield the names that can be exceptions: those of the builtins, of classes and of imports."""
    yield from (
        name for name, one in vars(builtins).items() if isinstance(one, type) and issubclass(one, BaseException)
    )
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from (one.asname or one.name for one in node.names)


class _Rewriter(ast.NodeTransformer):
    def __init__(self, names: set[str]) -> None:
        self._names = names

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self.generic_visit(node)
        text = ast.get_docstring(node, clean=False) or ""
        section = _RAISES.search(inspect.cleandoc(text)) if _CONTRACT.search(text) else None
        if section:
            lines = section["entries"].splitlines()
            indent = min(len(line) - len(line.lstrip()) for line in lines if line.strip())
            entries = [_ENTRY.match(line[indent:]) for line in lines]
            names = [found[1] for found in entries if found and found[1] in self._names]
            docstring = node.body[0]
            assert isinstance(docstring, ast.Expr)  # noqa: S101 - for the type checker
            if names:
                docstring.value = ast.copy_location(
                    ast.Constant(f"{text}\nraises: {', '.join(names)}\n"), docstring.value
                )
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        self.generic_visit(node)
        if node.attr == "__class__" and isinstance(node.ctx, ast.Load):
            call = ast.Call(ast.Name("type", ast.Load()), [node.value], [])
            return ast.fix_missing_locations(ast.copy_location(call, node))
        return node


_HEADER = re.compile(r"\s*:?(pre|post|inv|raises)\b", re.MULTILINE)
_WORD = re.compile(r"[A-Za-z_]\w*")
_DEFINITIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_IMPORTS = ast.Import | ast.ImportFrom
_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef
_OPERATIONS = (
    ast.Call | ast.BinOp | ast.UnaryOp | ast.BoolOp | ast.Compare | ast.JoinedStr | ast.comprehension | ast.Starred
)
_SHOWN = 60
_FILE = "a file"  # stands among the names that code uses for the files that it imports
# Functions and classes that change nothing but their result
_HARMLESS = frozenset(
    """
    Decimal Fraction Logger NewType Path PurePath PurePosixPath PureWindowsPath TypeVar bool bytes compile complex
    date datetime dict field float frozenset getLogger int len list max min namedtuple range set sorted str sum
    timedelta tuple
    """.split()  # noqa: SIM905 - words are easier to read than a list of literals
)


@dataclass(eq=False, slots=True)
class _Statement:
    """A statement at the top level."""

    node: ast.stmt
    binds: set[str]  # the names that it binds at the top level
    uses: set[str]  # the names that it mentions
    plain: bool  # whether it only binds names. Other statements can change what other names refer to.


def reduce_tree(
    tree: ast.Module, names: Collection[str], also: Collection[str] = (), files: Collection[str] = ()
) -> list[str]:
    """Remove the statements that code with these names, and those of `also`, does not use. The tree is changed.

    A statement that imports one of the project's files stays, because what runs there can change used values. Nothing
    is removed if the code does not define one of the first names. Returns a description of each removed statement, such
    as `main` or `line 7`.
    """
    never_run = _open_type_checking(tree)
    unseen = _find_unseen(tree)
    statements = [_describe(node, unseen, files) for node in tree.body]
    bound = {name for one in statements for name in one.binds}
    if not {*names} <= bound:
        return []
    kept = _find_kept(statements, {*names, *also, _FILE})
    tree.body = [one.node for one in statements if one in kept]
    return [_name(one) for one in (*map(_describe, never_run), *statements) if one not in kept]


def _find_kept(statements: list[_Statement], used: set[str]) -> set[_Statement]:
    imports = [one for one in statements if isinstance(one.node, _IMPORTS)]
    of_libraries = {name for one in imports if _FILE not in one.uses for name in one.binds}
    stops = ast.Raise | ast.While | ast.Assert
    kept = {one for one in statements if _is_always_kept(one.node) or isinstance(one.node, stops)}
    binding = _group((name, one) for one in statements for name in one.binds)
    users = _group((name, one) for one in statements for name in one.uses)
    heirs = _group((name, one) for one in statements for name in _find_bases(one))
    waiting = deque(used.union(*(one.uses | one.binds for one in kept)))
    changed, inherited = set[str](), set[str]()
    while waiting:
        name = waiting.popleft()
        needed = binding.pop(name, [])
        if name not in of_libraries:
            # what a statement calls can change what it does not name
            needed += (one for one in _follow(name, users, changed) if not one.plain)
            # objects of a subclass are values of the base class too
            needed += (one for one in _follow(name, heirs, inherited) if not isinstance(one.node, ast.Assign))
        for one in {*needed} - kept:
            kept.add(one)
            waiting += one.uses | one.binds
    return kept


def _group(pairs: Iterable[tuple[str, _Statement]]) -> dict[str, list[_Statement]]:
    found: dict[str, list[_Statement]] = {}
    for name, one in pairs:
        found.setdefault(name, []).append(one)
    return found


def _find_bases(statement: _Statement) -> set[str]:
    """Return the names of the bases of the classes in a statement, or those for which it binds other names."""
    if isinstance(statement.node, ast.Assign):
        return statement.uses
    nodes = () if isinstance(statement.node, _FUNCTIONS) else ast.walk(statement.node)
    bases = (base for one in nodes if isinstance(one, ast.ClassDef) for base in one.bases)
    return {name for base in bases for name in _find_uses(base)}


def _follow(name: str, users: Mapping[str, list[_Statement]], seen: set[str]) -> Iterator[_Statement]:
    """Yield the users of a name, and of each name that a user binds, unless the name was seen before."""
    waiting = deque([name])
    while waiting:
        if (one := waiting.popleft()) not in seen:
            seen.add(one)
            for user in users.get(one, ()):
                yield user
                waiting += user.binds


def _describe(node: ast.stmt, unseen: frozenset[str] = frozenset(), files: Collection[str] = ()) -> _Statement:
    imports_file = not find_imports(node).isdisjoint(files)
    uses = _find_uses(node) | ({_FILE} if imports_file else set())
    if _is_main_block(node):
        return _Statement(node, set(), uses, plain=True)
    is_plain = _is_plain(node, unseen) and (isinstance(node, _FUNCTIONS) or not imports_file)
    return _Statement(node, _find_bound(node), uses, plain=is_plain)


def _find_unseen(tree: ast.Module) -> frozenset[str]:
    """Return what can run code of the file in a statement without a call: methods, and "yield" for generators."""
    nodes = list(ast.walk(tree))
    functions = [node for node in nodes if isinstance(node, _FUNCTIONS)]
    decorated = {node.name for node in functions if node.decorator_list}
    operators = {node.name for node in functions if node.name.startswith("__")} - CONSTRUCTORS
    with_yield = any(isinstance(node, ast.Yield | ast.YieldFrom | ast.GeneratorExp) for node in nodes)
    makes = {"__init__"} if "enum" in find_imports(tree) else set()  # an enumeration makes its members
    return frozenset(decorated | operators | makes | ({"yield"} if with_yield else set()))


def _is_plain(statement: ast.stmt, unseen: frozenset[str]) -> bool:
    """Return whether a statement only binds names, and can run no code that changes something else."""
    return not any(_runs(one, unseen) or _computes(one, unseen) for one in _walk_evaluated(statement))


def _walk_evaluated(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what Python evaluates when it comes to a statement. Of annotations these are the calls."""
    waiting: list[ast.AST | None] = [node]
    while waiting:
        one = waiting.pop()
        if isinstance(one, _FUNCTIONS | ast.Lambda):
            waiting += [*one.args.defaults, *one.args.kw_defaults]
        elif isinstance(one, ast.AnnAssign):
            waiting += [one.target, one.value]
        elif one is not None:
            waiting += ast.iter_child_nodes(one)
        typed = [*ast.walk(one.args), one] if isinstance(one, _FUNCTIONS) else [one]
        types = [getattr(part, name, None) for part in typed for name in ("annotation", "returns")]
        yield from (call for kind in types if kind for call in ast.walk(kind) if isinstance(call, ast.Call))
        if one is not None:
            yield one


def _runs(node: ast.AST, unseen: frozenset[str]) -> bool:
    """Return whether a statement runs code, or can change what a name refers to."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return bool(node.decorator_list)
        case ast.ClassDef():
            inherits = bool(node.bases) and not unseen.isdisjoint({"__init_subclass__", "__init__"})
            return bool(node.decorator_list or node.keywords) or inherits
        case ast.Assign():
            return not all(isinstance(one, ast.Name) for one in node.targets)
        case ast.AnnAssign():
            return not isinstance(node.target, ast.Name)
        case ast.Expr():
            return not isinstance(node.value, ast.Constant)
    return isinstance(node, ast.stmt) and not isinstance(node, ast.If | ast.Try | ast.Pass | _IMPORTS)


def _computes(node: ast.AST, unseen: frozenset[str]) -> bool:
    match node:
        case ast.Call():
            is_harmless = read_last_name(node.func) in _HARMLESS and all(one.arg != "key" for one in node.keywords)
            return not is_harmless or bool(unseen)
        case ast.Attribute():
            return node.attr in unseen
        case ast.Subscript():
            return True
    return bool(unseen) and isinstance(node, _OPERATIONS)


def _find_bound(node: ast.stmt) -> set[str]:
    """Return the names that a statement binds, also in its blocks, but not in functions and classes within it."""
    found: set[str] = set()
    waiting: list[ast.AST] = [node]
    while waiting:
        one = waiting.pop()
        found |= {*list_bound(one)}
        waiting += () if isinstance(one, _DEFINITIONS) else ast.iter_child_nodes(one)
    return found


def _find_uses(node: ast.AST) -> set[str]:
    found: set[str] = set()
    for one in ast.walk(node):
        if isinstance(one, ast.Name):
            found.add(one.id)
        elif isinstance(one, ast.Global):
            found |= {*one.names}
        elif isinstance(one, ast.Constant) and isinstance(one.value, str):
            named = "\n" not in one.value or _HEADER.search(one.value)  # an annotation, or a docstring with a contract
            found |= {*_WORD.findall(one.value)} if named else set()
    return found


def _is_always_kept(node: ast.stmt) -> bool:
    """Return whether a statement is always kept.

    Imports from __future__ change the syntax, and star imports bind unknown names. The decimal context holds for all
    code.
    """
    if isinstance(node, ast.ImportFrom):
        return node.module == "__future__" or node.names[0].name == "*"
    return not isinstance(node, _DEFINITIONS) and not _is_main_block(node) and uses_decimal_context(node)


def _is_main_block(node: ast.stmt) -> bool:
    """Return whether this is the block that runs only in a script."""
    return (
        isinstance(node, ast.If)
        and not node.orelse
        and isinstance(node.test, ast.Compare)
        and {ast.unparse(one).strip("'\"") for one in (node.test.left, *node.test.comparators)}
        == {"__name__", "__main__"}
    )


def _open_type_checking(tree: ast.Module) -> list[ast.stmt]:
    """Replace `if TYPE_CHECKING:` by its imports, because the analyser needs the types, and by its `else` branch.

    An import stays out if the file binds its name elsewhere: a run has that value. Other statements never run.

    Returns:
        The statements that are removed.
    """
    types: list[ast.stmt] = []
    others: list[ast.stmt] = []
    for node in tree.body:
        if isinstance(node, ast.If) and re.fullmatch(r"([\w.]+\.)?TYPE_CHECKING", ast.unparse(node.test)):
            types += node.body
            others += node.orelse
        else:
            others.append(node)
    bound = {name for one in others for name in _find_bound(one)}
    lifted = {one for one in types if isinstance(one, _IMPORTS) and not _find_bound(one) & bound}
    tree.body = sorted([*lifted, *others], key=lambda one: (one.lineno, one.col_offset))
    return [one for one in types if one not in lifted]


def _name(one: _Statement) -> str:
    if isinstance(one.node, _DEFINITIONS | _IMPORTS) or (one.plain and one.binds):
        return ", ".join(sorted(one.binds))[:_SHOWN]
    return f"line {one.node.lineno}"


def find_unchanged(old: ast.Module, new: ast.Module) -> set[str]:
    """Return the names that both versions define once and with the same text, also of everything that they use.

    A name with a value that a version changes is not the same.
    """
    mine, others = (_find_definitions(tree.body) for tree in (old, new))
    same = {name for name in mine.keys() & others.keys() if ast.dump(mine[name].node) == ast.dump(others[name].node)}
    same -= find_changed_names(old) | find_changed_names(new)
    known = {name for tree in (old, new) for node in tree.body for name in _find_bound(node)}
    while True:
        changed = {name for name in same if (mine[name].uses & known) - same}
        if not changed:
            return same
        same -= changed


def _find_definitions(body: Iterable[ast.stmt]) -> dict[str, _Statement]:
    """Return the statement that binds a name, for the names that only one statement binds."""
    found = _group((name, one) for one in map(_describe, body) for name in one.binds)
    return {name: statements[0] for name, statements in found.items() if len(statements) == 1}


def remove_definitions(tree: ast.Module, names: Collection[str]) -> ast.Module:
    """Return a copy of the tree without the statements that bind only these names."""
    kept = [node for node in tree.body if not (binds := _describe(node).binds) or not binds <= {*names}]
    return ast.Module(kept, [])
