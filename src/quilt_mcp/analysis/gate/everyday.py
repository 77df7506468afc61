"""Everyday code that needs another form in the sandbox.

`x.__class__` becomes `type(x)`, which the sandbox can check. `__all__` has no use here. `import collections` also
imports `collections.abc` if the code uses that, because Python always has it.
"""

import ast


def rewrite_everyday_code(tree: ast.Module) -> ast.Module:
    """Return the tree with the other forms. It is changed."""
    tree.body = [node for node in tree.body if not _assigns_all(node)]
    if any(isinstance(node, ast.Attribute) and node.attr == "abc" for node in ast.walk(tree)):
        _import_abstract_classes(tree)
    rewritten: ast.Module = _Rewriter().visit(tree)
    return rewritten


def _assigns_all(node: ast.stmt) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return [one.id for one in targets if isinstance(one, ast.Name)] == ["__all__"]


def _import_abstract_classes(tree: ast.Module) -> None:
    for node in ast.walk(tree):
        names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.Import) and "collections" in names and "collections.abc" not in names:
            node.names.append(ast.copy_location(ast.alias("collections.abc"), node.names[0]))


class _Rewriter(ast.NodeTransformer):
    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        self.generic_visit(node)
        if node.attr == "__class__" and isinstance(node.ctx, ast.Load):
            return ast.copy_location(
                ast.Call(ast.copy_location(ast.Name("type", ast.Load()), node), [node.value], []), node
            )
        return node
