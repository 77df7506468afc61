"""Programs with the correct answers of each tool, for the soundness tests."""

from tests.analysis.programs.basics import BASICS
from tests.analysis.programs.branchings import BRANCHES, COMPLEXITIES
from tests.analysis.programs.classes import CLASSES
from tests.analysis.programs.containers import CONTAINERS
from tests.analysis.programs.everyday import EVERYDAY
from tests.analysis.programs.evidence import EVIDENCE
from tests.analysis.programs.families import FAMILIES
from tests.analysis.programs.findings import FINDINGS
from tests.analysis.programs.functions import FUNCTIONS
from tests.analysis.programs.library import LIBRARY
from tests.analysis.programs.limits import LIMITS
from tests.analysis.programs.numbers import NUMBERS
from tests.analysis.programs.outliving import OUTLIVING
from tests.analysis.programs.paths import PATHS
from tests.analysis.programs.patterns import PATTERNS
from tests.analysis.programs.protocols import PROTOCOLS
from tests.analysis.programs.rows import OPEN, TOOLS, Program
from tests.analysis.programs.sharing import SHARING
from tests.analysis.programs.states import STATES
from tests.analysis.programs.texts import TEXTS
from tests.analysis.programs.wrapping import WRAPPING

_BEFORE = (BASICS, PATTERNS, NUMBERS, TEXTS, CONTAINERS, CLASSES, FUNCTIONS, STATES, EVERYDAY, LIBRARY)
_TOPICS = (*_BEFORE, SHARING, OUTLIVING, PROTOCOLS, EVIDENCE, FINDINGS, WRAPPING, FAMILIES, LIMITS, PATHS)
PROGRAMS: dict[str, list[Program]] = {
    **{tool: [program for topic in _TOPICS for program in topic[tool]] for tool in TOOLS.values()},
    "analyze_branches": [*BRANCHES, *COMPLEXITIES],
}

__all__ = ["OPEN", "PROGRAMS", "Program"]
