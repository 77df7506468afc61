"""The SQL of what each resource reads of one entity or one list: pages, hierarchies, relationships, projects.

Each statement is limited to the caller's scope. Rows outside it are treated as if they did not exist.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple, TypeVar, cast
from urllib.parse import quote
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    Label,
    Table,
    bindparam,
    func,
    literal,
    literal_column,
    or_,
    select,
    text,
    tuple_,
)

from quilt_mcp.core import cursors
from quilt_mcp.core.answers import iso, to_json
from quilt_mcp.core.cursors import Page
from quilt_mcp.core.cuts import PAGE_CHARACTERS, fit, fit_beside
from quilt_mcp.core.errors import NotFound, Unauthorized
from quilt_mcp.core.tracing import calling
from quilt_mcp.requirements import model
from quilt_mcp.requirements.answers import (
    ACCEPTANCE_CRITERIA,
    MAX_SHOWN,
    REQUIREMENTS,
    USER_STORIES,
    AcceptanceCriterion,
    BriefEntity,
    BriefTree,
    Entities,
    Epic,
    EpicHierarchy,
    Member,
    Project,
    ProjectName,
    Relationship,
    Requirement,
    RequirementRelationships,
    RequirementType,
    UserStoryTree,
    make_brief_row,
)
from quilt_mcp.requirements.conditions import Scope, match_any, place_column, restrict
from quilt_mcp.requirements.model import REQUIREMENT, USER_STORY, Kind
from quilt_mcp.requirements.parameters import EntityId, advise_list, decode_position, encode_position, is_id
from quilt_mcp.requirements.tables import (
    BY_KIND,
    AnyColumn,
    AnyRow,
    Statement,
    epics,
    metadata,
    project_members,
    projects,
    relationship_types,
    requirement_relationships,
    requirement_types,
    requirements,
    user_stories,
    users,
)

_EPIC = "epic_reference_id"
_MAY_READ_USERS = (
    "SELECT pg_catalog.has_column_privilege('users', 'id', 'SELECT') "
    "AND pg_catalog.has_column_privilege('users', 'username', 'SELECT')"
)


def may_read_users(connection: Connection) -> bool:
    """Return whether the database user may read the names of users. Queries once for each connection of the pool.

    Without this privilege the names of users are null. Everything else can be read, for example in a database of the
    earlier requirements system.
    """
    if connection.dialect.name != "postgresql":
        return True
    pooled = connection.info
    if _MAY_READ_USERS not in pooled:
        with calling("sql", "select"):
            pooled[_MAY_READ_USERS] = bool(connection.scalar(text(_MAY_READ_USERS)))
    return bool(pooled[_MAY_READ_USERS])


@cache  # to create the subqueries takes longer than to read an entity
def select_columns(
    table: Table, columns: tuple[str, ...], *, has_users: bool, has_projects: bool = True
) -> tuple[ColumnElement[object], ...]:
    def find(key: str) -> ColumnElement[object]:
        if key in table.c:
            return table.c[key]
        if key == "project_name" and not has_projects:
            return literal_column("NULL").label(key)
        return _select_epic(table) if key == _EPIC else select_name(table, key, has_users=has_users)

    return tuple(map(find, columns))


def _select_epic(table: Table) -> ColumnElement[object]:
    """Return the column with the reference ID of the epic above an entity."""
    if "epic_id" in table.c:
        above = select(epics.c.reference_id).where(epics.c.id == table.c.epic_id)
    else:
        joined = user_stories.join(epics, epics.c.id == user_stories.c.epic_id)
        above = select(epics.c.reference_id).select_from(joined).where(user_stories.c.id == table.c.user_story_id)
    return above.correlate(table).scalar_subquery().label(_EPIC)


def select_name(table: Table, key: str, *, has_users: bool) -> ColumnElement[object]:
    """Return the column with the name beside an ID of a table, such as `creator_name` beside `creator_id`."""
    start = key.removesuffix("_name")
    link = table.c[start if start in table.c else f"{start}_id"]  # `created_by` has no suffix
    linked = metadata.tables[model.LINKS[link.name]]
    if linked is users and not has_users:
        return literal_column("NULL").label(key)
    name = select(linked.c[model.NAMES[linked.name]]).where(linked.c.id == link)
    return name.correlate(table).scalar_subquery().label(key)


A = TypeVar("A")


_NULL: ColumnElement[object] = literal_column("NULL")


class Title(NamedTuple):
    """An entity as `resources/list` shows it."""

    id: str
    reference_id: str
    title: str
    """The beginning of the description, if the kind has no titles."""
    updated_at: datetime | None
    position: float


class Reader:
    """Reads for one caller over one connection.

    Args:
        connection: to the database.
        scope: what the caller may see.
        has_users: whether the names of users can be read.
        is_existing: whether it is a database of the earlier requirements system: without projects and search index.
    """

    def __init__(
        self, connection: Connection, scope: Scope, *, has_users: bool = True, is_existing: bool = False
    ) -> None:
        self.connection = connection
        self.scope = scope
        self.has_users = has_users
        self.is_existing = is_existing

    @property
    def dialect(self) -> str:
        return self.connection.dialect.name

    def find_id(self, kind: Kind, entity_id: EntityId) -> str:
        table = BY_KIND[kind.name]
        statement = select(table.c.id).where(table.c[entity_id.column] == bindparam("value"))
        row = self._find(kind, entity_id, statement)
        return str(row.id)

    def read_entity(self, collection: Entities[A], entity_id: EntityId) -> A:
        """Read one entity, with one statement."""
        has_projects = not self.is_existing
        statement = _select_entity(collection, entity_id.column, has_users=self.has_users, has_projects=has_projects)
        return collection.build(self._find(collection.kind, entity_id, statement))

    def list_rows(  # noqa: PLR0917 - two callers, both in this module
        self,
        table: Table,
        columns: Iterable[ColumnElement[object]],
        conditions: list[ColumnElement[bool]],
        build: Callable[[AnyRow], A],
        tag: str,
        cursor: str | None,
        limit: int,
    ) -> Page[A]:
        """Read a page of the rows of a table that fulfil conditions, in the order of their IDs."""
        position = decode_position(cursor, tag)
        [after] = position.after
        rows = self.execute(_start_after(select(*columns).where(*conditions), table, after).limit(limit + 1))
        if position.totals:
            [total] = position.totals
        else:  # what is counted stays the same on every page, and costs a big list much more than a page
            total = len(rows) if len(rows) <= limit and not after else self.count(table, conditions)
        shown = fit([build(row) for row in rows[:limit]])
        following = encode_position([rows[len(shown) - 1].id], [total], tag) if len(rows) > len(shown) else None
        return Page(shown, total, following)

    def list_references(self, kind: Kind, prefix: str, limit: int) -> list[str]:
        table = BY_KIND[kind.name]
        column: ColumnElement[str] = table.c.reference_id
        if self.dialect == "postgresql":
            column = column.collate("C")  # the tables of the earlier system can have a collation of a language
        conditions = [column >= prefix, column < prefix + "\x7f", *self.restrict(table)]
        rows = self.execute(select(table.c.reference_id).where(*conditions).order_by(column).limit(limit))
        return [row.reference_id for row in rows]

    def list_titles(
        self, kind: Kind, *, after: tuple[float, str] | None, limit: int, newest: int | None = None
    ) -> list[Title]:
        """Return the next entities in the order of their positions, of all or of those that changed last.

        Args:
            kind: theirs.
            after: the position and the ID of the last entity before them; None to start with the first.
            limit: the maximum number of entities.
            newest: how many of those that changed last are listed; None lists all.
        """
        table = BY_KIND[kind.name]
        title = table.c.title if kind.statuses else func.substr(table.c.description, 1, model.TITLE_LENGTH)
        place = [self.place_of(table), table.c.id]
        columns = (table.c.id, table.c.reference_id, title.label("title"), table.c.updated_at, place[0])
        statement = select(*columns).where(*self.restrict(table)).order_by(*place).limit(limit)
        if after:
            last = [literal(value, column.type) for column, value in zip(place, after, strict=True)]
            statement = statement.where(tuple_(*place) > tuple_(*last))
        if newest is not None:
            changed = (
                select(table.c.id)
                .where(*self.restrict(table))
                .order_by(table.c.updated_at.desc(), table.c.id.desc())
                .limit(newest)
            )
            statement = statement.where(table.c.id.in_(changed))
        return [Title(*row) for row in self.execute(statement)]

    def _find(self, kind: Kind, entity_id: EntityId, statement: Statement) -> AnyRow:
        visible = self.restrict(BY_KIND[kind.name])
        limited = statement.where(*visible) if visible else statement
        for row in self.execute(limited, {"value": entity_id.value}):
            return row
        raise NotFound(
            f"{kind.title} {entity_id.value} not found.",
            details="It does not exist, or you are not a member of its project.",
            suggested_actions=[advise_list(kind)],
        )

    def columns_of(self, collection: Entities[A]) -> tuple[ColumnElement[object], ...]:
        table, has_projects = BY_KIND[collection.kind.name], not self.is_existing
        return select_columns(table, collection.columns, has_users=self.has_users, has_projects=has_projects)

    def name_of(self, table: Table, key: str) -> ColumnElement[object]:
        return select_name(table, key, has_users=self.has_users)

    def place_of(self, table: Table) -> AnyColumn:
        return place_column(table, is_existing=self.is_existing)

    def restrict(self, table: Table) -> list[ColumnElement[bool]]:
        """Return the WHERE conditions that limit the rows of a table to the scope."""
        return restrict(table.c.project_id, self.scope, self.dialect)

    def count(self, rows: FromClause, conditions: Sequence[ColumnElement[bool]]) -> int:
        [counted] = self.execute(select(func.count().label("total")).select_from(rows).where(*conditions))
        return int(counted.total)

    def select_briefs(self, kind: Kind, *more: ColumnElement[object]) -> Statement:
        """Return the SELECT of all entities of a kind that the caller may see, in one line each."""
        return select(*brief_columns(kind), *more).where(*self.restrict(BY_KIND[kind.name]))

    def count_entities(self, kind: Kind, conditions: Sequence[ColumnElement[bool]]) -> int:
        """Return the number of entities of a kind that meet these conditions and that the caller may see."""
        table = BY_KIND[kind.name]
        return self.count(table, [*self.restrict(table), *conditions])

    def execute(self, statement: Statement, parameters: Mapping[str, object] | None = None) -> list[AnyRow]:
        """Return the rows of a statement. The caller restricts it."""
        with calling("sql", "select"):
            return [*self.connection.execute(statement, parameters).all()]


@cache  # to create this statement, and to look it up among the compiled, takes longer than to execute it
def _select_entity(collection: Entities[Any], column: str, *, has_users: bool, has_projects: bool) -> Statement:
    """Return the SELECT of the entity for which a column has the value of the parameter `value`."""
    table = BY_KIND[collection.kind.name]
    columns = select_columns(table, collection.columns, has_users=has_users, has_projects=has_projects)
    return select(*columns).where(table.c[column] == bindparam("value"))


def _start_after(statement: Statement, table: Table, after: str) -> Statement:
    """Limit a statement to the rows that follow an ID. The column is the table's: the SELECT can have another `id`."""
    return (statement.where(table.c.id > after) if after else statement).order_by(table.c.id)


