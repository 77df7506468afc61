"""Finds what the values of filters name: users, requirement types, projects, and the statuses of the earlier system.

Values that the caller may not know are refused like values that do not exist.
"""

from collections.abc import Iterable, Sequence
from uuid import UUID

from sqlalchemy import Column, ColumnElement, Table, exists, func, or_, select

from quilt_mcp.core.errors import InvalidTemplateVariable
from quilt_mcp.requirements.conditions import Conditions, Selection, match_any, restrict
from quilt_mcp.requirements.filters import ME, NOBODY, Filters, refuse_value
from quilt_mcp.requirements.kinds import FINAL_STATUSES, KINDS, Kind
from quilt_mcp.requirements.reads import Reader
from quilt_mcp.requirements.tables import BY_KIND, project_members, projects, requirement_types, users

_MOST_NAMES = 1000
"""Maximum number of names among which an error looks for a similar one."""


class FilterNames:
    """Finds for one caller what the values of filters name.

    Args:
        reader: reads for the caller.
        username: the caller's name in the database; None without one.
    """

    def __init__(self, reader: Reader, username: str | None) -> None:
        self._reader = reader
        self._username = username
        self._dialect = reader.dialect

    def resolve(self, filters: Filters, kinds: Sequence[Kind] = KINDS) -> Selection:
        """Replace the names in filters with IDs, for a list of entities of these kinds.

        Raises:
            InvalidTemplateVariable: a value names nothing that the caller may see.
        """
        self._check_statuses(filters.status, kinds)
        return Selection(
            status=filters.status,
            priority=filters.priority,
            assignee_ids=self._find_users(filters.assignee),
            includes_unassigned=NOBODY in filters.assignee,
            type_ids=self._find_types(filters.type),
            project_ids=self._find_projects(filters.project),
            updated_since=filters.updated_since,
            sort=filters.sort,
        )

    def list_values(self, parameter: str, kinds: Sequence[Kind], prefix: str, limit: int) -> list[str]:
        """List the first values that a parameter can have, and that start with a prefix."""
        if parameter == "status":
            return [one for one in self._list_statuses(kinds) if one.startswith(prefix)]
        if parameter == "type":
            return self._list_names(requirement_types.c.name, [], prefix, limit)
        reserved = [one for one in self._reserved if one.startswith(prefix)]
        if not self._reader.has_users:
            return reserved
        return reserved + self._list_names(users.c.username, self._select_colleagues(), prefix, limit)

    @property
    def _reserved(self) -> list[str]:
        return [*([ME] if self._username and self._reader.has_users else []), NOBODY]

    def _list_statuses(self, kinds: Iterable[Kind]) -> list[str]:
        kinds = [kind for kind in kinds if kind.statuses]
        found = dict.fromkeys(status for kind in kinds for status in kind.statuses)
        for kind in kinds if self._reader.is_existing else ():
            status = BY_KIND[kind.name].c.status
            rows = self._reader.execute(select(status).distinct().limit(_MOST_NAMES))
            found |= dict.fromkeys(sorted(row.status for row in rows))
        return list(found)

    def _list_names(self, name: Column[str], visible: Conditions, prefix: str, limit: int) -> list[str]:
        # not LIKE and not the default order, in which the two databases differ
        starts = [func.substr(name, 1, len(prefix)) == prefix] if prefix else []
        order = name.collate("C" if self._dialect == "postgresql" else "BINARY")
        statement = select(name.label("name")).where(*starts, *visible).order_by(order).limit(limit)
        return [row.name for row in self._reader.execute(statement)]

    def _check_statuses(self, values: Sequence[str], kinds: Sequence[Kind]) -> None:
        """Refuse statuses that no entity of these kinds can have."""
        known = {status for kind in kinds for status in kind.statuses}
        for value in values:
            if value not in known and not (self._reader.is_existing and self._occurs(value, kinds)):
                raise refuse_status(value, self._list_statuses(kinds))

    def _find_users(self, values: Sequence[str]) -> tuple[str, ...]:
        """Return the IDs of users. `none` has no ID."""
        wanted = {value for value in values if value != NOBODY}
        if not wanted:
            return ()
        if not self._reader.has_users:
            return self._require_ids(wanted)
        others = self._find("assignee", wanted - {ME}, users.c.username, self._select_colleagues(), self._reserved)
        return tuple(sorted({*others, self._find_own_id()} if ME in wanted else others))

    def _find_own_id(self) -> str:
        """Return the ID of the caller. The username can look like the ID of another user, so it is not a name here."""
        own = select(users.c.id).where(users.c.username == self._username)
        rows = self._reader.execute(own) if self._username is not None else []
        if not rows:
            raise InvalidTemplateVariable(
                "`assignee` cannot be `me`: you are not a user of the requirements database.",
                suggested_actions=[
                    "Use a username or the ID of a user.",
                    "The setting QUILT_MCP_REQUIREMENTS_USER names the user of local callers.",
                ],
            )
        return str(rows[0].id)

    def _find_types(self, values: Sequence[str]) -> tuple[str, ...]:
        """Return the IDs of requirement types."""
        more = "Read requirements://requirements-types for all types."
        return self._find("type", values, requirement_types.c.name, [], more=more)

    def _find_projects(self, values: Sequence[str]) -> tuple[str, ...]:
        """Return the IDs of projects of the caller."""
        if values and self._reader.is_existing:
            raise InvalidTemplateVariable(
                "`project` is not allowed: a database of the earlier requirements system has no projects.",
                suggested_actions=["Omit `project`."],
            )
        visible = restrict(projects.c.id, self._reader.scope, self._dialect)
        more = "Read requirements://projects for your projects."
        return self._find("project", values, projects.c.name, visible, more=more)

    def _find(  # noqa: PLR0917 - three callers, all above
        self,
        parameter: str,
        values: Iterable[str],
        name: Column[str],
        visible: Conditions,
        reserved: Sequence[str] = (),
        more: str | None = None,
    ) -> tuple[str, ...]:
        """Return the IDs of the rows with these names or IDs, sorted."""
        values = sorted(values)
        if not values:
            return ()
        table: Table = name.table
        ids = [value for value in values if _is_id(value)]
        matches = or_(match_any(table.c.id, ids, self._dialect), name.in_(values))
        rows = self._reader.execute(select(table.c.id, name.label("name")).where(matches, *visible))
        # a name can look like the ID of another row: the ID comes first
        known = {row.name: row.id for row in rows} | {row.id: row.id for row in rows}
        for value in values:
            if value not in known:
                names = self._list_names(name, visible, "", _MOST_NAMES)
                raise refuse_value(parameter, value, [*reserved, *names], more=more)
        return tuple(sorted({known[value] for value in values}))

    def _select_colleagues(self) -> Conditions:
        """Return the conditions that select the users that the caller may see.

        These are the caller, the members of the caller's projects, and the assignees in these projects.
        """
        scope = self._reader.scope
        if scope.projects is None:
            return []
        of_projects = match_any(project_members.c.project_id, scope.projects, self._dialect)
        known: list[ColumnElement[bool]] = [
            users.c.username == self._username,
            users.c.id.in_(select(project_members.c.user_id).where(of_projects)),
        ]
        for kind in KINDS:
            if kind.statuses:
                table = BY_KIND[kind.name]
                is_assigned = table.c.assignee_id == users.c.id
                known.append(exists().where(is_assigned, *restrict(table.c.project_id, scope, self._dialect)))
        return [or_(*known)]

    def _occurs(self, status: str, kinds: Iterable[Kind]) -> bool:
        for table in (BY_KIND[kind.name] for kind in kinds if kind.statuses):
            if self._reader.execute(select(table.c.id).where(table.c.status == status).limit(1)):
                return True
        return False

    @staticmethod
    def _require_ids(values: Iterable[str]) -> tuple[str, ...]:
        if all(map(_is_id, values)):
            return tuple(sorted(values))
        raise InvalidTemplateVariable(
            "`assignee` must be the ID of a user, because the database user cannot read the table `users`.",
            suggested_actions=["Use an `assignee_id`.", "Grant the database user SELECT on `users`."],
        )


def refuse_status(value: str, allowed: Sequence[str]) -> InvalidTemplateVariable:
    """Return the failure for a status that no entity can have. `open` and `closed` mean several of the statuses."""
    refused = refuse_value("status", value, allowed)
    if value.casefold() in {"open", "closed"}:
        is_final = value.casefold() == "closed"
        meant = ",".join(one for one in allowed if (one in FINAL_STATUSES) == is_final)
        refused.suggested_actions = [f"Did you mean {meant}?", *refused.suggested_actions]
    return refused


def _is_id(text: str) -> bool:
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False
