"""The parameters of traces and coverage."""

from quilt_mcp.app.page_size import parse_integer
from quilt_mcp.core.errors import InvalidTemplateVariable

MAX_DEPTH = 10
DEFAULT_DEPTH = 3

CATEGORIES = (
    "stories_without_criteria",
    "criteria_without_requirements",
    "requirements_without_criterion",
    "orphans",
)
"""The values of `category`."""


def parse_depth(text: str | None) -> int:
    """Parse the maximum number of steps of a trace.

    Raises:
        InvalidTemplateVariable: it is not an integer from 1 to MAX_DEPTH.
    """
    advice = f"Omit `depth` for {DEFAULT_DEPTH} steps. To go farther, start another trace at `continue_at`."
    return parse_integer("depth", text, default=DEFAULT_DEPTH, largest=MAX_DEPTH, advice=advice)


def parse_category(text: str | None, cursor: str | None, *, has_epic: bool) -> tuple[str, ...]:
    """Return the categories to read: the given one, or all that apply.

    Raises:
        InvalidTemplateVariable: it is not a category, or there is a cursor without a category.
    """
    allowed = CATEGORIES[:-1] if has_epic else CATEGORIES
    if text is None:
        if cursor:
            raise InvalidTemplateVariable(
                "`cursor` needs `category`, because each category has pages of its own.",
                suggested_actions=["Read the URI in `rest` of a gap as it is."],
            )
        return allowed
    if text in allowed:
        return (text,)
    reason = "An orphan belongs to no epic." if text in CATEGORIES else f"It was {text!a}."
    raise InvalidTemplateVariable(
        f"`category` must be one of {', '.join(allowed)}.",
        details=reason,
        suggested_actions=["Omit `category` for the first entities of each."],
    )