def brief_columns(kind: Kind) -> list[ColumnElement[object]]:
    """Return the columns that `build_brief` needs, and the IDs of the parent and of the acceptance criterion."""
    table = BY_KIND[kind.name]
    shown = table.c.title if kind.statuses else func.substr(table.c.description, 1, MAX_SHOWN)
    return [
        table.c.id,
        table.c.reference_id,
        shown.label("title"),
        table.c.status if kind.statuses else _NULL.label("status"),
        table.c.priority if kind.statuses else _NULL.label("priority"),
        (table.c[kind.parent_column] if kind.parent_column else _NULL).label("parent_id"),
        (table.c.acceptance_criteria_id if kind is REQUIREMENT else _NULL).label("criterion_id"),
    ]


def build_brief(kind: Kind, row: AnyRow) -> BriefEntity:
    """Build the answer from a row with the brief columns of a kind."""
    return {
        "id": row.id,
        "reference_id": row.reference_id,
        "type": kind.name,
        "title": row.title,
        "status": row.status,
        "priority": row.priority,
        "uri": kind.make_uri(row.reference_id),
    }


Child = TypeVar("Child", AcceptanceCriterion, Requirement)

MAX_CHILDREN = 200
"""More do not fit into an answer."""


def read_hierarchy(
    reader: Reader, epic: Epic, cursor: str | None, limit: int, *, is_brief: bool = False
) -> EpicHierarchy:
    """Read a page of at most `limit` user stories of an epic, with the acceptance criteria and requirements of each.

    A page contains whole user stories: as many as have at most 200 children of each kind together, and fit into an
    answer. Only a user story that is larger on its own is incomplete, and says so.
    """
    tag = cursors.compute_tag("hierarchy", epic["id"], is_brief, reader.scope)
    position = _decode_place(cursor, tag)
    of_epic = [user_stories.c.epic_id == epic["id"], *reader.restrict(user_stories)]
    counts = [_count_children(reader, kind) for kind in (model.ACCEPTANCE_CRITERIA, REQUIREMENT)]
    place = reader.place_of(user_stories)
    statement = select(*reader.columns_of(USER_STORIES), *counts, place.label("place")).where(*of_epic)
    if position:
        last = (literal(position.place, place.type), literal(position.story, user_stories.c.id.type))
        statement = statement.where(tuple_(place, user_stories.c.id) > tuple_(*last))
    rows = reader.execute(statement.order_by(place, user_stories.c.id).limit(limit + 1))
    chosen = rows[: min(limit, _count_fitting(rows))]
    ids = [row.id for row in chosen]
    criteria = _read_children(reader, ACCEPTANCE_CRITERIA, ids)
    wanted = _read_children(reader, REQUIREMENTS, ids)
    trees = [_build_tree(row, criteria[row.id], wanted[row.id]) for row in chosen]
    stories: Sequence[UserStoryTree | BriefTree] = (
        _choose([_shorten(tree) for tree in trees], epic) if is_brief else _choose(trees, epic)
    )
    is_last = len(stories) == len(rows)
    total = position.total if position else len(rows) if is_last else reader.count(user_stories, of_epic)
    return {
        **epic,
        "user_stories": list(stories),
        "count": total,
        "next_cursor": None if is_last else _encode_place(rows[len(stories) - 1], total, tag),
        "is_complete": is_last and not position and all(story["is_complete"] for story in stories),
    }


