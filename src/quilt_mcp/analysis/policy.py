"""What analysed code may be and may use: one frozen object, read by all that enforces it and by `config://security`.

The gate, the facade, the jail and the resource read this object and nothing else, so what is published is what holds.
This module imports next to nothing, because the process that analyses imports it too.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Self

from quilt_mcp.analysis.standard_library import STANDARD_LIBRARY

if TYPE_CHECKING:
    from quilt_mcp.settings import Settings

SHORTEST_TIMEOUT_SECONDS = 1
LONGEST_TIMEOUT_SECONDS = 120

# Modules that compute, and reach no file, network, process or interpreter state through what the facade shows of them.
ALLOWED_MODULES = tuple(
    """
    __future__ abc bisect collections collections.abc copy dataclasses datetime decimal enum fractions functools heapq
    itertools json math operator random re statistics string typing typing_extensions
    """.split()  # noqa: SIM905 - words are easier to read than a list of literals
)

# Builtins without a way to text that becomes code, to names looked up at run time, to files or to the interpreter.
# Of the exceptions those that are no `Exception` are missing: catching them would hide the analyser's own control flow.
PERMITTED_BUILTINS = tuple(
    """
    ArithmeticError AssertionError AttributeError BlockingIOError BrokenPipeError BufferError BytesWarning
    ChildProcessError ConnectionAbortedError ConnectionError ConnectionRefusedError ConnectionResetError
    DeprecationWarning EOFError Ellipsis EncodingWarning EnvironmentError Exception ExceptionGroup False
    FileExistsError FileNotFoundError FloatingPointError FutureWarning IOError ImportError ImportWarning
    IndentationError IndexError InterruptedError IsADirectoryError KeyError LookupError MemoryError
    ModuleNotFoundError NameError None NotADirectoryError NotImplemented NotImplementedError OSError OverflowError
    PendingDeprecationWarning PermissionError ProcessLookupError PythonFinalizationError RecursionError
    ReferenceError ResourceWarning RuntimeError RuntimeWarning StopAsyncIteration StopIteration SyntaxError
    SyntaxWarning SystemError TabError TimeoutError True TypeError UnboundLocalError UnicodeDecodeError
    UnicodeEncodeError UnicodeError UnicodeTranslateError UnicodeWarning UserWarning ValueError Warning
    ZeroDivisionError __name__ abs all any ascii bin bool bytearray bytes callable chr classmethod complex dict divmod
    enumerate filter float format frozenset hash hex id int isinstance issubclass iter len list map max min next
    object oct ord pow print property range repr reversed round set slice sorted staticmethod str sum super tuple
    type zip
    """.split()  # noqa: SIM905 - words are easier to read than a list of literals
)

# The other builtins of Python 3.11 to 3.13. A builtin that stands in neither list is refused too.
DANGEROUS_BUILTINS = tuple(
    """
    BaseException BaseExceptionGroup GeneratorExit KeyboardInterrupt SystemExit _IncompleteInputError __build_class__
    __debug__ __doc__ __import__ __loader__ __package__ __spec__ aiter anext breakpoint compile copyright credits
    delattr dir eval exec exit getattr globals hasattr help input license locals memoryview open quit setattr vars
    """.split()  # noqa: SIM905 - words are easier to read than a list of literals
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What the sandbox holds analysed code to.

    Attributes:
        allowed_modules: the only modules that code may import, sorted.
        blocked_modules: the standard library's other modules, sorted. Whatever is not allowed is refused, also if it
            is not in this list.
        permitted_builtins: the only builtins that code may name.
        dangerous_builtins: the other builtins, sorted.
        memory_limit_mb: the address space of the process that analyses, in MiB.
        code_size_bytes: the longest code, in bytes of UTF-8.
        coverage_threshold: how many paths are explored for each condition, at most.
        default_timeout_seconds: how long an analysis may take where the call does not say.
        syntax_nodes: the most nodes of the code's syntax tree.
        syntax_depth: how deep the tree may be.
        integer_digits: the most decimal digits of an integer literal.
        literal_length: the most characters of a text literal.
        allow_weaker_sandbox: whether code is analysed where a layer of the jail is missing.
    """

    allowed_modules: tuple[str, ...] = ALLOWED_MODULES
    blocked_modules: tuple[str, ...] = tuple(sorted(set(STANDARD_LIBRARY) - set(ALLOWED_MODULES)))
    permitted_builtins: tuple[str, ...] = PERMITTED_BUILTINS
    dangerous_builtins: tuple[str, ...] = DANGEROUS_BUILTINS
    memory_limit_mb: int = 2048
    code_size_bytes: int = 65536
    coverage_threshold: int = 1000
    default_timeout_seconds: int = 30
    syntax_nodes: int = 20_000
    syntax_depth: int = 100
    integer_digits: int = 400
    literal_length: int = 20_000
    allow_weaker_sandbox: bool = False

    @classmethod
    def of(cls, settings: "Settings") -> Self:
        """The policy under these settings."""
        return cls(
            memory_limit_mb=settings.analysis_memory_limit_mb,
            code_size_bytes=settings.analysis_code_size_bytes,
            coverage_threshold=settings.analysis_coverage_threshold,
            default_timeout_seconds=settings.analysis_default_timeout_seconds,
            allow_weaker_sandbox=settings.analysis_allow_weaker_sandbox,
        )

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """The policy that `as_json` wrote down."""
        return cls(**{one.name: _tupled(values[one.name]) for one in fields(cls)})

    def as_json(self) -> dict[str, Any]:
        """The policy in JSON types, for the process that analyses."""
        return asdict(self)

    def closed(self) -> Self:
        """The policy of a server that accepts no code at all: every module and builtin refused, every size zero."""
        return replace(
            self,
            allowed_modules=(),
            blocked_modules=tuple(sorted({*self.blocked_modules, *self.allowed_modules})),
            permitted_builtins=(),
            dangerous_builtins=tuple(sorted({*self.dangerous_builtins, *self.permitted_builtins})),
            memory_limit_mb=0,
            code_size_bytes=0,
            coverage_threshold=0,
        )


def _tupled(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
