"""A request's code, its older version and the other files of its project: check all of them, then load them."""

import ast
import dataclasses
import functools
import operator
import random
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from quilt_mcp.analysis.gate.inspection import Admitted, admit
from quilt_mcp.analysis.gate.loading import Loaded, ProjectFiles, load_module
from quilt_mcp.analysis.gate.project import FOLDER, allow_modules, find_module_name, find_package
from quilt_mcp.analysis.gate.randomness import list_unseeded
from quilt_mcp.analysis.gate.reduction import find_unchanged, remove_definitions
from quilt_mcp.analysis.gate.rules import Refused
from quilt_mcp.analysis.messages import MODULE_NAME, Report, Request
from quilt_mcp.analysis.policy import Policy

_OLD_FILE = f"{FOLDER}old.py"


@dataclass(frozen=True, slots=True)
class Submission:
    """Everything that a request submits, admitted.

    Attributes:
        code: the code.
        old: its older version.
        files: the other files, by module name.
        policy: what they can use: also each other.
    """

    code: Admitted
    old: Admitted | None
    files: Mapping[str, Admitted]
    policy: Policy


def admit_request(request: Request, policy: Policy) -> Submission:
    """Check everything that a request submits.

    Raises:
        Refused: something breaks a rule.
    """
    texts = {find_module_name(key): text for key, text in request.get("files", {}).items()}
    files = {name: text for name, text in texts.items() if name is not None}
    old = request.get("old_code")
    submitted = (request["code"], old or "", *files.values())
    if sum(len(text.encode("utf-8", "surrogatepass")) for text in submitted) > policy.code_size_bytes:
        raise Refused("size")
    policy = allow_modules(policy, files)
    package = find_package(request.get("module_name", MODULE_NAME), {})
    functions = None if request.get("whole_file") else _find_roots(request)
    also = [request["exception_type"].partition(".")[0]] if "exception_type" in request else []
    return Submission(
        admit(request["code"], policy, package=package, functions=functions, also=also),
        None if old is None else admit(old, policy, package=package, functions=functions, also=also),
        {name: admit(text, policy, package=find_package(name, files)) for name, text in files.items()},
        policy,
    )


def _find_roots(request: Request) -> list[str]:
    """Return the top-level names that the analysis uses. An exception class can be a builtin."""
    names = [request.get(key) for key in ("function_name", "function_a", "function_b")]
    return [str(name).partition(".")[0] for name in names if name]


def load_submission(submission: Submission, report: Report) -> Loaded:
    """Run the code and its older version. The files run when they are imported.

    Raises:
        BaseException: the code raised it.
    """
    before = random.getstate(), len(list_unseeded())
    loaded = _load(submission, report)
    return dataclasses.replace(loaded, draws=before != (random.getstate(), len(list_unseeded())))


def _load(submission: Submission, report: Report) -> Loaded:
    policy, code, older = submission.policy, submission.code, submission.old
    files = ProjectFiles(submission.files, policy)
    module = load_module(code.source, policy, code.tree, files=files)
    files.load_imports(code.tree)
    trees = [one.tree for one in submission.files.values()]
    admitted = [code, *submission.files.values(), *([older] if older else [])]
    changes = functools.reduce(operator.or_, (one.changes for one in admitted))
    if older is None:
        return Loaded(module, code.source, code.tree, report, files.modules, None, tuple(trees), changes)
    # the versions share what is the same in both: otherwise the classes of the arguments would differ
    shared = find_unchanged(older.tree, code.tree) - _find_functions(code.tree)
    source = ast.unparse(remove_definitions(older.tree, shared)) + "\n"
    names = {name: vars(module)[name] for name in shared if name in vars(module)}
    before = load_module(source, policy, files=files, file_name=_OLD_FILE, names=names)
    files.load_imports(older.tree)
    sys.modules[MODULE_NAME] = module
    old = Loaded(before, source, older.tree, report)
    return Loaded(module, code.source, code.tree, report, files.modules, old, (*trees, older.tree), changes)


def _find_functions(tree: ast.Module) -> set[str]:
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