class _Place(NamedTuple):
    """The last user story before a page of a hierarchy, its position, and the number of all."""

    story: str
    place: float
    total: int


def _decode_place(cursor: str | None, tag: str) -> _Place | None:
    if cursor is None:
        return None
    story, place, total = cursors.decode_values(cursor, tag, [bytes, float, int])
    if len(story) != len(UUID(int=0).bytes):
        raise cursors.make_invalid()
    return _Place(str(UUID(bytes=story)), place, total)


def _encode_place(row: AnyRow, total: int, tag: str) -> str:
    return cursors.encode_values([UUID(row.id).bytes, float(row.place), total], tag)


def _count_children(reader: Reader, kind: Kind) -> Label[int]:
    table = BY_KIND[kind.name]
    of_story = [table.c[str(kind.parent_column)] == user_stories.c.id, *reader.restrict(table)]
    counted = select(func.count()).select_from(table).where(*of_story).correlate(user_stories)
    return counted.scalar_subquery().label(f"{kind.table}_count")


def _count_fitting(rows: Sequence[AnyRow]) -> int:
    """Return how many of the user stories have at most MAX_CHILDREN of each kind together; at least 1."""
    criteria = wanted = 0
    for place, row in enumerate(rows):
        criteria += row.acceptance_criteria_count
        wanted += row.requirements_count
        if place and max(criteria, wanted) > MAX_CHILDREN:
            return place
    return len(rows)


