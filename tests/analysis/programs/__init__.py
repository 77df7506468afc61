"""Programs with the correct answers of each tool, for the soundness tests."""

from tests.analysis.programs.branchings import BRANCHES, COMPLEXITIES
from tests.analysis.programs.checks import CHECKS
from tests.analysis.programs.classes import CLASSES
from tests.analysis.programs.containers import CONTAINERS
from tests.analysis.programs.everyday import EVERYDAY
from tests.analysis.programs.functions import FUNCTIONS
from tests.analysis.programs.library import LIBRARY
from tests.analysis.programs.numbers import NUMBERS
from tests.analysis.programs.outliving import OUTLIVING
from tests.analysis.programs.pairs import PAIRS
from tests.analysis.programs.patterns import PATTERNS
from tests.analysis.programs.protocols import PROTOCOLS
from tests.analysis.programs.rows import OPEN, Program
from tests.analysis.programs.searches import SEARCHES
from tests.analysis.programs.sharing import SHARING
from tests.analysis.programs.states import STATES
from tests.analysis.programs.texts import TEXTS
from tests.analysis.programs.unstable import UNSTABLE_CHECKS

_FEATURES = (
    PATTERNS,
    NUMBERS,
    TEXTS,
    CONTAINERS,
    CLASSES,
    FUNCTIONS,
    STATES,
    EVERYDAY,
    LIBRARY,
    SHARING,
    OUTLIVING,
    PROTOCOLS,
)
_FIRST: dict[str, list[Program]] = {
    "symbolic_check": [*CHECKS, *UNSTABLE_CHECKS],
    "find_path_to_exception": SEARCHES,
    "compare_functions": PAIRS,
    "analyze_branches": [*BRANCHES, *COMPLEXITIES],
}
PROGRAMS: dict[str, list[Program]] = {
    tool: [*first, *(program for feature in _FEATURES for program in feature.get(tool, ()))]
    for tool, first in _FIRST.items()
}

__all__ = ["OPEN", "PROGRAMS", "Program"]
