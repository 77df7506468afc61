"""The four kinds of entity, as data: their names in URIs, tables and reference ids, their statuses and their limits.

Epic ─┬─ User Story ─┬─ Acceptance Criteria
      │              └─ Requirement         (may name one acceptance criterion of its story)
      └─ …
"""

from dataclasses import dataclass

TITLE_LENGTH = 500
"""Characters in a title, at most."""
DESCRIPTION_LENGTH = 50_000
"""Characters in a description, at most."""

PRIORITIES = {1: "Critical", 2: "High", 3: "Medium", 4: "Low"}
STORY_STATUSES = ("Backlog", "Draft", "In Progress", "Done", "Cancelled")
REQUIREMENT_STATUSES = ("Draft", "Active", "Obsolete")
MEMBER_ROLES = ("Editor", "Viewer")
"""What a member of a project may be in it. Both read all of the project."""
ADMINISTRATOR = "Administrator"
USER_ROLES = (ADMINISTRATOR, "User", "Commenter")
"""What a user may be in the whole database. An administrator sees every project."""

ORDERING_RELATIONSHIPS = ("depends_on", "blocks", "derives_from")
"""The types of relationship that put requirements in an order: they must not lead back to where they began."""
DEFAULT_PROJECT_ID = "00000000-0000-4000-8000-000000000001"
"""The project that every database starts with: where everything is unless told."""


@dataclass(frozen=True)
class Kind:
    """One kind of entity.

    Attributes:
        name: its name in import files and search entries, such as "user_story".
        segment: its collection in URIs, such as "user-stories".
        table: its table, which is also the key of a list of its entities in JSON, such as "user_stories".
        prefix: how its reference ids begin, such as "US".
        title: its name for people, such as "User Story".
        plural: the name of several for people, such as "User Stories".
        statuses: what its status may be, the initial one first; empty if it has no status, and then no priority and
            no title either.
        parent: the name of the kind that it belongs to; None for one that belongs to a project directly.
    """

    name: str
    segment: str
    table: str
    prefix: str
    title: str
    plural: str
    statuses: tuple[str, ...]
    parent: str | None = None

    @property
    def parent_column(self) -> str | None:
        """The column, and the JSON key, that names the parent; None without a parent."""
        return f"{self.parent}_id" if self.parent else None

    @property
    def author_column(self) -> str:
        """The column, and the JSON key, that names who made it."""
        return "creator_id" if self.statuses else "author_id"

    @property
    def collection_name(self) -> str:
        """The name of the collection for people, such as "All User Stories"."""
        return f"All {self.plural}"


EPIC = Kind("epic", "epics", "epics", "EP", "Epic", "Epics", STORY_STATUSES)
USER_STORY = Kind(
    "user_story", "user-stories", "user_stories", "US", "User Story", "User Stories", STORY_STATUSES, "epic"
)
ACCEPTANCE_CRITERIA = Kind(
    "acceptance_criteria",
    "acceptance-criteria",
    "acceptance_criteria",
    "AC",
    "Acceptance Criteria",
    "Acceptance Criteria",
    (),
    "user_story",
)
REQUIREMENT = Kind(
    "requirement",
    "requirements",
    "requirements",
    "REQ",
    "Requirement",
    "Requirements",
    REQUIREMENT_STATUSES,
    "user_story",
)

KINDS = (EPIC, USER_STORY, ACCEPTANCE_CRITERIA, REQUIREMENT)
"""All kinds, each after its parent."""
BY_NAME = {kind.name: kind for kind in KINDS}
BY_SEGMENT = {kind.segment: kind for kind in KINDS}
BY_PREFIX = {kind.prefix: kind for kind in KINDS}


def format_reference(kind: Kind, number: int) -> str:
    """The reference id with this number: padded to three digits, such as EP-007, and longer where it takes more."""
    return f"{kind.prefix}-{number:03d}"
