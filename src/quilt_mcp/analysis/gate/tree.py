"""Check the syntax tree of code against the rules: its size, its nodes, names and imports."""

import ast
import builtins
import re
import string
from collections.abc import Collection, Iterator

from quilt_mcp.analysis.gate.rules import (
    CLOSED_ATTRIBUTES,
    CONTRACT_NAMES,
    DEFINABLE_METHODS,
    ENUM_NAMES,
    INTERNAL_NAMES,
    NODES,
    REGISTER,
    Refused,
)
from quilt_mcp.analysis.policy import Policy

# Strings in the brackets of these names are data, which typing does not evaluate. If the code gives the name another
# meaning, the guard on typing.ForwardRef checks the string when the code is loaded.
_WITH_DATA = ("Literal", "Annotated")


def refuse(rule: str, node: ast.AST, name: str = "") -> Refused:
    return Refused(rule, getattr(node, "lineno", None), name)


def check_ascii(name: str, node: ast.AST) -> None:
    """Raise `Refused` if the identifier has other characters.

    Python normalises some of them to ASCII letters, so the identifier would have another meaning than it shows.
    """
    if not name.isascii():
        raise refuse("identifier", node)


def is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def is_sunder(name: str) -> bool:
    """Return whether the name is of the form _name_, which the enum module and others reserve."""
    return len(name) > 2 and name[0] == name[-1] == "_" and "_" not in (name[1], name[-2])  # noqa: PLR2004 - `__`


def check_template(node: ast.Attribute) -> None:
    """Raise `Refused` unless the template is a literal with fields without attributes, indexes or nested fields."""
    if not (isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)):
        raise refuse("format", node)
    try:
        fields = list(string.Formatter().parse(node.value.value))
    except ValueError:
        raise refuse("format", node) from None
    for _, field, specification, _ in fields:
        if re.search(r"[.\[]", field or "") or "{" in (specification or ""):
            raise refuse("format", node)


def find_annotation_strings(annotation: ast.expr | None) -> Iterator[tuple[str, ast.Constant]]:
    """Yield the strings in an annotation that are themselves annotations."""
    waiting: list[ast.AST] = [annotation] if annotation else []
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value, node
        elif not (isinstance(node, ast.Subscript) and read_last_name(node.value) in _WITH_DATA):
            waiting += ast.iter_child_nodes(node)


def find_computed_parts(annotation: ast.expr | None) -> Iterator[ast.AST]:
    """Yield the parts of an annotation that are not names, attributes, subscripts, `|`, lists, tuples or constants."""
    waiting: list[ast.AST] = [annotation] if annotation else []
    while waiting:
        node = waiting.pop()
        match node:
            case ast.Name() | ast.Constant() | ast.UnaryOp(ast.USub(), ast.Constant()):
                continue
            case ast.Subscript(name) if read_last_name(name) in _WITH_DATA:
                waiting.append(name)
            case ast.Attribute() | ast.Subscript() | ast.Tuple() | ast.List() | ast.Starred():
                waiting += [one for one in ast.iter_child_nodes(node) if isinstance(one, ast.expr)]
            case ast.BinOp(left, ast.BitOr(), right):
                waiting += [left, right]
            case _:
                yield node


