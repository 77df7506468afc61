"""compare_functions: find arguments for which two functions, or two versions of one, behave differently.

The arguments meet the preconditions of both. The functions behave the same if both return equal values of the same type
or both raise the same class of exception, and both leave their arguments in the same state. Calls that leave out
arguments are compared too if the default values differ. Objects of the old version are compared by their attributes.
"""

import ast
import decimal
import random
import re
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from inspect import BoundArguments, Parameter, Signature
from itertools import combinations
from types import BuiltinMethodType, FunctionType, MethodType
from typing import TYPE_CHECKING, Literal

from quilt_mcp.analysis.engine.exploration import (
    End,
    Exploration,
    Judgement,
    Raised,
    Returned,
    Run,
    Undecided,
    read_attributes,
)
from quilt_mcp.analysis.engine.source_text import (
    DifferenceKind,
    make_counterexample,
    write_difference,
    write_source,
)
from quilt_mcp.analysis.engine.states import DECIDING_METHODS, collect_classes
from quilt_mcp.analysis.engine.subjects import (
    AnalysisRefused,
    Subject,
    find_subject,
    meets,
    parse_contract,
    walk_parts,
)
from quilt_mcp.analysis.engine.task import Task, add_notes, describe_coverage, explain_undecided
from quilt_mcp.analysis.gate.loading import Loaded
from quilt_mcp.analysis.messages import MODULE_NAME, Counterexample, Request

if TYPE_CHECKING:  # results imports pydantic, which the sandbox does not load
    from quilt_mcp.analysis.results import ComparisonResult


_EXACT = (int, bool, str, bytes, bytearray, range, slice, type(None))
_CALLABLE = FunctionType | MethodType | BuiltinMethodType


def is_same_value(left: object, right: object) -> bool:
    """Return whether two values have the same type and equal content. NaN is the same as NaN.

    `Undecided`: the content of a type, such as a function or an iterator, is not accessible.
    """
    if type(left) is not type(right) or left is right:
        return left is right
    content = _compare_content(left, right)
    if content is None:
        return _compare_object(left, right)
    return content and (type(left).__module__ != MODULE_NAME or _has_same_attributes(left, right))


def _compare_object(left: object, right: object) -> bool:
    if isinstance(left, _CALLABLE | type | random.Random | re.Match):
        raise Undecided
    if isinstance(left, BaseException) and isinstance(right, BaseException):
        return is_same_value(left.args, right.args) and _has_same_attributes(left, right)
    if type(left).__eq__ is object.__eq__:
        if type(left).__module__ != MODULE_NAME:  # attributes may not show all content of another type
            raise Undecided
        return _has_same_attributes(left, right)
    equal = bool(left == right)
    if type(left).__module__ == MODULE_NAME and _has_same_attributes(left, right) != equal:
        raise Undecided  # the class defines an equality that ignores some of its content
    return equal


def _compare_content(left: object, right: object) -> bool | None:
    """Return whether two containers have the same elements or two numbers the same value, or None for other values."""
    if type(left) in _EXACT:
        return bool(left == right)
    if type(left) is random.Random and isinstance(right, random.Random):
        return left.getstate() == right.getstate()
    if isinstance(left, float | complex):
        return bool(left == right) or repr(left) == repr(right)  # NaN differs from itself
    if isinstance(left, decimal.Decimal) and isinstance(right, decimal.Decimal):
        return left.compare_total(right) == 0 or (not left.is_nan() and not right.is_nan() and left == right)
    return _compare_containers(left, right)


def _compare_containers(left: object, right: object) -> bool | None:
    if isinstance(left, dict) and isinstance(right, dict):
        if getattr(left, "default_factory", None) is not getattr(right, "default_factory", None):  # of a defaultdict
            raise Undecided
        if left.keys() != right.keys() or not _has_same_members(left, right):
            return False
        if isinstance(left, OrderedDict) and [*left] != [*right]:
            return False
        return all(is_same_value(one, right[key]) for key, one in left.items())
    if isinstance(left, list | tuple | deque) and isinstance(right, list | tuple | deque):
        same_limit = getattr(left, "maxlen", None) == getattr(right, "maxlen", None)
        return same_limit and len(left) == len(right) and all(map(is_same_value, left, right))
    if isinstance(left, set | frozenset) and isinstance(right, set | frozenset):
        return left == right and _has_same_members(left, right)
    return None