def _read_children(reader: Reader, collection: Entities[Child], stories: list[str]) -> defaultdict[str, list[Child]]:
    grouped: defaultdict[str, list[Child]] = defaultdict(list)
    if not stories:
        return grouped
    table: Table = BY_KIND[collection.kind.name]
    of_stories = [match_any(table.c.user_story_id, stories, reader.dialect), *reader.restrict(table)]
    statement = select(*reader.columns_of(collection)).where(*of_stories)
    for row in reader.execute(statement.order_by(reader.place_of(table), table.c.id).limit(MAX_CHILDREN)):
        grouped[row.user_story_id].append(collection.build(row))
    return grouped


def _build_tree(row: AnyRow, criteria: list[AcceptanceCriterion], wanted: list[Requirement]) -> UserStoryTree:
    return {
        **USER_STORIES.build(row),
        "acceptance_criteria": criteria,
        "acceptance_criteria_count": row.acceptance_criteria_count,
        "requirements": wanted,
        "requirements_count": row.requirements_count,
        "is_complete": (len(criteria), len(wanted)) == (row.acceptance_criteria_count, row.requirements_count),
    }


def _shorten(story: UserStoryTree) -> BriefTree:
    """Return a user story and its children with `view=brief`."""
    criteria, wanted = story["acceptance_criteria"], story["requirements"]
    return {
        **make_brief_row(USER_STORY, story["reference_id"], story["title"], story["status"]),
        "acceptance_criteria": [
            make_brief_row(model.ACCEPTANCE_CRITERIA, one["reference_id"], one["description"], None) for one in criteria
        ],
        "acceptance_criteria_count": story["acceptance_criteria_count"],
        "requirements": [
            make_brief_row(REQUIREMENT, one["reference_id"], one["title"], one["status"]) for one in wanted
        ],
        "requirements_count": story["requirements_count"],
        "is_complete": story["is_complete"],
    }


