"""The gate, the first barrier: check code against allow-lists and rewrite it in canonical form.

A request has code, perhaps its older version, and other files of its project. `admit_request` admits all of them, and
`admit` has the passes over one text, in order.

The analysis runs on source that is written from the checked syntax tree, never on the submitted text. Comments are
dropped, and with them directives to CrossHair. Docstrings are dropped except for their contract lines, which must pass
the same checks as the code.
"""

import ast
import functools
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from quilt_mcp.analysis.gate.changes import Changes, find_changes
from quilt_mcp.analysis.gate.contracts import ContractKeeper
from quilt_mcp.analysis.gate.reduction import reduce_tree, rewrite_everyday_code
from quilt_mcp.analysis.gate.rules import Refused
from quilt_mcp.analysis.gate.tree import check_size, check_tree
from quilt_mcp.analysis.messages import MODULE_NAME, Request, find_module_name
from quilt_mcp.analysis.policy import Policy

# The declaration of an encoding (PEP 263), which can be in the first two lines
_ENCODING = re.compile(r"[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")


@dataclass(frozen=True, slots=True)
class Admitted:
    """Code that passed the gate."""

    source: str  # the canonical source
    tree: ast.Module  # the syntax tree of `source`, with the line numbers of the submitted text
    dropped: tuple[str, ...] = ()  # what the reduction removed
    # what the functions change, also those that the reduction removed
    changes: Changes = Changes()  # noqa: RUF009 - it is frozen


@dataclass(frozen=True, slots=True)
class Submission:
    """Everything that a request submits, admitted."""

    code: Admitted  # the code
    old: Admitted | None  # its older version
    files: Mapping[str, Admitted]  # the other files, by module name
    policy: Policy  # what they can use: also each other


def admit_request(request: Request, policy: Policy) -> Submission:
    texts = {find_module_name(key): text for key, text in request.get("files", {}).items()}
    files = {name: text for name, text in texts.items() if name is not None}
    old = request.get("old_code")
    submitted = (request["code"], old or "", *files.values())
    if sum(len(text.encode("utf-8", "surrogatepass")) for text in submitted) > policy.code_size_bytes:
        raise Refused("size")
    # the files can import each other
    modules = {*files} | find_packages(files)
    policy = replace(policy, allowed_modules=(*policy.allowed_modules, *sorted(modules)))
    package = find_package(request.get("module_name", MODULE_NAME), {})
    names = [str(request[key]) for key in ("function_name", "function_a", "function_b") if key in request]
    functions = None if request.get("whole_file") else [name.partition(".")[0] for name in names]
    also = [request["exception_type"].partition(".")[0]] if "exception_type" in request else []
    admit_version = functools.partial(
        admit, policy=policy, package=package, functions=functions, also=also, files=modules
    )
    return Submission(
        admit_version(request["code"]),
        None if old is None else admit_version(old),
        {name: admit(text, policy, package=find_package(name, files)) for name, text in files.items()},
        policy,
    )


def admit(
    code: str,
    policy: Policy,
    *,
    package: Sequence[str] = (),  # the parts of the name of its package, for relative imports
    functions: Collection[str] | None = None,  # the code is reduced to what they use; None keeps everything
    also: Collection[str] = (),  # other names to keep, if the code has them
    files: Collection[str] = (),  # the modules of the project that it can import
) -> Admitted:
    """Check code and return it in canonical form."""
    tree = parse(code, policy)
    tree = rewrite_everyday_code(make_imports_absolute(tree, package))
    changes = find_changes(tree)
    dropped = [] if functions is None else reduce_tree(tree, functions, also, files)
    check_tree(tree, policy)
    tree = ast.fix_missing_locations(ContractKeeper(policy).visit(tree))
    source = ast.unparse(tree) + "\n"
    if ast.dump(_parse(source)) != ast.dump(tree):
        raise Refused("canonical")
    return Admitted(source, tree, tuple(dropped), changes)


def parse(code: str, policy: Policy) -> ast.Module:
    """Return the syntax tree of code that has no more than the limits."""
    _check_text(code, policy)
    tree = _parse(code)
    check_size(tree, policy)  # before anything that is recursive
    return tree


def make_imports_absolute(tree: ast.Module, package: Sequence[str]) -> ast.Module:
    """Replace the relative imports that stay in the package, such as `from .models import X`. The tree is changed."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and 0 < node.level <= len(package):
            parts = [*package[: len(package) - node.level + 1], *([node.module] if node.module else [])]
            node.module, node.level = ".".join(parts), 0
    return tree


def _check_text(code: str, policy: Policy) -> None:
    try:
        size = len(code.encode())
    except UnicodeEncodeError:
        raise Refused("encoding") from None
    if size > policy.code_size_bytes:
        raise Refused("size")
    for line in code.split("\n", 2)[:2]:
        declared = _ENCODING.match(line)
        if declared and declared[1].lower() not in ("utf-8", "utf8", "utf_8"):
            raise Refused("encoding")


def _parse(code: str) -> ast.Module:
    try:
        return ast.parse(code)
    except SyntaxError as error:
        # Python also reports "too many nested parentheses" and "too complex" as syntax errors
        raise Refused("syntax", error.lineno) from None
    except ValueError:
        raise Refused("syntax") from None
    except (RecursionError, MemoryError):
        raise Refused("nesting") from None


def find_packages(names: Iterable[str]) -> set[str]:
    """Return the names of the packages that contain these modules."""
    return {".".join(parts[:end]) for parts in (name.split(".") for name in names) for end in range(1, len(parts))}


def find_package(name: str, files: Mapping[str, object]) -> Sequence[str]:
    """Return the parts of the package to which a relative import in this module refers."""
    parts = name.split(".")
    return parts if any(other.startswith(f"{name}.") for other in files) else parts[:-1]
