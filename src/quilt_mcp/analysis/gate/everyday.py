"""Everyday code that needs another form in the sandbox.

`x.__class__` becomes `type(x)`, which the sandbox can check. `__all__` has no use here. `import collections` also
imports `collections.abc` if the code uses that, because Python always has it. A section `Raises:` in Google's style,
beside `pre:` or `post:`, becomes a contract line.
"""

import ast
import builtins
import inspect
import re
from collections.abc import Iterator

_CONTRACT = re.compile(r"^\s*:?(pre|post)\b[^:]*:", re.MULTILINE)
_RAISES = re.compile(
    r"^(?P<indent>[ \t]*)Raises:[ \t]*\n(?P<entries>((?P=indent)[ \t]+\S.*(\n|$)|[ \t]*\n)+)", re.MULTILINE
)
_ENTRY = re.compile(r"([A-Za-z]\w*):", re.ASCII)


def rewrite_everyday_code(tree: ast.Module) -> ast.Module:
    """Return the tree with the other forms. It is changed."""
    tree.body = [node for node in tree.body if not _assigns_all(node)]
    if any(isinstance(node, ast.Attribute) and node.attr == "abc" for node in ast.walk(tree)):
        _import_abstract_classes(tree)
    rewritten: ast.Module = _Rewriter({*_find_names(tree)}).visit(tree)
    return rewritten


def _assigns_all(node: ast.stmt) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return [one.id for one in targets if isinstance(one, ast.Name)] == ["__all__"]


def _import_abstract_classes(tree: ast.Module) -> None:
    for node in ast.walk(tree):
        names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.Import) and "collections" in names and "collections.abc" not in names:
            node.names.append(ast.copy_location(ast.alias("collections.abc"), node.names[0]))


def _find_names(tree: ast.Module) -> Iterator[str]:
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
            return ast.copy_location(
                ast.Call(ast.copy_location(ast.Name("type", ast.Load()), node), [node.value], []), node
            )
        return node