def read_last_name(node: ast.AST) -> str:
    """Return `b` for `a.b`, and `a` for `a`; "" for all other nodes."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def read_getattr(node: ast.Call) -> ast.Attribute | None:
    """Return `x.name` for `getattr(x, "name")`, also with a default value; None for other calls."""
    match node:
        case ast.Call(ast.Name("getattr"), [value, ast.Constant(str(name)), *default], []) if len(default) <= 1:
            has_name = name.isidentifier() and not any(isinstance(one, ast.Starred) for one in (value, *default))
            return ast.Attribute(value, name, ast.Load()) if has_name else None
    return None


def names_base_exception(handled: ast.expr | None) -> bool:
    return isinstance(handled, ast.Name) and handled.id == "BaseException"


def find_slots(node: ast.ClassDef) -> Iterator[tuple[ast.Name, list[str]]]:
    """Yield the name `__slots__` of each statement in a class that sets it, and the names of the slots.

    Only literals have names. Other statements are not yielded, so that their name is refused.
    """
    for statement in node.body:
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            continue
        target, value = statement.targets[0], statement.value
        items = value.elts if isinstance(value, ast.Tuple | ast.List) else [value]
        names = [one.value for one in items if isinstance(one, ast.Constant) and isinstance(one.value, str)]
        is_literal = len(names) == len(items) and all(name.isidentifier() for name in names)
        if isinstance(target, ast.Name) and target.id == "__slots__" and is_literal:
            yield target, names


_NAMES = ("id", "arg", "asname", "rest")  # fields of nodes that contain one identifier
_BITS_PER_DIGIT = 3.33
_MODULE = re.compile(r"[a-zA-Z_][\w.]{0,60}", re.ASCII)  # what a refusal shows


def check_tree(tree: ast.AST, policy: Policy, *, contract: bool = False, text: bool = False) -> None:
    """Check every node of a module, a contract line, or a `text` that a library evaluates without later checks."""
    check_size(tree, policy)
    _Checker(policy, CONTRACT_NAMES if contract else (), text=text).visit(tree)


def check_text(text: str, policy: Policy, *, contract: bool = False) -> ast.expr | None:
    """Check text that Python may evaluate, and return it as an expression; None if it is not one."""
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError):
        return None
    except (RecursionError, MemoryError):
        raise Refused("nesting") from None
    check_tree(tree, policy, contract=contract, text=True)
    return tree.body


def check_size(tree: ast.AST, policy: Policy) -> None:
    """Check the depth and the number of nodes without recursion, so that recursion is safe afterwards."""
    waiting, nodes = [(tree, 0)], 0
    while waiting:
        node, depth = waiting.pop()
        nodes += 1
        if depth > policy.syntax_depth:
            raise refuse("nesting", node)
        if nodes > policy.syntax_nodes:
            raise Refused("nodes")
        waiting += [(child, depth + 1) for child in ast.iter_child_nodes(node)]


class _Checker(ast.NodeVisitor):
    def __init__(self, policy: Policy, allowed_names: Collection[str], *, text: bool) -> None:
        self._policy = policy
        self._allowed_names = allowed_names
        self._text = text
        self._called: set[ast.AST] = set()  # names that are called with one argument
        self._applied: set[ast.AST] = set()  # what is called or a decorator
        self._slots: set[ast.AST] = set()  # the names __slots__ in classes
        self._handled: set[ast.AST | None] = set()  # the name BaseException in handlers

    def visit(self, node: ast.AST) -> None:
        if type(node) not in NODES:
            raise refuse("construct", node)
        for field in _NAMES:
            self._check_name(getattr(node, field, None), node)
        super().visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        if node.id == "type" and node not in self._called:
            raise refuse("type", node)
        if node in self._handled:
            return
        is_other = hasattr(builtins, node.id) and node.id not in self._policy.permitted_builtins
        if isinstance(node.ctx, ast.Load) and (is_other or node.id in self._policy.dangerous_builtins):
            raise refuse("builtin", node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if node.attr == "format" and (self._text or isinstance(node.value, ast.Constant)):
            check_template(node)
        if node.attr in CLOSED_ATTRIBUTES or (node.attr == REGISTER and (self._text or node not in self._applied)):
            raise refuse("attribute", node)
        owner = node.value.func if isinstance(node.value, ast.Call) else None
        on_super = isinstance(owner, ast.Name) and owner.id == "super"
        is_allowed = node.attr == "__name__" or (on_super and node.attr in DEFINABLE_METHODS)
        if is_dunder(node.attr) and not (is_allowed and isinstance(node.ctx, ast.Load)):
            raise refuse("dunder", node)
        if is_sunder(node.attr) and node.attr not in ENUM_NAMES:
            raise refuse("private", node)
        check_ascii(node.attr, node)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if (read := read_getattr(node)) is not None:  # as the attribute that it reads
            self._handled.add(node.func)
            self.visit_Attribute(ast.copy_location(read, node))
        self._applied.add(node.func)
        one_argument = len(node.args) == 1 and not node.keywords and not isinstance(node.args[0], ast.Starred)
        if isinstance(node.func, ast.Name) and one_argument:
            self._called.add(node.func)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, int) and value.bit_length() > self._policy.integer_digits * _BITS_PER_DIGIT:
            raise refuse("literal", node)
        if isinstance(value, str | bytes) and len(value) > self._policy.literal_length:
            raise refuse("literal", node)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._check_module(alias.name, node)
        self.generic_visit(node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        names = [alias.name for alias in node.names]
        if node.level or (node.module == "__future__" and names != ["annotations"]):
            raise refuse("import", node)
        self._check_module(node.module or "", node)
        if any(name.startswith("_") for name in names):
            raise refuse("import", node)
        self.generic_visit(node)

    def visit_alias(self, node: ast.alias) -> None:
        check_ascii(node.name, node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if node.name not in DEFINABLE_METHODS:
            self._check_name(node.name, node)
        self._applied.update(node.decorator_list)
        self._check_annotation(node.returns)
        self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._check_name(node.name, node)
        for one in node.keywords:
            is_total = one.arg == "total" and isinstance(one.value, ast.Constant)
            if not is_total or [read_last_name(base) for base in node.bases] != ["TypedDict"]:
                raise refuse("metaclass", node)
        for target, names in find_slots(node):
            for name in names:
                self._check_name(name, target)
            self._slots.add(target)
        self.generic_visit(node)

    def visit_arg(self, node: ast.arg | ast.AnnAssign) -> None:
        self._check_annotation(node.annotation)
        self.generic_visit(node)

    visit_AnnAssign = visit_arg  # noqa: N815 - the name of the node

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if names_base_exception(node.type):
            self._handled.add(node.type)
        self._check_name(node.name, node)
        self.generic_visit(node)

    def visit_Nonlocal(self, node: ast.Nonlocal | ast.Global) -> None:
        for name in node.names:
            self._check_name(name, node)

    visit_Global = visit_Nonlocal  # noqa: N815 - the name of the node

    def visit_MatchAs(self, node: ast.MatchAs) -> None:
        self._check_name(node.name, node)
        self.generic_visit(node)

    def visit_MatchStar(self, node: ast.MatchStar) -> None:
        self._check_name(node.name, node)

    def visit_MatchClass(self, node: ast.MatchClass) -> None:
        if "format" in node.kwd_attrs:
            raise refuse("format", node)
        for name in node.kwd_attrs:
            if name in CLOSED_ATTRIBUTES or name == REGISTER:
                raise refuse("attribute", node)
            self._check_name(name, node)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        if node.is_async:
            raise refuse("construct", node.target)
        self.generic_visit(node)

    def _check_name(self, name: str | None, node: ast.AST) -> None:
        """Check an identifier in any position: it must be ASCII, and not a name of the form __name__ unless allowed."""
        if name is None:
            return
        check_ascii(name, node)
        if name in INTERNAL_NAMES:
            raise refuse("attribute", node)
        if is_sunder(name) and name not in ENUM_NAMES:
            raise refuse("private", node)
        reads_own_name = name == "__name__" and isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
        if is_dunder(name) and name not in self._allowed_names and not reads_own_name and node not in self._slots:
            # use the rule about builtins for builtins that config://security lists
            raise refuse("builtin" if name in self._policy.dangerous_builtins else "dunder", node)

    def _check_module(self, name: str, node: ast.AST) -> None:
        if name not in self._policy.allowed_modules:
            raise refuse("import", node, name if _MODULE.fullmatch(name) else "")

    def _check_annotation(self, annotation: ast.expr | None) -> None:
        """Check that an annotation is not computed, and the strings in it, which Python may evaluate later."""
        for node in find_computed_parts(annotation):
            raise refuse("annotation", node)
        for text, node in find_annotation_strings(annotation):
            try:
                parsed = check_text(text, self._policy)
                self._check_annotation(parsed)
            except Refused as refusal:
                raise refuse(refusal.rule, node) from None
            if parsed is None:
                raise refuse("annotation", node)
