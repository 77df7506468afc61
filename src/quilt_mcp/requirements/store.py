"""The requirements database, as resources, `resources/list` and completion read it for the current caller."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TypeVar

from quilt_mcp.app import identity
from quilt_mcp.core.cursors import DEFAULT_LIMIT, MAX_LIMIT, Page, parse_limit
from quilt_mcp.core.errors import InvalidTemplateVariable, ResourceFailure
from quilt_mcp.requirements import model, parameters
from quilt_mcp.requirements.answers import (
    EPICS,
    REQUIREMENTS,
    Entities,
    EpicHierarchy,
    Member,
    Project,
    RequirementRelationships,
    RequirementType,
    SearchPage,
    Trace,
)
from quilt_mcp.requirements.conditions import Scope, Selection, load_scope
from quilt_mcp.requirements.database import Database, open_database
from quilt_mcp.requirements.model import Kind
from quilt_mcp.requirements.overview_answers import Change, Coverage, RelatedPair, RelationshipCount, Summary
from quilt_mcp.requirements.overviews import FIRST, find_filter, read_changes, read_coverage
from quilt_mcp.requirements.parameters import EntityId, Filters, parse_category, parse_depth
from quilt_mcp.requirements.reads import MAX_LIMIT as MAX_RELATIONSHIPS
from quilt_mcp.requirements.reads import (
    Reader,
    Title,
    may_read_users,
    read_hierarchy,
    read_members,
    read_projects,
    read_relationships,
    read_types,
)
from quilt_mcp.requirements.relationships import find_types, read_all_relationships
from quilt_mcp.requirements.search import read_search_page
from quilt_mcp.requirements.search_text import parse_query
from quilt_mcp.requirements.selecting import DEFAULT, FilterNames, SelectedPages, Thresholds
from quilt_mcp.requirements.settings import RequirementsSettings
from quilt_mcp.requirements.summary import read_summary
from quilt_mcp.requirements.trace import read_trace

A = TypeVar("A")
_NO_USER = ""
"""The name of a caller whose token has none. No user has it, because names are not blank."""


class RequirementsStore:
    """One database."""

    def __init__(self, settings: RequirementsSettings, thresholds: Thresholds = DEFAULT) -> None:
        self.settings, self.thresholds = settings, thresholds
        self.database: Database = open_database(settings)

    def close(self) -> None:
        self.database.close()

    @contextmanager
    def open_reader(self, scope: Scope | None = None) -> Iterator[Reader]:
        """Open a reader for the current caller, with a scope or with what the caller may see now."""
        with self.database.reading() as connection:
            caller, is_existing = identity.current(), self.database.is_existing
            if scope is None:
                scope = load_scope(connection, caller.key, self._username(caller), has_projects=not is_existing)
            yield Reader(connection, scope, has_users=may_read_users(connection), is_existing=is_existing)

    def _username(self, caller: identity.Identity) -> str | None:
        """Return the caller's name in the database; None for an administrator, which a local caller is by default."""
        if caller.is_local:
            return self.settings.requirements_user
        wanted = self.settings.requirements_user_claim
        claim = caller.claims.get(wanted, caller.subject if wanted == "sub" else None)
        # the texts of null, of a truth value and of a list are no names: many tokens could share them
        is_name = isinstance(claim, str | int) and not isinstance(claim, bool) and identity.NAME.fullmatch(str(claim))
        return str(claim) if is_name else _NO_USER

    def select(self, reader: Reader, filters: Filters, kinds: Sequence[Kind]) -> Selection:
        """Find what the values of filters name, for a list of entities of these kinds."""
        return self._names_for(reader).resolve(filters, kinds)

    def _names_for(self, reader: Reader) -> FilterNames:
        return FilterNames(reader, self._username(identity.current()))

    def find_scope(self) -> Scope:
        with self.open_reader() as reader:
            return reader.scope

    def read_entity(self, collection: Entities[A], text: str) -> A:
        entity_id = self._parse_id(collection.kind, text)
        with self.open_reader() as reader:
            return reader.read_entity(collection, entity_id)

    def read_page(
        self,
        collection: Entities[A],
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
            selection = self.select(reader, filters or Filters(), [collection.kind])
            pages = SelectedPages(reader, collection, selection, parent=parent_id, thresholds=self.thresholds)
            return pages.read(cursor, size)

    def read_types(self, cursor: str | None, limit: str | None) -> Page[RequirementType]:
        size = parse_limit(limit)
        with self.open_reader() as reader:
            return read_types(reader, cursor, size)

    def read_hierarchy(
        self, text: str, cursor: str | None, limit: str | None, *, is_brief: bool = False
    ) -> EpicHierarchy:
        entity_id, size = self._parse_id(model.EPIC, text), parse_limit(limit, default=MAX_LIMIT)
        with self.open_reader() as reader:
            epic = reader.read_entity(EPICS, entity_id)
            return read_hierarchy(reader, epic, cursor, size, is_brief=is_brief)

    def read_relationships(self, text: str, cursor: str | None, limit: str | None) -> RequirementRelationships:
        entity_id = self._parse_id(model.REQUIREMENT, text)
        size = parse_limit(limit, default=MAX_RELATIONSHIPS, largest=MAX_RELATIONSHIPS)
        with self.open_reader() as reader:
            return read_relationships(reader, reader.read_entity(REQUIREMENTS, entity_id), cursor, size)

    def search(
        self, query: str, cursor: str | None, limit: str | None, filters: Filters, *, is_brief: bool = False
    ) -> SearchPage:
        parsed = parse_query(query)
        with self.open_reader() as reader:
            return read_search_page(
                reader,
                query=query,
                parsed=parsed,
                cursor=cursor,
                limit=limit,
                cap=self.settings.search_candidates,
                is_brief=is_brief,
                selection=self.select(reader, filters, model.KINDS),
                most_projects=self.thresholds.most_projects,
            )

    def read_trace(self, kind: Kind, text: str, depth: str | None, cursor: str | None, limit: str | None) -> Trace:
        entity_id, steps, size = self._parse_id(kind, text), parse_depth(depth), parse_limit(limit)
        with self.open_reader() as reader:
            return read_trace(reader, kind, reader.find_id(kind, entity_id), depth=steps, cursor=cursor, limit=size)

    def read_coverage(
        self, epic: str | None, project: str | None, category: str | None, cursor: str | None, limit: str | None
    ) -> Coverage:
        categories = parse_category(category, cursor, has_epic=epic is not None)
        size = parse_limit(limit, default=DEFAULT_LIMIT if category else FIRST)
        epic_id = None if epic is None else self._parse_id(model.EPIC, epic)
        with self.open_reader() as reader:
            limited = find_filter(reader, epic_id, project)
            is_page = category is not None
            return read_coverage(
                reader, categories=categories, limited=limited, limit=size, cursor=cursor, is_page=is_page
            )

    def read_changes(
        self, filters: Filters, wanted: Sequence[Kind], cursor: str | None, limit: str | None
    ) -> Page[Change]:
        size = parse_limit(limit)
        with self.open_reader() as reader:
            return read_changes(reader, self.select(reader, filters, wanted), wanted, cursor, size)

    def read_summary(self, group: str | None, project: str | None, epic: str | None) -> Summary:
        groups = parameters.parse_groups(group)
        epic_id = None if epic is None else self._parse_id(model.EPIC, epic)
        with self.open_reader() as reader:
            return read_summary(reader, find_filter(reader, epic_id, project), groups)

    def read_all_relationships(
        self, types: str | None, project: str | None, epic: str | None, cursor: str | None, limit: str | None
    ) -> tuple[Page[RelatedPair], list[RelationshipCount] | None]:
        names, size = parameters.parse_types(types), parse_limit(limit)
        epic_id = None if epic is None else self._parse_id(model.EPIC, epic)
        with self.open_reader() as reader:
            limited = find_filter(reader, epic_id, project)
            return read_all_relationships(reader, find_types(reader, names), limited, cursor, size)

    def list_relationship_types(self) -> list[str]:
        with self.open_reader() as reader:
            return [*find_types(reader, ()).values()]

    def read_projects(self, cursor: str | None, limit: str | None) -> Page[Project]:
        size = parse_limit(limit)
        with self.open_reader() as reader:
            return read_projects(reader, cursor, size)

    def read_members(self, project: str, cursor: str | None, limit: str | None) -> Page[Member]:
        size = parse_limit(limit)
        with self.open_reader() as reader:
            return read_members(reader, project, cursor, size)

    def list_filter_values(self, parameter: str, kind: Kind, prefix: str, limit: int) -> list[str]:
        with self.open_reader() as reader:
            return self._names_for(reader).list_values(parameter, [kind], prefix, limit)

    def list_references(self, kind: Kind, prefix: str, limit: int) -> list[str]:
        with self.open_reader() as reader:
            return reader.list_references(kind, prefix, limit)

    def list_titles(
        self, kind: Kind, scope: Scope, *, after: tuple[float, str] | None, limit: int, newest: int | None = None
    ) -> list[Title]:
        with self.open_reader(scope) as reader:
            return reader.list_titles(kind, after=after, limit=limit, newest=newest)

    def _parse_id(self, kind: Kind, text: str) -> EntityId:
        """Parse an ID. If it is not valid, suggest the most similar entity that the caller may see."""
        try:
            return parameters.parse_id(kind, text)
        except InvalidTemplateVariable as refusal:
            if meant := parameters.guess_reference(text):
                with suppress(ResourceFailure):  # the refusal is the answer, with or without a suggestion
                    with self.open_reader() as reader:
                        reader.find_id(meant.kind, EntityId("reference_id", meant.reference))
                    refusal.suggested_actions = [meant.advice, parameters.advise_list(kind)]
            raise
