"""Each walk through a filtered search finds what plain Python finds in all rows, on each form of database."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Connection, select, update

from quilt_mcp.core.errors import InvalidTemplateVariable
from quilt_mcp.requirements import model, tables
from quilt_mcp.requirements.conditions import Scope, Selection
from quilt_mcp.requirements.database import Database
from quilt_mcp.requirements.parameters import SEARCH_FILTERS, FilterTexts, list_parameters, parse_filters
from quilt_mcp.requirements.selecting import DEFAULT, Thresholds
from quilt_mcp.requirements.store import RequirementsStore
from quilt_mcp.requirements.writing import make_facets
from tests.contract.surfaces import AnyClient
from tests.requirements import generated
from tests.requirements.changing import reindex
from tests.requirements.client import connect, read, read_all, read_failure
from tests.requirements.conftest import opened
from tests.requirements.generated import Form
from tests.requirements.reading import place_of
from tests.requirements.searching import search, search_connection, write_epics
from tests.requirements.test_filter_pages import FORMS, SHAPES, Oracle, Query, World, make_earlier, make_rows
from tests.support.settings import Settings

TEXTS = ("login page", "login token", "the login shall page", "token", "export of data", "page login")
QUERIES: dict[str, Callable[[str, str], bool]] = {
    "login": lambda title, body: "login" in (title + " " + body).split(),
    "log*": lambda title, body: "login" in (title + " " + body).split(),
    '"login page"': lambda title, body: "login page" in title or "login page" in body,
    "login -token": lambda title, body: "login" in (title + body) and "token" not in (title + body),
    "token OR export": lambda title, body: "token" in (title + body) or "export" in (title + body),
}


def fill(settings: dict[Form, Settings], seed: int) -> World:
    """Write rows with simple texts, and index them."""
    numbers = random.Random(seed)  # noqa: S311 - not a secret
    rows = make_rows(seed)
    for kind in model.KINDS:
        for row in rows[kind.table]:
            row["description"] = numbers.choice(TEXTS)
            if kind.statuses:
                row["title"] = numbers.choice(TEXTS)
    world = World({"sqlite": rows, "postgresql": rows, "earlier": make_earlier(rows, seed)}, settings)
    for form, of_form in settings.items():
        generated.write(form, place_of(of_form), world.rows[form])
        if form != "earlier":
            with opened(of_form) as database, database.writing() as connection:
                reindex(connection)
    return world


def find_expected(world: World, form: Form, question: "Question") -> set[str]:
    """Return the IDs of what plain Python finds."""
    found: set[str] = set()
    for shape in SHAPES:
        if set(question.texts) <= {*list_parameters(shape.kind)}:
            ids = set(Oracle(world.rows[form], Query(shape, question.texts, question.user, 50)).ids())
            matches = QUERIES[question.query]
            for row in world.rows[form][shape.kind.table]:
                if row["id"] in ids and matches(row.get("title") or "", row["description"]):
                    found.add(row["id"])
    return found


class Question:
    """A search with filters, and who asks it."""

    def __init__(self, numbers: random.Random, world: World, form: Form) -> None:
        rows = world.rows[form]

        def some(values: list[str]) -> str:
            return ",".join(numbers.sample(values, min(len(values), numbers.randint(1, 3))))

        values: dict[str, Callable[[], str]] = {
            "status": lambda: some(["Backlog", "Draft", "In Progress", "Active", "Obsolete"]),
            "priority": lambda: some(["1", "2", "3", "4"]),
            "assignee": lambda: some([*[row["id"] for row in rows["users"]], "none", "me"]),
            "type": lambda: some([row["id"] for row in rows["requirement_types"]]),
            "project": lambda: some([row["id"] for row in rows.get("projects", [])]),
            "updated_since": lambda: numbers.choice(["2020-05-01", "2021-01-01T12:00", "2030-01-01"]),
        }
        names = [name for name in SEARCH_FILTERS if name != "project" or form != "earlier"]
        chosen = numbers.sample(names, numbers.randint(0, 3))
        # mypy takes the keys for any text
        self.texts: FilterTexts = {name: values[name]() for name in names if name in chosen}  # type: ignore[assignment]  # the names are drawn
        self.user = numbers.choice([None, *rows["users"]])
        self.query = numbers.choice(sorted(QUERIES))
        self.limit = numbers.choice([3, 10, 100])

    def __repr__(self) -> str:
        return f"{self.query} {self.texts} as {self.user and self.user['username']}"


def walk(settings: Settings, question: Question, thresholds: Thresholds) -> list[str]:
    """Return the IDs of all pages. Check that each page states the total."""
    user = question.user and question.user["username"]
    store = RequirementsStore(settings.model_copy(update={"requirements_user": user}), thresholds)
    ids: list[str] = []
    counts: set[int] = set()
    cursor: str | None = None
    try:
        while True:
            page = store.search(question.query, cursor, str(question.limit), parse_filters(question.texts))
            ids += [str(dict(one)["id"]) for one in page["results"]]
            counts.add(page["count"])
            cursor = page["next_cursor"]
            if cursor is None:
                assert counts == {len(ids)}
                return ids
    finally:
        store.close()


@pytest.mark.soak
@pytest.mark.parametrize("most_projects", [DEFAULT.most_projects, 0], ids=["project in the index", "project compared"])
@pytest.mark.parametrize("seed", range(3))
def test_each_walk_finds_what_matches_the_query_and_the_filters(
    each_form: dict[Form, Settings], most_projects: int, seed: int
) -> None:
    thresholds = Thresholds(most_projects=most_projects)
    numbers = random.Random(seed)  # noqa: S311 - not a secret
    world = fill(each_form, seed)
    found = 0
    for _ in range(15):
        for form in FORMS:
            question = Question(numbers, world, form)
            if Oracle(world.rows[form], Query(SHAPES[2], question.texts, question.user, 1)).refuses():
                with pytest.raises(InvalidTemplateVariable):
                    walk(world.settings[form], question, thresholds)
                continue
            ids = walk(world.settings[form], question, thresholds)
            assert len(set(ids)) == len(ids)
            assert set(ids) == find_expected(world, form, question), (form, question)
            found += len(ids)
    assert found > 100  # else the filters are too narrow to show anything


def read_facets(connection: Connection) -> dict[str, list[str]]:
    """Return the facets of all entries by the ID of their entity, as the database has them."""
    if connection.dialect.name == "sqlite":
        rows = connection.exec_driver_sql(
            "SELECT entity_id, facets FROM search_entries JOIN search_words ON search_words.rowid = id"
        )
        return {one.entity_id: one.facets.replace("…", "").split() for one in rows}
    rows = connection.exec_driver_sql("SELECT replace(entity_id::text, '-', '') AS id, facets FROM search_entries")
    return {one.id: one.facets for one in rows}


def make_all_facets(connection: Connection) -> dict[str, list[str]]:
    """Return the facets of all entities, as the code makes them."""
    found: dict[str, list[str]] = {}
    for table in tables.BY_KIND.values():
        found |= {row.id.replace("-", ""): make_facets(row._asdict()) for row in connection.execute(select(table))}
    return found


def test_triggers_keep_the_facets_of_changed_entities(database: Database) -> None:
    with database.writing() as connection:
        before = read_facets(connection)
        assert before == make_all_facets(connection)
        assert any("sinprogress" in one for one in before.values())
        epic = connection.execute(select(tables.epics).where(tables.epics.c.status != "Done")).first()
        assert epic is not None
        project = connection.scalar(select(tables.projects.c.id).where(tables.projects.c.id != epic.project_id))
        user = connection.scalar(select(tables.users.c.id).where(tables.users.c.id != epic.assignee_id))
        changes = {"status": "Done", "priority": 5 - epic.priority, "assignee_id": user, "project_id": project}
        connection.execute(update(tables.epics).where(tables.epics.c.id == epic.id).values(changes))
        type_id = connection.scalar(
            select(tables.requirement_types.c.id).order_by(tables.requirement_types.c.name.desc())
        )
        connection.execute(update(tables.requirements).values(type_id=type_id, status="Obsolete"))
        after = read_facets(connection)
        assert after == make_all_facets(connection)
        assert after != before
        moved = Scope("test", (str(project),))
        selection = Selection(status=("Done",), priority=(5 - epic.priority,), assignee_ids=(str(user),))
        found = search_connection(connection, epic.reference_id, scope=moved, selection=selection)
        assert [hit.reference_id for hit in found.hits if hit.tier == 0] == [epic.reference_id]
        connection.rollback()


def test_a_changed_time_is_found(empty_database: Database) -> None:
    [epic] = write_epics(empty_database, [("word", "")])
    since = parse_filters({"updated_since": "2999-01-01"}).updated_since
    assert since
    selection = Selection(updated_since=since)
    assert search(empty_database, "word", selection=selection).total == 0
    with empty_database.writing() as connection:
        connection.execute(update(tables.epics).where(tables.epics.c.id == epic["id"]).values(updated_at=since))
    assert search(empty_database, "word", selection=selection).total == 1


def test_no_query_matches_a_facet(database: Database) -> None:
    with database.reading() as connection:
        known = {one for several in read_facets(connection).values() for one in several}
    for facet in [*sorted(known)[:5], "sdraft", "r1"]:
        for query in (facet, f"…{facet}", f"{facet}*", f"facets:{facet}"):
            assert search(database, query).total == 0


FILTERED = (
    "status=Draft",
    "priority=critical,high",
    "assignee=emma_johansson,amara_osei",
    "assignee=none,emma_johansson",
    "type=Functional",
    "type=Functional,Data",
    "project=Sequencing Platform",
    "updated_since=2024-09-20",
)


async def find_all(client: AnyClient, query: str) -> dict[str, Any]:
    """Return the first page of a search, with the results of all pages."""
    pages = await read_all(client, f"search/sample?{query}limit=100")
    return pages[0] | {"results": [row for page in pages for row in page["results"]]}


async def test_filters_of_the_search_on_both_surfaces(settings_with_sample: Settings) -> None:
    async with connect(settings_with_sample) as client:
        everything = await find_all(client, "")
        active = await find_all(client, "status=Active&")
        both = await find_all(client, "status=Active,In%20Progress&priority=critical,high&")
        assert 0 < both["count"] < everything["count"]
        for query in FILTERED:
            segments = [kind.segment for kind in model.KINDS if query.partition("=")[0] in list_parameters(kind)]
            listed = {
                row["id"]
                for kind in model.KINDS
                if kind.segment in segments
                for page in await read_all(client, f"{kind.segment}?{query}&limit=200")
                for row in page[kind.table]
            }
            rows = (await find_all(client, f"{query}&"))["results"]
            found = {row["id"] for row in rows if row["match"] != "stems"}  # which follow if there are few
            assert found == listed & {row["id"] for row in everything["results"]}, query
            assert found, query
        assert {one["status"] for one in active["results"]} == {"Active"}
        assert active["count"] == sum(one["status"] == "Active" for one in everything["results"])
        assert {one["status"] for one in both["results"]} == {"Active", "In Progress"}
        assert {one["priority"] for one in both["results"]} == {1, 2}
        page = await read(client, "search/sample?status=Active&limit=2")
        cursor = page["next_cursor"]
        following = await read(client, f"search/sample?status=Active&limit=2&cursor={cursor}")
        assert [*page["results"], *following["results"]] == active["results"][:4]
        unknown = await read_failure(client, "search/sample?status=Activ")
        assert "Did you mean Active?" in unknown.body["suggested_actions"]