def _has_same_members(left: Iterable[object], right: Iterable[object]) -> bool:
    """Return whether equal members have the same types. 1, 1.0 and True are equal."""
    others = {one: one for one in right}
    return all(type(one) is type(others[one]) for one in left)


def _has_same_attributes(left: object, right: object) -> bool:
    mine, others = read_attributes(left), read_attributes(right)
    return mine.keys() == others.keys() and all(is_same_value(one, others[name]) for name, one in mine.items())


def are_versions_of_method(old: Loaded | None, new: Loaded, first: Subject, second: Subject) -> bool:
    """Return whether these are methods of two versions of one class that make their objects in the same way."""
    mine, other = first.owner, second.owner
    kinds = {first.kind, second.kind}
    if old is None or mine is None or other is None or mine is other or not kinds <= {"method", "property"}:
        return False
    if any(isinstance(vars(base).get("__new__"), BuiltinMethodType) for base in other.__mro__ if base is not object):
        return False  # its objects have content besides their attributes, such as the items of a named tuple
    before, after = _find_layout(old.tree, mine), _find_layout(new.tree, other)
    if before is None or after is None or ast.dump(before) != ast.dump(after):
        return False
    if any(other.__name__ in ast.unparse(one) for one in after.body):  # an object can have others in its attributes
        return False
    classes: dict[type, None] = {}
    collect_classes(other, classes)
    further = {*classes} | {one for one in other.__mro__ if one.__module__ == MODULE_NAME}
    return all(vars(old.module).get(one.__name__) is one for one in further - {other})  # both versions share them


