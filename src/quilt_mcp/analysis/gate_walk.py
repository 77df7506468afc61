"""The walk over a syntax tree: every node and every name in it must be allowed."""

import ast
import builtins
from collections.abc import Collection

from quilt_mcp.analysis.gate_rules import CLOSED_ATTRIBUTES, CONTRACT_NAMES, DEFINABLE_METHODS, NODES, Refused
from quilt_mcp.analysis.gate_syntax import (
    annotation_texts,
    check_ascii,
    check_template,
    is_dunder,
    is_open_dunder,
    leaving_statements,
    refused_at,
    returns_value,
)
from quilt_mcp.analysis.policy import Policy

_NAMES = ("id", "arg", "asname", "rest")  # fields that hold one identifier, in whatever node
_BITS_PER_DIGIT = 3.33


def check(tree: ast.AST, policy: Policy, *, contract: bool = False) -> None:
    """Look at every node of the tree.

    Args:
        tree: a module, or one expression.
        policy: what is allowed.
        contract: whether the tree is a contract line, which has names of its own.

    Raises:
        Refused: with the first rule that is broken.
    """
    _check_size(tree, policy)
    _Walk(policy, CONTRACT_NAMES if contract else ()).visit(tree)


def check_text(text: str, policy: Policy, *, contract: bool = False) -> ast.expr | None:
    """Look at text that may become an expression; the expression, or None if the text is not one.

    Raises:
        Refused: it is an expression, and breaks a rule.
    """
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError):
        return None
    except (RecursionError, MemoryError):
        raise Refused("nesting") from None
    check(tree, policy, contract=contract)
    return tree.body


def _check_size(tree: ast.AST, policy: Policy) -> None:
    """Measure depth and nodes without recursion, so that the walk after it cannot overflow."""
    waiting, nodes = [(tree, 0)], 0
    while waiting:
        node, depth = waiting.pop()
        nodes += 1
        if depth > policy.syntax_depth:
            raise Refused("nesting", getattr(node, "lineno", None))
        if nodes > policy.syntax_nodes:
            raise Refused("nodes")
        waiting += [(child, depth + 1) for child in ast.iter_child_nodes(node)]


class _Walk(ast.NodeVisitor):
    def __init__(self, policy: Policy, open_names: Collection[str]) -> None:
        self._policy = policy
        self._open_names = open_names
        self._vetted: set[ast.AST] = set()  # names that their parent has allowed already

    def visit(self, node: ast.AST) -> None:
        if type(node) not in NODES:
            raise refused_at("construct", node)
        for field in _NAMES:
            self._name(getattr(node, field, None), node)
        super().visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        if node.id == "type" and node not in self._vetted:
            raise refused_at("type", node)
        if isinstance(node.ctx, ast.Load) and self._is_closed_builtin(node.id):
            raise refused_at("builtin", node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if node.attr == "format":
            check_template(node)
        if node.attr in CLOSED_ATTRIBUTES:
            raise refused_at("attribute", node)
        if is_dunder(node.attr) and not is_open_dunder(node):
            raise refused_at("dunder", node)
        check_ascii(node.attr, node)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        one_argument = len(node.args) == 1 and not node.keywords and not isinstance(node.args[0], ast.Starred)
        if isinstance(node.func, ast.Name) and one_argument:
            self._vetted.add(node.func)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, int) and value.bit_length() > self._policy.integer_digits * _BITS_PER_DIGIT:
            raise refused_at("literal", node)
        if isinstance(value, str | bytes) and len(value) > self._policy.literal_length:
            raise refused_at("literal", node)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._module(alias.name, node)
        self.generic_visit(node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        names = [alias.name for alias in node.names]
        if node.level or (node.module == "__future__" and names != ["annotations"]):
            raise refused_at("import", node)
        self._module(node.module or "", node)
        if any(name.startswith("_") for name in names):
            raise refused_at("import", node)
        self.generic_visit(node)

    def visit_alias(self, node: ast.alias) -> None:
        check_ascii(node.name, node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if node.name not in DEFINABLE_METHODS:
            self._name(node.name, node)
        if node.name == "__exit__" and any(returns_value(one) for one in ast.walk(node)):
            raise refused_at("handler", node)
        self._annotation(node.returns)
        self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._name(node.name, node)
        if node.keywords:
            raise refused_at("metaclass", node)
        self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> None:
        self._annotation(node.annotation)
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._annotation(node.annotation)
        self.generic_visit(node)

    def visit_Try(self, node: ast.Try) -> None:
        for statement in leaving_statements(node.finalbody):
            raise refused_at("handler", statement)
        self.generic_visit(node)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.type is None:
            raise refused_at("handler", node)
        self._name(node.name, node)
        self.generic_visit(node)

    def visit_Nonlocal(self, node: ast.Nonlocal) -> None:
        for name in node.names:
            self._name(name, node)

    def visit_MatchAs(self, node: ast.MatchAs) -> None:
        self._name(node.name, node)
        self.generic_visit(node)

    def visit_MatchStar(self, node: ast.MatchStar) -> None:
        self._name(node.name, node)

    def visit_MatchClass(self, node: ast.MatchClass) -> None:
        for name in node.kwd_attrs:
            if name in CLOSED_ATTRIBUTES:
                raise refused_at("attribute", node)
            self._name(name, node)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        if node.is_async:
            raise refused_at("construct", node.target)
        self.generic_visit(node)

    def _name(self, name: str | None, node: ast.AST) -> None:
        """An identifier, wherever it stands: ASCII, and no dunder but those that are open."""
        if name is None:
            return
        check_ascii(name, node)
        reads_own_name = name == "__name__" and isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
        if is_dunder(name) and name not in self._open_names and not reads_own_name:
            # a published builtin is refused by the rule that speaks of builtins
            raise refused_at("builtin" if name in self._policy.dangerous_builtins else "dunder", node)

    def _is_closed_builtin(self, name: str) -> bool:
        if name in self._policy.dangerous_builtins:
            return True
        return hasattr(builtins, name) and name not in self._policy.permitted_builtins

    def _module(self, name: str, node: ast.AST) -> None:
        if name not in self._policy.allowed_modules:
            raise refused_at("import", node)

    def _annotation(self, annotation: ast.expr | None) -> None:
        """Text in an annotation is an expression that is evaluated later: it is looked at as one."""
        for text, node in annotation_texts(annotation):
            try:
                check_text(text, self._policy)
            except Refused as refusal:
                raise refused_at(refusal.rule, node) from None
