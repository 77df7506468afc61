"""Programs with the right answers of each tool: what the soundness tests compare with."""

from tests.analysis.programs.branchings import BRANCHES, COMPLEXITIES
from tests.analysis.programs.checks import CHECKS
from tests.analysis.programs.pairs import PAIRS
from tests.analysis.programs.rows import OPEN, Program
from tests.analysis.programs.searches import SEARCHES
from tests.analysis.programs.unstable import UNSTABLE_CHECKS

PROGRAMS: dict[str, list[Program]] = {
    "symbolic_check": [*CHECKS, *UNSTABLE_CHECKS],
    "find_path_to_exception": SEARCHES,
    "compare_functions": PAIRS,
    "analyze_branches": [*BRANCHES, *COMPLEXITIES],
}

__all__ = ["OPEN", "PROGRAMS", "Program"]
