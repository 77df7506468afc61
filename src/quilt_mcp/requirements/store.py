"""The requirements database, as resources, `resources/list` and completion read it for the current caller."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TypeVar

from quilt_mcp.app import identity
from quilt_mcp.core import cursors
from quilt_mcp.core.cursors import DEFAULT_LIMIT, MAX_LIMIT, Page, parse_limit
from quilt_mcp.core.errors import InvalidTemplateVariable, ResourceFailure
from quilt_mcp.requirements import kinds, parameters, shapes
from quilt_mcp.requirements.answers import (
    Change,
    Coverage,
    EpicHierarchy,
    Project,
    RequirementRelationships,
    RequirementType,
    SearchPage,
    Trace,
)
from quilt_mcp.requirements.changes import Changes
from quilt_mcp.requirements.conditions import Scope, Selection, load_scope
from quilt_mcp.requirements.coverage import FIRST, find_filter, read_coverage
from quilt_mcp.requirements.database import Database, open_database
from quilt_mcp.requirements.filter_names import FilterNames
from quilt_mcp.requirements.filters import Filters
from quilt_mcp.requirements.hierarchies import read_hierarchy
from quilt_mcp.requirements.kinds import Kind
from quilt_mcp.requirements.parameters import EntityId, decode_position, encode_position, parse_category, parse_depth
from quilt_mcp.requirements.projects import list_names, read_projects
from quilt_mcp.requirements.reads import Reader, Rows, Title, may_read_users
from quilt_mcp.requirements.relationships import MAX_LIMIT as MAX_RELATIONSHIPS
from quilt_mcp.requirements.relationships import read_relationships
from quilt_mcp.requirements.search.page import read_search_page
from quilt_mcp.requirements.search.text import parse_query
from quilt_mcp.requirements.selecting import DEFAULT, SelectedPages, Thresholds, decode_mark, encode_mark
from quilt_mcp.requirements.settings import RequirementsSettings
from quilt_mcp.requirements.shapes import Shape
from quilt_mcp.requirements.trace import read_trace

A = TypeVar("A")


class RequirementsStore:
    """One database.

    Attributes:
        settings: of the requirements domain.
        database: the connections.
        thresholds: decide between the ways to read.
    """

    def __init__(self, settings: RequirementsSettings, thresholds: Thresholds = DEFAULT) -> None:
        self.settings, self.thresholds = settings, thresholds
        self.database: Database = open_database(settings)

    def close(self) -> None:
        """Close every connection."""
        self.database.close()

    @contextmanager
    def open_reader(self, scope: Scope | None = None) -> Iterator[Reader]:
        """Open a reader for the current caller, with a scope or with what the caller may see now.

        Raises:
            UnknownUser: the caller is not a user of the database.
            ResourceFailure: as `Database.reading`.
        """
        with self.database.reading() as connection:
            caller, is_existing = identity.current(), self.database.is_existing
            if scope is None:
                scope = load_scope(connection, caller.key, self._username(caller), has_projects=not is_existing)
            yield Reader(connection, scope, has_users=may_read_users(connection), is_existing=is_existing)

    def _username(self, caller: identity.Identity) -> str | None:
        """Return the caller's name in the database; None for an administrator, which a local caller is by default."""
        if caller.is_local:
            return self.settings.requirements_user
        return str(caller.claims.get(self.settings.requirements_user_claim, caller.subject))

    def select(self, reader: Reader, filters: Filters, kinds: Sequence[Kind]) -> Selection:
        """Find what the values of filters name, for a list of entities of these kinds.

        Raises:
            InvalidTemplateVariable: a value names nothing that the caller may see.
        """
        return self._names_for(reader).resolve(filters, kinds)

    def _names_for(self, reader: Reader) -> FilterNames:
        return FilterNames(reader, self._username(identity.current()))

    def find_scope(self) -> Scope:
        """Return what the current caller may see now."""
        with self.open_reader() as reader:
            return reader.scope

    def read_entity(self, shape: Shape[A], text: str) -> A:
        """Read the entity with this ID."""
        entity_id = self._parse_id(shape.kind, text)
        with self.open_reader() as reader:
            return reader.read_entity(shape, entity_id)

    def read_page(
        self,
        shape: Shape[A],
        cursor: str | None,
        limit: str | None,
        filters: Filters | None = None,
        parent: tuple[Kind, str] | None = None,
    ) -> Page[A]:
        """Read a page of the entities of a kind, or of those that belong to a parent with this ID."""
        owner = (parent[0], self._parse_id(*parent)) if parent else None
        size = parse_limit(limit)
        with self.open_reader() as reader:
            parent_id = reader.find_id(*owner) if owner else None
            if filters:
                return self._read_selected(reader, shape, filters, parent_id, cursor, size)
            of_parent = [parent_id] if parent_id else []
            tag = cursors.compute_tag(shape.kind.segment, *of_parent, reader.scope)
            position = decode_position(cursor, tag)
            return _make_page(reader.read_page(shape, position, limit=size, parent=parent_id), tag)

    def read_types(self, cursor: str | None, limit: str | None) -> Page[RequirementType]:
        """Read a page of the requirement types."""
        size, tag = parse_limit(limit), cursors.compute_tag("requirement_types")
        position = decode_position(cursor, tag)
        with self.open_reader() as reader:
            return _make_page(reader.read_types(position, limit=size), tag)

    def read_hierarchy(self, text: str, cursor: str | None, limit: str | None) -> EpicHierarchy:
        """Read the epic with this ID, and a page of its descendants."""
        entity_id = self._parse_id(kinds.EPIC, text)
        size = parse_limit(limit, default=MAX_LIMIT)
        with self.open_reader() as reader:
            epic = reader.read_entity(shapes.EPIC, entity_id)
            tag = cursors.compute_tag("hierarchy", epic["id"], reader.scope)
            return read_hierarchy(reader, epic, decode_position(cursor, tag), size, tag)

    def read_relationships(self, text: str, cursor: str | None, limit: str | None) -> RequirementRelationships:
        """Read the requirement with this ID, and a page of its relationships."""
        entity_id = self._parse_id(kinds.REQUIREMENT, text)
        size = parse_limit(limit, default=MAX_RELATIONSHIPS, largest=MAX_RELATIONSHIPS)
        with self.open_reader() as reader:
            requirement = reader.read_entity(shapes.REQUIREMENT, entity_id)
            tag = cursors.compute_tag("relationships", requirement["id"], reader.scope)
            position = decode_position(cursor, tag, lists=2)
            return read_relationships(reader, requirement, position, size, tag)

    def search(self, query: str, cursor: str | None, limit: str | None, filters: Filters) -> SearchPage:
        """Read a page of the entities that match a query and filters."""
        parsed = parse_query(query)
        with self.open_reader() as reader:
            return read_search_page(
                reader,
                query=query,
                parsed=parsed,
                cursor=cursor,
                limit=limit,
                cap=self.settings.search_candidates,
                selection=self.select(reader, filters, kinds.KINDS),
                most_projects=self.thresholds.most_projects,
            )

    def read_trace(self, kind: Kind, text: str, depth: str | None, cursor: str | None, limit: str | None) -> Trace:
        """Read a page of the trace of the entity with this ID."""
        entity_id, steps, size = self._parse_id(kind, text), parse_depth(depth), parse_limit(limit)
        with self.open_reader() as reader:
            found = reader.find_id(kind, entity_id)
            tag = cursors.compute_tag("trace", found, steps, reader.scope)
            after = cursors.decode(cursor, tag) if cursor else ""
            return read_trace(reader, kind, found, depth=steps, after=after, limit=size, tag=tag)

    def read_coverage(
        self, epic: str | None, project: str | None, category: str | None, cursor: str | None, limit: str | None
    ) -> Coverage:
        """Read what is missing, in everything or in an epic or a project."""
        categories = parse_category(category, cursor, has_epic=epic is not None)
        size = parse_limit(limit, default=DEFAULT_LIMIT if category else FIRST)
        epic_id = None if epic is None else self._parse_id(kinds.EPIC, epic)
        with self.open_reader() as reader:
            limited = find_filter(reader, epic_id, project)
            return read_coverage(
                reader,
                categories=categories,
                limited=limited,
                limit=size,
                cursor=cursor,
                is_page=category is not None,
            )

    def read_changes(
        self, filters: Filters, wanted: Sequence[Kind], cursor: str | None, limit: str | None
    ) -> Page[Change]:
        """Read a page of the entities of some kinds, the last changed first."""
        size = parse_limit(limit)
        with self.open_reader() as reader:
            selection = self.select(reader, filters, wanted)
            tag = cursors.compute_tag("changes", [kind.name for kind in wanted], selection, reader.scope)
            mark = None if cursor is None else decode_mark(cursor, "updated_at", tag)
            found = Changes(reader, selection, wanted).read(mark, size)
            return Page(found.rows, found.total, encode_mark(found.last, tag) if found.last else None)

    def read_projects(self, cursor: str | None, limit: str | None) -> Page[Project]:
        """Read a page of the caller's projects. A database of the earlier requirements system has none."""
        size = parse_limit(limit)
        with self.open_reader() as reader:
            tag = cursors.compute_tag("projects", reader.scope)
            position = decode_position(cursor, tag)
            if reader.is_existing:
                return Page([], 0, None)
            return _make_page(read_projects(reader, position, limit=size), tag)

    def list_project_names(self, prefix: str, limit: int) -> list[str]:
        """List the first names of the caller's projects that start with a prefix."""
        with self.open_reader() as reader:
            return [] if reader.is_existing else list_names(reader, prefix, limit)

    def list_filter_values(self, parameter: str, kind: Kind, prefix: str, limit: int) -> list[str]:
        """List the first values of a parameter of the list of a kind that start with a prefix."""
        with self.open_reader() as reader:
            names = self._names_for(reader)
            return names.list_values(parameter, [kind], prefix, limit)

    def list_references(self, kind: Kind, prefix: str, limit: int) -> list[str]:
        """List the first reference IDs that start with a prefix."""
        with self.open_reader() as reader:
            return reader.list_references(kind, prefix, limit)

    def list_titles(self, kind: Kind, scope: Scope, *, after: str, limit: int) -> list[Title]:
        """List the entities that follow an ID."""
        with self.open_reader(scope) as reader:
            return reader.list_titles(kind, after=after, limit=limit)

    def _read_selected(  # noqa: PLR0917 - two callers, both above
        self, reader: Reader, shape: Shape[A], filters: Filters, parent: str | None, cursor: str | None, size: int
    ) -> Page[A]:
        """Read a page of the entities that match filters, in the order of the filters."""
        selection = self.select(reader, filters, [shape.kind])
        pages = SelectedPages(reader, shape, selection, parent=parent, thresholds=self.thresholds)
        tag = cursors.compute_tag(shape.kind.segment, parent, selection, reader.scope)
        mark = None if cursor is None else decode_mark(cursor, pages.sort_key, tag)
        found = pages.read(mark, size)
        return Page(found.rows, found.total, encode_mark(found.last, tag) if found.last else None)

    def _parse_id(self, kind: Kind, text: str) -> EntityId:
        """Parse an ID. If it is not valid, suggest the most similar entity that the caller may see.

        Raises:
            InvalidTemplateVariable: it is not valid for this kind.
        """
        try:
            return parameters.parse_id(kind, text)
        except InvalidTemplateVariable as refusal:
            if meant := parameters.guess_reference(text):
                with suppress(ResourceFailure):  # the refusal is the answer, with or without a suggestion
                    with self.open_reader() as reader:
                        reader.find_id(meant.kind, EntityId("reference_id", meant.reference))
                    refusal.suggested_actions = [meant.advice, parameters.advise_list(kind)]
            raise


def _make_page(found: Rows[A], tag: str) -> Page[A]:
    following = encode_position([found.last_id], [found.total], tag) if found.last_id else None
    return Page(found.rows, found.total, following)
