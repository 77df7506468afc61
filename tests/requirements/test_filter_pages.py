"""Each walk through a filtered and sorted list finds what plain Python finds in all rows, on each form of database."""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from quilt_mcp.core.errors import InvalidTemplateVariable
from quilt_mcp.requirements import answers, model
from quilt_mcp.requirements.answers import Entities
from quilt_mcp.requirements.parameters import SINCE, FilterTexts, list_parameters, list_sort_keys, parse_filters
from quilt_mcp.requirements.selecting import DEFAULT, Thresholds
from quilt_mcp.requirements.store import RequirementsStore
from tests.requirements import generated
from tests.requirements.generated import Form, Rows, Size
from tests.requirements.reading import place_of
from tests.requirements.test_transfer_exact import UNUSUAL
from tests.support.settings import Settings

SHAPES: tuple[Entities[Any], ...] = (
    answers.EPICS,
    answers.USER_STORIES,
    answers.REQUIREMENTS,
    answers.ACCEPTANCE_CRITERIA,
)
FORMS: tuple[Form, ...] = ("sqlite", "postgresql", "earlier")
SIZE = Size(users=7, members=200, entities=48)
LARGE = Size(users=20, members=400, entities=5_000)
TITLES = (*(text for text in UNUSUAL if len(text) < 100), "Zebra", "apple", "Ärger", "z" * 59 + "é" * 9, "z" * 70)
TIMES = ("2020-05-01 00:00:00.000000", "2020-05-01 00:00:00.000001", "2021-01-01 12:00:00.000000")


@dataclass
class World:
    """The same rows in each form of database.

    Attributes:
        rows: as each form has them.
        settings: that lead to the databases.
    """

    rows: dict[Form, Rows]
    settings: dict[Form, Settings]


def make_rows(seed: int, size: Size = SIZE) -> Rows:
    """Return rows of which many share their sort keys, and in which members see few projects."""
    numbers = random.Random(seed)  # noqa: S311 - not a secret
    rows = generated.generate(seed, size, TITLES, version=numbers.choice((4, 7)))
    rows["project_members"] = [one for one in rows["project_members"] if numbers.random() < 0.4]
    for kind in model.KINDS:
        for place, row in enumerate(rows[kind.table]):
            row["reference_id"] = f"{kind.prefix}-{place * 37 + 1:03d}"
            row["position"] = numbers.choice((place * 37 + 1.0, 5.5, 100.25))
            for name in ("created_at", "updated_at"):
                row[name] = numbers.choice((*TIMES, row[name]))
    return rows


def make_earlier(rows: Rows, seed: int) -> Rows:
    """Return the rows as the earlier system can have them, with times that are null and with other statuses."""
    numbers = random.Random(seed)  # noqa: S311 - not a secret
    found = generated.fit(rows, "earlier")
    for kind in model.KINDS:
        for row in found[kind.table]:
            for name in ("created_at", "updated_at"):
                row[name] = numbers.choice((row[name], row[name], None))
            if kind.statuses:
                row["status"] = numbers.choice((row["status"], "On Hold"))
    return found


def fill(settings: dict[Form, Settings], seed: int, size: Size = SIZE) -> World:
    rows = make_rows(seed, size)
    world = World({"sqlite": rows, "postgresql": rows, "earlier": make_earlier(rows, seed)}, settings)
    for form, of_form in settings.items():
        generated.write(form, place_of(of_form), world.rows[form])
    return world


@dataclass
class Query:
    """One question, and who asks it."""

    shape: Entities[Any]
    texts: FilterTexts
    user: dict[str, Any] | None
    limit: int
    parent: tuple[model.Kind, str] | None = None


