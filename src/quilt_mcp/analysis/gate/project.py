"""The other files of a project: their module names, and imports between them."""

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from quilt_mcp.analysis.policy import STANDARD_LIBRARY, Policy

# Tracebacks, `inspect` and CrossHair find the canonical source under this name. The file does not exist.
FOLDER = "/analysis/"
FILE_NAME = f"{FOLDER}submitted.py"
MOST_FILES = 50
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}(\.[A-Za-z_][A-Za-z0-9_]{0,99}){0,9}")


def find_module_name(key: str) -> str | None:
    """Return the module name of a file that is given as `pkg.models` or `pkg/models.py`; None if it is not valid.

    A name of the standard library is not valid, because the file would replace that module.
    """
    name = key.removesuffix("/__init__.py").removesuffix(".py").replace("/", ".")
    parts = name.split(".")
    is_hidden = any(part.startswith("__") and part.endswith("__") for part in parts)
    return name if _NAME.fullmatch(name) and not is_hidden and parts[0] not in STANDARD_LIBRARY else None


def find_packages(names: Iterable[str]) -> set[str]:
    """Return the names of the packages that contain these modules."""
    return {".".join(parts[:end]) for parts in (name.split(".") for name in names) for end in range(1, len(parts))}


def allow_modules(policy: Policy, names: Iterable[str]) -> Policy:
    """Return the policy with further modules that the code can import."""
    names = set(names)
    return replace(policy, allowed_modules=(*policy.allowed_modules, *sorted(names | find_packages(names))))


def find_package(name: str, files: Mapping[str, object]) -> Sequence[str]:
    """Return the parts of the package to which a relative import in this module refers."""
    parts = name.split(".")
    return parts if any(other.startswith(f"{name}.") for other in files) else parts[:-1]


def find_imports(tree: ast.AST) -> set[str]:
    """Return the names of modules that the code imports, also in functions, and imported names that can be modules."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def make_imports_absolute(tree: ast.Module, package: Sequence[str]) -> ast.Module:
    """Replace the relative imports that stay in the package, such as `from .models import X`. The tree is changed."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and 0 < node.level <= len(package):
            parts = [*package[: len(package) - node.level + 1], *([node.module] if node.module else [])]
            node.module, node.level = ".".join(parts), 0
    return tree
