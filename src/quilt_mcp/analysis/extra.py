"""Whether the extra `analysis` is installed: CrossHair and z3. Neither is imported to find out."""

from functools import cache
from importlib.util import find_spec


@cache
def is_installed() -> bool:
    """Whether code can be analysed here, as far as packages go."""
    return find_spec("crosshair") is not None and find_spec("z3") is not None
