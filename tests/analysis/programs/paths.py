"""Programs with paths that open no file, and with functions that are chosen by the class of an argument."""

from tests.analysis.programs.rows import read_programs

PATHS = read_programs(r'''
## decided check: a suffix is not an end | f('.csv')
from pathlib import PurePath
def f(name: str) -> bool:
    """post: _ == name.endswith(".csv")"""
    return PurePath(name).suffix == ".csv"
## decided check: a suffix for a path without a name | f(PurePosixPath('.'))
from pathlib import PurePosixPath
def f(path: PurePosixPath) -> PurePosixPath:
    """post: _.suffix == ".json" """
    return path.with_suffix(".json")
## decided check: a name is joined to a folder that is known
from pathlib import PurePosixPath
ROOT = PurePosixPath("/data")
def f(new: bool) -> PurePosixPath:
    """post: _.parent == ROOT and _.parts[:2] == ("/", "data")"""
    return ROOT / ("new" if new else "old")
## decided check: a path from literal parts
from pathlib import PurePosixPath
from typing import Literal
def f(kind: Literal["raw", "clean"], deep: bool) -> str:
    """
    post: _ in ("raw/data.csv", "clean/data.csv", "raw/x/data.csv", "clean/x/data.csv")
    """
    folder = PurePosixPath(kind)
    return str((folder / "x" if deep else folder).joinpath("data.txt").with_suffix(".csv"))
## check: a name has no separator
from pathlib import PurePosixPath
def f(text: str) -> str:
    """post: "/" not in _"""
    return PurePosixPath(text).name
## decided check: a folder escapes its root | f('/')
from pathlib import PurePosixPath
ROOT = PurePosixPath("/srv/uploads")
def f(name: str) -> PurePosixPath:
    """post: _.is_relative_to(ROOT)"""
    return ROOT / name
## decided check: dots are no escape for a path | f('..')
from pathlib import PurePosixPath
ROOT = PurePosixPath("/srv/uploads")
def f(name: str) -> bool:
    """
    pre: not name.startswith("/")
    post: not _
    """
    path = ROOT / name
    return ".." in path.parts and path.is_relative_to(ROOT)
## decided raises ValueError: a path outside of another | f('', 'a')
from pathlib import PurePosixPath
def f(path: str, root: str) -> str:
    return str(PurePosixPath(path).relative_to(root))
## decided raises IndexError: the second parent of a short path | f(PurePath('a'))
from pathlib import PurePath
def f(path: PurePath) -> PurePath:
    return path.parents[1]
## decided check: a drive is no absolute path | f(PureWindowsPath('C:'))
from pathlib import PureWindowsPath
def f(path: PureWindowsPath) -> bool:
    """post: _"""
    return path.is_absolute() or not path.drive
## decided pair: a stem and the text before the first dot | a(PurePosixPath('a/b.tar.gz'))
from pathlib import PurePosixPath
def a(path: PurePosixPath) -> str:
    return path.stem
def b(path: PurePosixPath) -> str:
    return path.name.split(".")[0]
## pair: two ways to the folder of a path
from pathlib import PurePosixPath
def a(path: PurePosixPath) -> PurePosixPath:
    return path.parent
def b(path: PurePosixPath) -> PurePosixPath:
    return path.parents[0] if path.parents else path
## decided check: the extension of an archive | f('a.tar.gz')
from pathlib import PurePath
def f(name: str) -> str:
    """
    pre: name.endswith(".tar.gz")
    post: _ == ".tar.gz" or not name.startswith("a")
    """
    return PurePath(name).suffix
## decided check: a folder of a key | f('/a')
from pathlib import PurePosixPath
def f(key: str) -> str:
    """post: not _.startswith("/")"""
    return str(PurePosixPath("a", key))
## decided check: equal paths of other texts | f('a/')
from pathlib import PurePosixPath
def f(text: str) -> bool:
    """
    post: _
    """
    return str(PurePosixPath(text)) == (text or ".")
## decided check: a file name with a number | f(PurePosixPath(''))
from pathlib import PurePosixPath
def f(path: PurePosixPath) -> PurePosixPath:
    """post: _.suffix == path.suffix"""
    return path.with_name(f"{path.stem}-1{path.suffix}")
## decided check: paths of a list have names | f([PurePosixPath('/')])
from pathlib import PurePosixPath
def f(paths: list[PurePosixPath]) -> dict[str, PurePosixPath]:
    """post: all(_)"""
    return {path.name: path for path in paths}
## decided check: paths in a dataclass | f(Job(PurePosixPath('a'), PurePosixPath('a')))
from dataclasses import dataclass
from pathlib import PurePosixPath
@dataclass
class Job:
    source: PurePosixPath
    target: PurePosixPath
def f(job: Job) -> bool:
    """post: _"""
    return job.source != job.target
## decided check: a path with letters of another case matches | f('A.PNG')
from pathlib import PurePosixPath
def f(name: str) -> bool:
    """post: _ or not name.lower().endswith("a.png")"""
    return PurePosixPath(name).match("*.png")
## refused Refused check: a path that opens files | f('')
from pathlib import Path
def f(name: str) -> str:
    """post: _"""
    return Path(name).read_text()
## decided check: the length of an empty text by its class | f('')
from functools import singledispatch
@singledispatch
def size(x: object) -> int:
    return 1
@size.register
def _(x: str) -> int:
    return len(x)
@size.register(list)
def _(x) -> int:
    return sum(map(size, x))
def f(x: str) -> int:
    """post: _ > 0"""
    return size(x)
## decided check: nested lists by their class | f([''])
from functools import singledispatch
@singledispatch
def size(x: object) -> int:
    return 1
@size.register(str)
def _(x) -> int:
    return len(x)
@size.register(list)
def _(x) -> int:
    return sum(map(size, x)) + 1
def f(x: list[str]) -> int:
    """post: _ != 1 or not x"""
    return size(x)
## decided check: a number by its class
from functools import singledispatch
@singledispatch
def describe(x: object) -> str:
    return "?"
@describe.register
def _(x: int) -> str:
    return "number"
@describe.register
def _(x: str | bytes) -> str:
    return "text"
def f(x: int, y: str) -> str:
    """post: _ == "number text" """
    return f"{describe(x)} {describe(y)}"
## unstable check: a function for bool
from functools import singledispatch
@singledispatch
def size(x: object) -> int:
    return 1
@size.register
def _(x: bool) -> int:
    return 2
def f(x: int) -> int:
    """post: _ == 1"""
    return size(x)
## decided check: a shape without an area | f(Shape())
from dataclasses import dataclass
from functools import singledispatch
class Shape: pass
@dataclass
class Square(Shape):
    side: int
@singledispatch
def area(shape: Shape) -> int:
    raise TypeError(shape)
@area.register
def _(shape: Square) -> int:
    return shape.side ** 2
def f(shape: Shape) -> int:
    """post: _ >= 0"""
    return area(shape)
## decided check: the dispatching function itself | f('abc')
from functools import singledispatch
@singledispatch
def f(x: object) -> int:
    """post: _ != 3"""
    return 1
@f.register
def _(x: str) -> int:
    return len(x)
## decided check: a method by the class of its argument | f('')
from functools import singledispatchmethod
class Writer:
    @singledispatchmethod
    def write(self, x):
        return "?"
    @write.register
    def _(self, x: int):
        return str(x)
    @write.register(str)
    def _(self, x):
        return x
def f(x: str) -> str:
    """post: _ != "1" """
    return Writer().write(x) + Writer().write(1)
## decided check: a class registers its functions | f(41)
class Bus:
    def __init__(self) -> None:
        self.handlers = []
    def register(self, handler):
        self.handlers.append(handler)
        return handler
def f(x: int) -> int:
    """post: _ != 42"""
    bus = Bus()
    @bus.register
    def increase(y: int) -> int:
        return y + 1
    return bus.handlers[0](x)
## unstable check: a function that is registered by a call
from functools import singledispatch
@singledispatch
def size(x: object) -> int:
    return 1
def f(x: int) -> int:
    """post: _ == 1"""
    found = size(x)
    size.register(int, lambda y: 2)
    return found
## unstable check: another function registers
from functools import singledispatch
@singledispatch
def size(x: object) -> int:
    return 1
def change() -> None:
    size.register(int, lambda y: 2)
def f(x: int) -> int:
    """post: _ == 1"""
    return size(x)
''')