class Oracle:
    """What plain Python finds in all rows."""

    def __init__(self, rows: Rows, query: Query) -> None:
        self._rows = rows
        self._query = query
        self._kind = query.shape.kind
        user = query.user
        self._projects: set[str] | None = None
        if user is not None and user["role"] != "Administrator" and "projects" in rows:
            self._projects = {one["project_id"] for one in rows["project_members"] if one["user_id"] == user["id"]}

    def refuses(self) -> bool:
        """Whether a value names what the caller may not know."""
        texts = self._query.texts
        for text in texts.get("assignee", "").split(",") if "assignee" in texts else ():
            if text == "me" and self._query.user is None:
                return True
            if text not in {"me", "none"} and not self._knows_user(text):
                return True
        if "project" in texts:
            named = {self._find("projects", text, "name") for text in texts["project"].split(",")}
            return "projects" not in self._rows or (self._projects is not None and not named <= self._projects)
        return False

    def ids(self) -> list[str]:
        """The IDs that the walk must find, in their order."""
        texts = self._query.texts
        rows = [row for row in self._rows[self._kind.table] if self._is_visible(row) and self._matches(row)]
        since = [f"{name}_at" for name in ("updated", "created") if f"{name}_since" in texts]
        order = texts.get("sort") or next(iter(since), "")
        key, is_descending = order.removeprefix("-"), order.startswith("-")
        last = [row for row in rows if key and row[key] is None]
        rows = [row for row in rows if not key or row[key] is not None]
        for some in (rows, last):
            some.sort(key=lambda row: row["id"], reverse=is_descending)
            if key in {"", "priority"}:
                some.sort(key=self._place, reverse=is_descending)
        rows.sort(key=lambda row: self._sort_value(row, key), reverse=is_descending)
        return [row["id"] for row in [*rows, *last]]

    @staticmethod
    def _place(row: dict[str, Any]) -> float:
        """The position, which the earlier system does not have."""
        return float(row.get("position", row["reference_id"].rpartition("-")[2]))

    def _sort_value(self, row: dict[str, Any], key: str) -> Any:
        if key == "reference_id":
            return len(row[key]), row[key]
        return row[key][:60].encode() if key == "title" else row[key] if key else 0

    def _is_visible(self, row: dict[str, Any]) -> bool:
        return self._projects is None or row["project_id"] in self._projects

    def _matches(self, row: dict[str, Any]) -> bool:
        if self._query.parent and row[str(self._kind.parent_column)] != self._query.parent[1]:
            return False
        texts: dict[str, Any] = dict(self._query.texts)
        numbers = {"critical": 1, "high": 2, "medium": 3, "low": 4}
        user = self._query.user
        wanted: dict[str, Callable[[str], bool]] = {
            "status": lambda text: row["status"] == text,
            "priority": lambda text: row["priority"] == (numbers.get(text) or int(text)),
            "assignee": lambda text: (
                row["assignee_id"] == (user["id"] if text == "me" and user else self._find("users", text, "username"))
            ),
            "type": lambda text: row["type_id"] == self._find("requirement_types", text, "name"),
            "project": lambda text: row["project_id"] == self._find("projects", text, "name"),
            "updated_since": lambda text: row["updated_at"] is not None and row["updated_at"] >= write_since(text),
            "created_since": lambda text: row["created_at"] is not None and row["created_at"] >= write_since(text),
        }
        return all(
            any(wanted[name](text) for text in value.split(",")) for name, value in texts.items() if name in wanted
        )

    def _find(self, table: str, text: str, name: str) -> str | None:
        for column in ("id", name):
            for row in self._rows.get(table, []):
                if row[column] == text:
                    return str(row["id"])
        return None

    def _knows_user(self, text: str) -> bool:
        user = self._find("users", text, "username")
        if self._projects is None or (self._query.user and user == self._query.user["id"]):
            return user is not None
        members = {one["user_id"] for one in self._rows["project_members"] if one["project_id"] in self._projects}
        assigned = {
            row["assignee_id"]
            for kind in model.KINDS
            if kind.statuses
            for row in self._rows[kind.table]
            if self._is_visible(row)
        }
        return user in members | assigned


MOMENTS = ["2020-05-01", "2020-05-01T00:00:00.000001Z", "2021-01-01T12:00", "1999-12-31", "2030-01-01"]