Tree = TypeVar("Tree", UserStoryTree, BriefTree)


def _choose(trees: list[Tree], epic: Epic) -> list[Tree]:
    """Return the first user stories, as many as fit beside an epic."""
    return [_prune(story) if not place else story for place, story in enumerate(fit_beside(trees, epic))]


def _prune(story: Tree) -> Tree:
    """Leave out the children of a user story that do not fit into an answer."""
    criteria = fit(story["acceptance_criteria"], PAGE_CHARACTERS // 4)
    wanted = fit(story["requirements"], PAGE_CHARACTERS // 2)
    has_all = len(criteria) == len(story["acceptance_criteria"]) and len(wanted) == len(story["requirements"])
    if has_all or len(to_json(story)) <= PAGE_CHARACTERS:
        return story
    return {**story, "acceptance_criteria": criteria, "requirements": wanted, "is_complete": False}


MAX_LIMIT = 500
_links = requirement_relationships.c


def read_relationships(
    reader: Reader, requirement: Requirement, cursor: str | None, limit: int
) -> RequirementRelationships:
    """Read a page of the relationships of a requirement, at most `limit` of each direction."""
    tag = cursors.compute_tag("relationships", requirement["id"], reader.scope)
    position = decode_position(cursor, tag, lists=2)
    shown: list[list[Relationship]] = []
    totals, after, more = [], [], False
    ends = (_links.source_requirement_id, _links.target_requirement_id)
    typed = requirement_relationships.join(relationship_types, relationship_types.c.id == _links.relationship_type_id)
    for place, (this, other) in enumerate((ends, ends[::-1])):
        related = typed.join(requirements, requirements.c.id == other)
        visible = [this == requirement["id"], *reader.restrict(requirements)]
        statement = select(*_list_columns(reader)).select_from(related).where(*visible)
        following = _start_after(statement, requirement_relationships, position.after[place])
        found = reader.execute(following.limit(limit + 1))
        built = [cast("Relationship", _build_relationship(row)) for row in found[:limit]]
        shown.append(fit(built, PAGE_CHARACTERS // 2))
        more = more or len(found) > len(shown[-1])
        after.append(shown[-1][-1]["id"] if found else position.after[place])
        if position.totals:
            totals.append(position.totals[place])
        else:
            totals.append(len(found) if len(found) <= limit else reader.count(related, visible))
    outgoing, incoming = shown
    return {
        **requirement,
        "source_relationships": outgoing,
        "source_count": totals[0],
        "target_relationships": incoming,
        "target_count": totals[1],
        "next_cursor": encode_position(after, totals, tag) if more else None,
        "is_complete": not more and not any(position.after),
    }


def _build_relationship(row: AnyRow) -> dict[str, object]:
    related = REQUIREMENT.make_uri(row.related_reference_id)
    return {**row._asdict(), "created_at": iso(row.created_at), "related_uri": related}


def _list_columns(reader: Reader) -> list[ColumnElement[object]]:
    """Return the columns of a relationship, in the order of the answer."""
    return [
        _links.id,
        *(_links[name] for name in model.ENDS),
        relationship_types.c.name.label("relationship_type"),
        _links.created_by,
        reader.name_of(requirement_relationships, "created_by_name"),
        _links.created_at,
        requirements.c.reference_id.label("related_reference_id"),
        requirements.c.title.label("related_title"),
    ]


def read_types(reader: Reader, cursor: str | None, limit: int) -> Page[RequirementType]:
    columns = [requirement_types.c.id, requirement_types.c.name, requirement_types.c.description]
    tag = cursors.compute_tag("requirement_types")
    return reader.list_rows(
        requirement_types, columns, [], lambda row: cast("RequirementType", row._asdict()), tag, cursor, limit
    )


def read_projects(reader: Reader, cursor: str | None, limit: int) -> Page[Project]:
    """Read a page of the caller's projects. A database of the earlier requirements system has none."""
    tag = cursors.compute_tag("projects", reader.scope)
    if reader.is_existing:
        decode_position(cursor, tag)
        return Page([], 0, None)
    numbered = select(func.count()).where(epics.c.project_id == projects.c.id).correlate(projects)
    columns = [*projects.c, numbered.scalar_subquery().label("number")]
    return reader.list_rows(projects, columns, restrict_projects(reader), _build_project, tag, cursor, limit)


def _build_project(row: AnyRow) -> Project:
    return {
        "id": row.id,
        "name": row.name,
        "description": row.description,
        "epic_count": row.number,
        "created_at": iso(row.created_at),
        "updated_at": iso(row.updated_at),
        "members_uri": f"requirements://projects/{row.id}/members",
        "uri": f"requirements://epics?project={quote(row.id, safe='')}",
    }


def read_members(reader: Reader, project: str, cursor: str | None, limit: int) -> Page[Member]:
    """Read a page of the members of a project that the caller may see, by their IDs.

    Raises:
        Unauthorized: the database user may not read users.
    """
    if reader.is_existing:
        raise make_unknown_project(project)
    found = find_project(reader, project)
    if not reader.has_users:
        raise Unauthorized(
            "The members cannot be read: the server may not read users.",
            suggested_actions=["Grant the database user SELECT on `users`."],
        )
    of_project = [project_members.c.user_id == users.c.id, project_members.c.project_id == found["id"]]
    columns = [users.c.id, users.c.username, project_members.c.role]
    tag = cursors.compute_tag("members", found["id"], reader.scope)
    return reader.list_rows(users, columns, of_project, _build_member, tag, cursor, limit)


def _build_member(row: AnyRow) -> Member:
    return {"username": row.username, "role": row.role}


def find_project(reader: Reader, text: str) -> ProjectName:
    named = or_(projects.c.name == text, *([projects.c.id == text] if is_id(text) else []))
    rows = reader.execute(select(projects.c.id, projects.c.name).where(named, *restrict_projects(reader)))
    for row in sorted(rows, key=lambda row: row.id != text):  # a name can look like the ID of another project
        return {"id": row.id, "name": row.name}
    raise make_unknown_project(text)


def make_unknown_project(text: str) -> NotFound:
    return NotFound(
        f"Project {text!a} not found.",
        details="It does not exist, or you are not a member.",
        suggested_actions=["Read requirements://projects for your projects."],
    )


def restrict_projects(reader: Reader) -> list[ColumnElement[bool]]:
    return restrict(projects.c.id, reader.scope, reader.dialect)
