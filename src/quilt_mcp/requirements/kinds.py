"""The four kinds of entity: their names in URIs, tables and reference IDs, their statuses and their limits.

Epic ─┬─ User Story ─┬─ Acceptance Criteria
      │              └─ Requirement         (can refer to one acceptance criterion of its user story)
      └─ …
"""

from dataclasses import dataclass

TITLE_LENGTH = 500
"""Maximum number of characters of a title."""
DESCRIPTION_LENGTH = 50_000
"""Maximum number of characters of a description."""

STORY_STATUSES = ("Backlog", "Draft", "In Progress", "Done", "Cancelled")
REQUIREMENT_STATUSES = ("Draft", "Active", "Obsolete")
FINAL_STATUSES = ("Done", "Cancelled", "Obsolete")
"""The statuses of entities on which no more work is done."""
LAST_NUMBER = 999_999_999
"""The highest number of a reference ID."""
MEMBER_ROLES = ("Editor", "Viewer")
"""The roles of project members. Both may read everything in the project."""
ADMINISTRATOR = "Administrator"
USER_ROLES = (ADMINISTRATOR, "User", "Commenter")
"""The roles of users. An administrator sees every project."""

ORDERING_RELATIONSHIPS = ("depends_on", "blocks", "derives_from")
"""The relationship types that order requirements. Relationships of one of these types must not form a cycle."""
DEFAULT_PROJECT_ID = "00000000-0000-4000-8000-000000000001"
"""The project that every database starts with. Entities without a project belong to it."""


@dataclass(frozen=True)
class Kind:
    """One kind of entity.

    Attributes:
        name: its name in import files and search entries, such as "user_story".
        segment: its collection in URIs, such as "user-stories".
        table: its table, and the JSON key of a list of its entities, such as "user_stories".
        prefix: the prefix of its reference IDs, such as "US".
        title: its name for people, such as "User Story".
        statuses: the allowed statuses, with the default first; empty if the kind has no status, priority and title.
        parent: the name of the parent's kind; None if the parent is a project.
    """

    name: str
    segment: str
    table: str
    prefix: str
    title: str
    statuses: tuple[str, ...]
    parent: str | None = None

    @property
    def parent_column(self) -> str | None:
        """The column and JSON key of the parent's ID; None without a parent."""
        return f"{self.parent}_id" if self.parent else None

    @property
    def author_column(self) -> str:
        """The column and JSON key of the ID of the user who created it."""
        return "creator_id" if self.statuses else "author_id"


EPIC = Kind("epic", "epics", "epics", "EP", "Epic", STORY_STATUSES)
USER_STORY = Kind("user_story", "user-stories", "user_stories", "US", "User Story", STORY_STATUSES, "epic")
ACCEPTANCE_CRITERIA = Kind(
    "acceptance_criteria",
    "acceptance-criteria",
    "acceptance_criteria",
    "AC",
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
    REQUIREMENT_STATUSES,
    "user_story",
)

KINDS = (EPIC, USER_STORY, ACCEPTANCE_CRITERIA, REQUIREMENT)
"""All kinds. A parent precedes its children."""
BY_NAME = {kind.name: kind for kind in KINDS}
BY_PREFIX = {kind.prefix: kind for kind in KINDS}


def format_reference(kind: Kind, number: int) -> str:
    """Return the reference ID with this number, padded to at least three digits, such as EP-007."""
    return f"{kind.prefix}-{number:03d}"