def write_since(text: str) -> str:
    """Return a time as the generated rows have it."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC).strftime("%Y-%m-%d %H:%M:%S.%f")


def can_be_written(name: str) -> bool:
    return "," not in name and name.strip() == name and name not in {"me", "none"}


def draw_query(data: st.DataObject, rows: Rows, form: Form) -> Query:
    def some(values: list[str]) -> str:
        return ",".join(data.draw(st.lists(st.sampled_from(values), min_size=1, max_size=3, unique=True)))

    def named(table: str, name: str) -> list[str]:
        ids = {row["id"] for row in rows[table]}
        return [*ids, *(row[name] for row in rows[table] if can_be_written(row[name]) and row[name] not in ids)]

    shape = data.draw(st.sampled_from(SHAPES))
    kind = shape.kind
    values: dict[str, Callable[[], str]] = {
        "status": lambda: some([*kind.statuses, *(["On Hold"] if form == "earlier" else [])]),
        "priority": lambda: some(["1", "2", "3", "4"]) if data.draw(st.booleans()) else some(["critical", "low"]),
        "assignee": lambda: some([*named("users", "username"), "me", "none"]),
        "type": lambda: some(named("requirement_types", "name")),
        "project": lambda: some(named("projects", "name")),
        **dict.fromkeys(SINCE, lambda: data.draw(st.sampled_from(MOMENTS))),
        "sort": lambda: data.draw(st.sampled_from(["", "-"])) + data.draw(st.sampled_from(list_sort_keys([kind]))),
    }
    parent = None
    if kind.parent and data.draw(st.booleans()):
        of_kind = model.BY_NAME[kind.parent]
        parent = of_kind, data.draw(st.sampled_from(rows[of_kind.table]))["id"]
    names = [
        name for name in list_parameters(kind, has_parent=parent is not None) if name != "project" or form != "earlier"
    ]
    chosen = data.draw(st.lists(st.sampled_from(names), max_size=4, unique=True))
    texts: Any = {name: values[name]() for name in names if name in chosen}
    user = data.draw(st.sampled_from([None, *rows["users"]])) if parent is None else None
    return Query(shape, texts, user, data.draw(st.sampled_from([1, 2, 5, 50])), parent)


def walk(settings: Settings, query: Query, thresholds: Thresholds = DEFAULT) -> tuple[list[str], set[int]]:
    """Return the IDs of all pages, and the totals that the pages state."""
    user = query.user and query.user["username"]
    store = RequirementsStore(settings.model_copy(update={"requirements_user": user}), thresholds)
    filters = parse_filters(query.texts, [query.shape.kind])
    ids: list[str] = []
    totals: set[int] = set()
    cursor: str | None = None
    try:
        while True:
            page = store.read_page(query.shape, cursor, str(query.limit), filters, query.parent)
            assert len(page.rows) == query.limit or page.next_cursor is None
            assert page.rows or cursor is None  # no last page is empty
            ids += [row["id"] for row in page.rows]
            totals.add(page.total)
            cursor = page.next_cursor
            if cursor is None:
                return ids, totals
            assert len(cursor) <= 512
    finally:
        store.close()


BOTH_WAYS = pytest.mark.parametrize(
    "thresholds", [DEFAULT, Thresholds(few_rows=0, most_values=1)], ids=["few rows", "many rows"]
)
"""SQLite finds all rows and sorts them, and reads each value on its own; or it reads an index in order."""


@pytest.mark.soak
@BOTH_WAYS
@hypothesis_settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10**6), data=st.data())
def test_each_walk_finds_the_rows_that_match_in_their_order(
    each_form: dict[Form, Settings], thresholds: Thresholds, seed: int, data: st.DataObject
) -> None:
    world = fill(each_form, seed)
    for _ in range(8):
        for form in FORMS:
            check(world, form, draw_query(data, world.rows[form], form), thresholds)


@hypothesis_settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10**6), data=st.data())
def test_each_walk_through_a_file_finds_the_rows_that_match_in_their_order(
    make_settings: Callable[..., Settings], seed: int, data: st.DataObject
) -> None:
    world = fill({"sqlite": make_settings("sqlite", "tables")}, seed)
    for _ in range(12):
        check(world, "sqlite", draw_query(data, world.rows["sqlite"], "sqlite"))


def check(world: World, form: Form, query: Query, thresholds: Thresholds = DEFAULT) -> None:
    """Walk through a list, and compare it with what plain Python finds."""
    oracle = Oracle(world.rows[form], query)
    if oracle.refuses():
        with pytest.raises(InvalidTemplateVariable):
            walk(world.settings[form], query, thresholds)
        return
    expected = oracle.ids()
    ids, totals = walk(world.settings[form], query, thresholds)
    assert ids == expected, (form, query)
    assert totals == {len(expected)}


@pytest.mark.soak
@hypothesis_settings(max_examples=1, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 10**6), data=st.data())
def test_each_list_of_20000_rows_is_complete_and_in_its_order(
    each_form: dict[Form, Settings], seed: int, data: st.DataObject
) -> None:
    world = fill(each_form, seed, LARGE)
    for form in FORMS:
        rows = world.rows[form]
        for shape in SHAPES:
            for user in (None, *rows["users"][:3]):
                check(world, form, Query(shape, {}, user, 200))
            if shape.kind.parent:
                [parent] = [kind for kind in model.KINDS if kind.name == shape.kind.parent]
                for row in rows[parent.table][:20]:
                    check(world, form, Query(shape, {}, None, 2, (parent, row["id"])))
        for _ in range(30):
            check(world, form, replace(draw_query(data, rows, form), limit=200))