def _find_layout(tree: ast.Module, cls: type) -> ast.ClassDef | None:
    """Return the class with what decides about the attributes of new objects; None if it is not at the top level."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == cls.__qualname__:
            kept = [one for one in node.body if _decides_layout(one)]
            return ast.ClassDef(node.name, node.bases, node.keywords, kept, node.decorator_list)
    return None


def _decides_layout(node: ast.stmt) -> bool:
    """Return whether the layout depends on a statement of the class: neither docstring nor `pass` nor other method."""
    if isinstance(node, ast.FunctionDef):
        return node.name in DECIDING_METHODS
    return not isinstance(node, ast.Pass) and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))


def give_old_object(arguments: BoundArguments, old_method: Subject) -> BoundArguments:
    """Return the arguments with an object of the old method's class, which has the attributes of the new object.

    `Undecided`: the new object is one of a subclass.
    """
    name, new = next(iter(arguments.arguments.items()))
    if old_method.owner is None or type(new).__qualname__ != old_method.owner.__qualname__:
        raise Undecided
    old: object = object.__new__(old_method.owner)  # without the constructor, which could do something else
    for attribute, value in read_attributes(new).items():
        object.__setattr__(old, attribute, value)
    return BoundArguments(arguments.signature, {**arguments.arguments, name: old})


def are_of_two_versions(left: object, right: object) -> bool:
    """Return whether these are objects of two versions of one class."""
    return type(left) is not type(right) and is_same_class(type(left), type(right))


def is_same_class(left: type, right: type) -> bool:
    """Return whether these are one class, or two versions of it."""
    return left is right or (
        left.__module__ == right.__module__ == MODULE_NAME and left.__qualname__ == right.__qualname__
    )


_STATUS: dict[End, Literal["different", "equivalent", "timeout"]] = {
    End.STOPPED: "different",
    End.ALL_PATHS: "equivalent",
    End.TIME: "timeout",
}
_MOST_DEFAULTS = 3
_MOST_EXAMPLES = 3


def compare_functions(request: Request, task: Task) -> "ComparisonResult":
    """Compare two functions, for arguments that meet the preconditions of both."""
    if task.loaded.shares_changed:
        raise AnalysisRefused(
            "SharedFileChanged",
            "A version changes values of one of `files` when it starts, and both share the files. Put these values into"
            " both versions.",
        )
    first = find_subject(task.loaded.old or task.loaded, request["function_a"])
    second = find_subject(task.loaded, request["function_b"])
    subjects = (first, second)
    versions = are_versions_of_method(task.loaded.old, task.loaded, first, second)
    signature = _merge_signatures(first, second, are_versions_of_method=versions)
    if task.loaded.old:
        _check_classes([*signature.parameters.values()][versions:], task.loaded.old, task.loaded)
    pre = [clause for one in subjects for clause in parse_contract(one.defined).pre]

    def judge(run: Run, arguments: BoundArguments) -> Judgement:
        others = run.copy(arguments)
        if not meets(run, pre, arguments):
            return Judgement("precondition", outside=True)
        mine = give_old_object(arguments, first) if versions else arguments
        outcomes = (
            run.call(first.function, *mine.args, **mine.kwargs),
            run.call(second.function, *others.args, **others.kwargs),
        )
        if not _is_same_outcome(run, *outcomes):
            return Judgement("outcomes", stop=True, outcomes=outcomes)
        pairs = zip(mine.arguments.values(), others.arguments.values(), strict=True)
        if not all(_is_same(run, *pair) for pair in pairs):
            return Judgement("arguments", stop=True, outcomes=outcomes)
        return Judgement("same")

    signatures = [signature, *_leave_out_defaults(first, second, signature)]
    explorations: list[Exploration] = []
    for number, each in enumerate(signatures):
        explored = task.explore(
            replace(first, signature=each),
            judge,
            lambda found: _make_answer(task, subjects, [*explorations, found]),
            share=1 / (len(signatures) - number),
            surveys=True,
            with_bools=False,  # of `x` and `abs(x)` only one is then a bool
        )
        explorations.append(explored)
        if explored.end is End.STOPPED:
            break
    return _make_answer(task, subjects, explorations)


def _leave_out_defaults(first: Subject, second: Subject, signature: Signature) -> Iterator[Signature]:
    """Yield a signature for each combination of parameters to leave out, of those with different defaults."""
    left, right = first.signature.parameters, second.signature.parameters
    differing = [name for name, one in left.items() if not _is_same_default(one.default, right[name].default)]
    if len(differing) > _MOST_DEFAULTS:
        raise AnalysisRefused(
            "UnsupportedSignature", f"The functions have more than {_MOST_DEFAULTS} different default values."
        )
    for count in range(1, len(differing) + 1):
        for names in combinations(differing, count):
            kept = [one for name, one in signature.parameters.items() if name not in names]
            gap = min(list(signature.parameters).index(name) for name in names)
            later = list(signature.parameters)[gap:]
            if any(one.kind is Parameter.POSITIONAL_ONLY and one.name in later for one in kept):
                continue  # no call leaves out only these
            yield signature.replace(
                parameters=[
                    one.replace(kind=Parameter.KEYWORD_ONLY)
                    if one.name in later and one.kind is Parameter.POSITIONAL_OR_KEYWORD
                    else one
                    for one in kept
                    if one.kind is not Parameter.VAR_POSITIONAL
                ]
            )


def _is_same_default(left: object, right: object) -> bool:
    try:
        return is_same_value(left, right)
    except Exception:  # noqa: BLE001 - the equality is analysed code; a value that cannot be compared is different
        return False


def _merge_signatures(first: Subject, second: Subject, *, are_versions_of_method: bool) -> Signature:
    """Return the signature of both functions. The two versions of a method get an object of the second one."""
    left, right = (list(subject.signature.parameters.values()) for subject in (first, second))
    if [(one.name, one.kind) for one in left] != [(one.name, one.kind) for one in right]:
        raise AnalysisRefused(
            "SignatureMismatch", "The functions have different parameters. Give them the same names in the same order."
        )
    merged = right[:1] if are_versions_of_method else []
    merged += map(_merge_parameters, left[len(merged) :], right[len(merged) :])
    return first.signature.replace(parameters=merged)


def _merge_parameters(left: Parameter, right: Parameter) -> Parameter:
    """Return a parameter of both functions, which can be annotated in one of them only."""
    if left.annotation is Parameter.empty:
        return left.replace(annotation=right.annotation)
    if right.annotation is not Parameter.empty and left.annotation != right.annotation:
        raise AnalysisRefused(
            "SignatureMismatch",
            f"The functions annotate the parameter `{left.name}` with different types. Use the same type. For two"
            " versions, the constructors, fields and bases of a class must be the same, and no base may be built in.",
        )
    return left


def _check_classes(parameters: Iterable[Parameter], old: Loaded, new: Loaded) -> None:
    """Refuse parameters that can be objects of a class, or a subclass, that both versions have and do not share."""
    for parameter in parameters:
        classes: dict[type, None] = {}
        collect_classes(parameter.annotation, classes)
        for one in classes:
            name = one.__qualname__.partition(".")[0]  # of the class around it, if there is one
            first, second = (vars(version.module).get(name) for version in (old, new))
            is_theirs = one is first or one is second or name != one.__qualname__
            if is_theirs and None not in (first, second) and first is not second:
                raise AnalysisRefused(
                    "SignatureMismatch",
                    f"The parameter `{parameter.name}` can be an object of `{one.__name__}`, a class that differs"
                    " between the versions. Give both versions the same class.",
                )


def _is_same_outcome(run: Run, left: Returned | Raised, right: Returned | Raised) -> bool:
    if isinstance(left, Raised) or isinstance(right, Raised):
        if not (isinstance(left, Raised) and isinstance(right, Raised)):
            return False
        results: tuple[object, object] = (left.error, right.error)
        same = is_same_class(*map(type, results))
    else:
        results = (left.value, right.value)
        same = _is_same(run, *results)
    if same and are_of_two_versions(*results):
        raise Undecided  # their bases and methods can differ
    return same


def _is_same(run: Run, left: object, right: object) -> bool:
    if are_of_two_versions(left, right):
        left, right = read_attributes(left), read_attributes(right)
    outcome = run.call(is_same_value, left, right)
    if isinstance(outcome, Raised) or (not outcome.value and _contain_two_versions(left, right)):
        raise Undecided  # within a container, two versions of an object are always different, because of their types
    return bool(outcome.value)


def _contain_two_versions(left: object, right: object) -> bool:
    """Return whether two values have objects of two versions of one class in the same place."""
    if isinstance(left, dict) and isinstance(right, dict):
        return any(map(_contain_two_versions, left.values(), right.values()))
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return any(map(_contain_two_versions, left, right))
    return are_of_two_versions(left, right)


def _describe(outcome: Returned | Raised, names: Mapping[str, object]) -> str:
    if isinstance(outcome, Raised):
        return f"raises {type(outcome.error).__name__}"
    return f"returns {write_source(outcome.value, names)}"


def _make_answer(task: Task, subjects: tuple[Subject, Subject], explorations: list[Exploration]) -> "ComparisonResult":
    last, ends = explorations[-1], [one.end for one in explorations]
    # a difference is an answer, whatever was left open before it; equivalence needs that nothing was left open
    end = End.STOPPED if End.STOPPED in ends else next((one for one in ends if one is not End.ALL_PATHS), End.ALL_PATHS)
    if end is End.ALL_PATHS and not any(one.decided for one in explorations):
        raise AnalysisRefused(
            "PreconditionNeverMet", "No arguments satisfy the preconditions of both functions. Weaken them."
        )
    status: Literal["different", "equivalent", "timeout", "unknown"] = _STATUS.get(end, "unknown")
    answer: ComparisonResult = {
        "status": status,
        "distinguishing_input": None,
        "paths_compared": sum(one.paths for one in explorations),
        "confidence": "proven" if status in {"equivalent", "different"} else "partial",
        "time_seconds": task.elapsed(),
        "coverage": describe_coverage(explorations, task, *subjects),
    }
    if last.arguments and last.judgement:
        answer["distinguishing_input"] = example = _describe_difference(task, subjects, last.arguments, last.judgement)
        answer["confirmed_by_replay"] = True
        if last.survey:
            answer["arguments_tried"] = last.survey.tried
            answer["arguments_with_difference"] = last.survey.stopping
            others = [*last.survey.examples.values()][1:_MOST_EXAMPLES]
            answer["further_examples"] = [_describe_difference(task, subjects, *one) for one in others]
        add_notes(answer, [example], explorations)
    elif status != "equivalent":
        answer["message"] = explain_undecided(explorations, task.path_limit)
        answer["undecided"] = task.list_undecided(explorations)
    return answer


def _describe_difference(
    task: Task, subjects: tuple[Subject, Subject], arguments: BoundArguments, judgement: Judgement
) -> Counterexample:
    first, second = judgement.outcomes
    names = ["old version", "new version"] if task.loaded.old else [subject.name for subject in subjects]
    results = [_describe(outcome, task.loaded.names) for outcome in (first, second)]
    old_module = f"{task.module_name}_old" if task.loaded.old else None
    violation = "the outcomes differ"
    kind: DifferenceKind | None
    if judgement.kind == "arguments":
        kind, violation = "arguments", "the arguments end in different states"
    elif old_module and _contain_own(one.error if isinstance(one, Raised) else one.value for one in (first, second)):
        kind = _choose_comparison_of_versions(first, second)
    else:
        kind = _choose_comparison(first, second)
    actual = "; ".join(f"{name} {result}" for name, result in zip(names, results, strict=True))
    test = write_difference(subjects, arguments, task.code, kind, old_module) if kind else None
    return make_counterexample(subjects[0], arguments, task.loaded.names, violation, actual, test=test)


def _choose_comparison(first: Returned | Raised, second: Returned | Raised) -> DifferenceKind | None:
    """Return what a test has to compare; None if nothing that it can compare differs."""
    if isinstance(first, Raised) or isinstance(second, Raised):
        return "exception"
    left, right = first.value, second.value
    same_type = type(left) is type(right)
    if same_type and type(left) is random.Random:
        return "state"
    with suppress(Exception):  # the comparison is analysed code
        compares_identity = same_type and type(left).__eq__ is object.__eq__
        if not compares_identity and left != right:
            return "value"
        if type(left).__repr__ is not object.__repr__ and repr(left) != repr(right):
            return "repr"
        if same_type and hasattr(left, "__dict__"):
            return "attributes" if vars(left) != vars(right) else None
    return "repr"


def _choose_comparison_of_versions(first: Returned | Raised, second: Returned | Raised) -> DifferenceKind | None:
    """Return what a test compares if the outcomes have classes of two modules; None if no text shows a difference."""
    outcomes = (first, second)
    try:
        texts = [type(one.error).__qualname__ if isinstance(one, Raised) else repr(one.value) for one in outcomes]
        if " at 0x" not in "".join(texts):
            raises = any(isinstance(one, Raised) for one in outcomes)
            return None if texts[0] == texts[1] else "text" if raises else "repr"
        mine, others = (getattr(one.value, "__dict__", {}) if isinstance(one, Returned) else {} for one in outcomes)
        return "attributes" if mine != others and not _contain_own([mine, others]) else None
    except Exception:  # noqa: BLE001 - the repr is analysed code
        return None


def _contain_own(values: Iterable[object]) -> bool:
    """Return whether one of the values is an object of the code's classes, or contains one."""
    return any(type(one).__module__ == MODULE_NAME for one in walk_parts(values))
