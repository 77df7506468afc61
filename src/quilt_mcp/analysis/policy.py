"""What analysed code can use, and the limits of an analysis.

The gate, the restricted modules, the jail and `config://security` read the same frozen object, so that what the
resource publishes is what is enforced. The process that runs the analysis imports this module, so it imports little.
"""

import json
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from quilt_mcp.analysis.settings import AnalysisSettings

SHORTEST_TIMEOUT_SECONDS = 1
LONGEST_TIMEOUT_SECONDS = 120

# The Python versions on which the attack table (tests/analysis/attacks.py) has passed. Others do not run analyses.
SUPPORTED_PYTHONS = ((3, 11), (3, 12), (3, 13))

# Modules that only compute. The names that analysed code gets from them do not reach files, the network, processes or
# the state of the interpreter.
ALLOWED_MODULES = tuple(
    """
    __future__ abc bisect collections collections.abc contextlib copy dataclasses datetime decimal enum fractions
    functools hashlib heapq itertools json logging math operator pathlib random re statistics string typing
    typing_extensions
    """.split()  # noqa: SIM905 - words are easier to read than a list of literals
)

# Builtins that cannot run text as code, look up names at run time, open files or reach the interpreter. Exceptions that
# do not derive from `Exception` are missing: code that catches them would hide the control flow of CrossHair.
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
    enumerate filter float format frozenset hasattr hash hex id int isinstance issubclass iter len list map max min next
    object oct ord pow print property range repr reversed round set slice sorted staticmethod str sum super tuple
    type zip
    """.split()  # noqa: SIM905 - words are easier to read than a list of literals
)

# The other builtins of Python 3.11 to 3.13. The gate also refuses a builtin that is in neither list.
DANGEROUS_BUILTINS = tuple(
    """
    BaseException BaseExceptionGroup GeneratorExit KeyboardInterrupt SystemExit _IncompleteInputError __build_class__
    __debug__ __doc__ __import__ __loader__ __package__ __spec__ aiter anext breakpoint compile copyright credits
    delattr dir eval exec exit getattr globals help input license locals memoryview open quit setattr vars
    """.split()  # noqa: SIM905 - words are easier to read than a list of literals
)


# The union of `sys.stdlib_module_names` of Python 3.11, 3.12 and 3.13, sorted, so that every Python publishes the same.
STANDARD_LIBRARY = tuple(
    """
    __future__ _abc _aix_support _android_support _ast _asyncio _bisect _blake2 _bootsubprocess _bz2 _codecs _codecs_cn
    _codecs_hk _codecs_iso2022 _codecs_jp _codecs_kr _codecs_tw _collections _collections_abc _colorize _compat_pickle
    _compression _contextvars _crypt _csv _ctypes _curses _curses_panel _datetime _dbm _decimal _elementtree
    _frozen_importlib _frozen_importlib_external _functools _gdbm _hashlib _heapq _imp _interpchannels _interpqueues
    _interpreters _io _ios_support _json _locale _lsprof _lzma _markupbase _md5 _msi _multibytecodec _multiprocessing
    _opcode _opcode_metadata _operator _osx_support _overlapped _pickle _posixshmem _posixsubprocess _py_abc _pydatetime
    _pydecimal _pyio _pylong _pyrepl _queue _random _scproxy _sha1 _sha2 _sha256 _sha3 _sha512 _signal _sitebuiltins
    _socket _sqlite3 _sre _ssl _stat _statistics _string _strptime _struct _suggestions _symtable _sysconfig _thread
    _threading_local _tkinter _tokenize _tracemalloc _typing _uuid _warnings _weakref _weakrefset _winapi _wmi _zoneinfo
    abc aifc antigravity argparse array ast asynchat asyncio asyncore atexit audioop base64 bdb binascii bisect builtins
    bz2 cProfile calendar cgi cgitb chunk cmath cmd code codecs codeop collections colorsys compileall concurrent
    configparser contextlib contextvars copy copyreg crypt csv ctypes curses dataclasses datetime dbm decimal difflib
    dis distutils doctest email encodings ensurepip enum errno faulthandler fcntl filecmp fileinput fnmatch fractions
    ftplib functools gc genericpath getopt getpass gettext glob graphlib grp gzip hashlib heapq hmac html http idlelib
    imaplib imghdr imp importlib inspect io ipaddress itertools json keyword lib2to3 linecache locale logging lzma
    mailbox mailcap marshal math mimetypes mmap modulefinder msilib msvcrt multiprocessing netrc nis nntplib nt ntpath
    nturl2path numbers opcode operator optparse os ossaudiodev pathlib pdb pickle pickletools pipes pkgutil platform
    plistlib poplib posix posixpath pprint profile pstats pty pwd py_compile pyclbr pydoc pydoc_data pyexpat queue
    quopri random re readline reprlib resource rlcompleter runpy sched secrets select selectors shelve shlex shutil
    signal site smtpd smtplib sndhdr socket socketserver spwd sqlite3 sre_compile sre_constants sre_parse ssl stat
    statistics string stringprep struct subprocess sunau symtable sys sysconfig syslog tabnanny tarfile telnetlib
    tempfile termios textwrap this threading time timeit tkinter token tokenize tomllib trace traceback tracemalloc tty
    turtle turtledemo types typing unicodedata unittest urllib uu uuid venv warnings wave weakref webbrowser winreg
    winsound wsgiref xdrlib xml xmlrpc zipapp zipfile zipimport zlib zoneinfo
    """.split()  # noqa: SIM905 - words are easier to read than a list of literals
)


LIMIT_UNITS = {
    "code_size_bytes": "bytes of UTF-8",
    "coverage_threshold": "paths",
    "integer_digits": "decimal digits",
    "literal_length": "characters",
    "memory_limit_mb": "MiB",
    "syntax_depth": "levels",
    "syntax_nodes": "nodes",
}
"""The limits of a policy and their units."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The rules and limits that the sandbox enforces."""

    allowed_modules: tuple[str, ...] = ALLOWED_MODULES  # the only modules that code can import, sorted
    permitted_builtins: tuple[str, ...] = PERMITTED_BUILTINS  # the only builtins that code can name
    dangerous_builtins: tuple[str, ...] = DANGEROUS_BUILTINS  # the other builtins, sorted
    memory_limit_mb: int = 2048  # maximum address space of the process that runs the analysis, in MiB
    code_size_bytes: int = 65536  # maximum size of the code, in bytes of UTF-8
    coverage_threshold: int = 1000  # maximum number of paths that are explored for each condition
    syntax_nodes: int = 20_000  # maximum number of nodes in the syntax tree of the code
    syntax_depth: int = 100  # maximum depth of the tree
    integer_digits: int = 400  # maximum number of decimal digits of an integer literal
    literal_length: int = 20_000  # maximum number of characters of a string literal
    # whether analyses run on a machine that does not support every layer of the jail
    allow_weaker_sandbox: bool = False

    @classmethod
    def from_settings(cls, settings: "AnalysisSettings") -> Self:
        return cls(
            memory_limit_mb=settings.analysis_memory_limit_mb,
            code_size_bytes=settings.analysis_code_size_bytes,
            coverage_threshold=settings.analysis_coverage_threshold,
            allow_weaker_sandbox=settings.analysis_allow_weaker_sandbox,
        )

    @classmethod
    def from_json(cls, text: str) -> Self:
        return cls(**json.loads(text, object_hook=_to_tuples))

    def to_json(self) -> str:
        """Return the policy as JSON text, for the process that runs the analysis."""
        return json.dumps({one.name: getattr(self, one.name) for one in fields(self)})

    def refuse_everything(self) -> Self:
        """Return the policy of a server that accepts no code: every module and builtin is refused, every limit is 0."""
        limits = {one.name: 0 for one in fields(self) if type(getattr(self, one.name)) is int}
        return replace(
            self,
            allowed_modules=(),
            permitted_builtins=(),
            dangerous_builtins=tuple(sorted({*self.dangerous_builtins, *self.permitted_builtins})),
            **limits,  # type: ignore[arg-type] # they are numbers
        )


def _to_tuples(values: dict[str, object]) -> dict[str, object]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
