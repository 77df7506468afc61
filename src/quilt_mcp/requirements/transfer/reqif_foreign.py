"""Makes records of the objects of other ReqIF tools.

A specification becomes an epic, and a heading a user story. All other objects become requirements of the next heading
above, or of a user story for the whole specification. A requirement inside another one is related to it. What has no
place in a record is in the description, by name.
"""

import re
from collections import Counter
from collections.abc import Callable
from typing import Protocol

from quilt_mcp.requirements import kinds
from quilt_mcp.requirements.transfer.reqif_schema import CHAPTERS, REFERENCES, TEXTS, TITLES, choose, name_values
from quilt_mcp.requirements.transfer.reqif_structure import Structure
from quilt_mcp.requirements.transfer.wording import shorten
from quilt_mcp.requirements.transfer.xml_elements import Element

_REQUIREMENT_REFERENCE = re.compile("REQ-(00[1-9]|0[1-9][0-9]|[1-9][0-9]{2,8})")
_CHILD_OF = "child_of"
_UNPLACED = "Objects without a specification"
_SEPARATOR = " / "
# the types that every database starts with; a record of one would replace its description
_KNOWN_RELATIONS = {*kinds.ORDERING_RELATIONSHIPS, "relates_to", "conflicts_with"}
_KNOWN_TYPES = {"Functional", "Non-Functional", "Business Rule", "Interface", "Data"}


class MakeId(Protocol):
    """Makes the ID of an object from its identifier."""

    def __call__(self, identifier: str, kind: str = "") -> str:
        """Return the ID."""


class ForeignObjects:
    """Makes records.

    Args:
        structure: of the file.
        skipped: takes how often each part that is not imported occurs, by name.
        make_id: makes IDs.
        add: takes the line and the fields of each record.
    """

    def __init__(
        self,
        structure: Structure,
        skipped: Counter[str],
        make_id: MakeId,
        add: Callable[[int, dict[str, object]], None],
    ) -> None:
        self._structure = structure
        self._skipped = skipped
        self._make_id = make_id
        self._add = add
        self._named: set[tuple[str, str]] = set()
        self._epics: set[str] = set()
        self._stories: set[str] = set()
        self._relations: set[tuple[str, str, str]] = set()

    def add_object(self, element: Element) -> None:
        """Add a user story for a heading, or a requirement."""
        identifier = element.attributes["IDENTIFIER"]
        if identifier in self._structure.headings:
            self._add_story(element, identifier)
        else:
            self._add_requirement(element, identifier)

    def add_relation(self, element: Element, type_id: str, source: str, target: str) -> None:
        """Add a relationship between two requirements. Skip relations of others."""
        name = self.name_relation(type_id, element.line)
        for end in (source, target):
            if end in self._structure.headings or self._structure.is_own(end):
                self._skipped[f"relation {name} of a heading or an object that is not a requirement"] += 1
                return
        for reference, _ in self._structure.read_values(element, self._skipped):
            self._skipped[f"attribute {shorten(self._name_attribute(type_id, reference))} of relations"] += 1
        identifier = element.attributes.get("IDENTIFIER") or f"{source} {name} {target}"
        self._relate(identifier, name, source, target, element.line)

    def name_relation(self, type_id: str, line: int) -> str:
        """Return the name of a type of relations, for which a record is added once."""
        kind = self._structure.kinds.get(type_id)
        name = (kind.name if kind else type_id).strip()[:100] or "relation"
        self._add_name("relationship_type", name, kind.description if kind else "", line)
        return name

    def finish(self) -> None:
        """Add specifications without objects."""
        for identifier, line in self._structure.lines.items():
            if not self._structure.is_ours(identifier):
                self._find_epic(identifier, line)

    def _add_story(self, element: Element, identifier: str) -> None:
        path, place = [self._structure.headings[identifier]], self._structure.parents.get(identifier)
        while place in self._structure.objects:
            if place in self._structure.headings:
                path.append(self._structure.headings[place])
            place = self._structure.parents.get(place)
        title = _SEPARATOR.join(reversed(path))
        if len(title) > kinds.TITLE_LENGTH:
            title = f"…{title[1 - kinds.TITLE_LENGTH :]}"
        fields: dict[str, object] = {"kind": "user_story", "id": self._make_id(identifier), "title": title}
        values = self._read_values(element)
        heading = choose((*CHAPTERS, *TITLES), name_values(values))
        rest = _list_rest(element, values, {heading or "LONG-NAME", "DESC"})
        fields["description"] = _join(_find_text(element, "DESC"), rest)
        fields["epic_id"] = self._find_epic(place, element.line)
        self._add(element.line, fields)

    def _add_requirement(self, element: Element, identifier: str) -> None:
        kind, values = self._structure.kind_of(element), self._read_values(element)
        named = name_values(values)
        heading, body, reference = (choose(names, named) for names in ((*CHAPTERS, *TITLES), TEXTS, REFERENCES))
        used = {heading or "LONG-NAME", body or "DESC"}
        text = named.get(body) or _find_text(element, "DESC")
        title, text = _split_title(named.get(heading) or _find_text(element, "LONG-NAME") or text or identifier, text)
        fields: dict[str, object] = {"kind": "requirement", "id": self._make_id(identifier), "title": title}
        if _REQUIREMENT_REFERENCE.fullmatch(named.get(reference, "")):
            fields["reference_id"] = named[reference]
            used.add(reference)
        fields["description"] = _join(text, _list_rest(element, values, used))
        fields["type_id"] = kind.name.strip()[:100] or "Functional"
        self._add_name("requirement_type", str(fields["type_id"]), kind.description, element.line)
        fields["user_story_id"] = self._find_story(identifier, element.line)
        self._add(element.line, fields)

    def _read_values(self, element: Element) -> list[tuple[str, str]]:
        """Return the names of the attributes of an object, with their values."""
        names = self._structure.kind_of(element).attributes
        values = self._structure.read_values(element, self._skipped)
        return [(names.get(reference, reference), value.strip()) for reference, value in values]

    def _find_story(self, identifier: str, line: int) -> str:
        """Return the ID of the user story of a requirement. Relate the requirement to one that contains it."""
        place, is_first = self._structure.parents.get(identifier), True
        while place in self._structure.objects:
            if place in self._structure.headings:
                return self._make_id(place)
            if is_first and not self._structure.is_own(place):
                self._relate(f"{identifier} {_CHILD_OF}", _CHILD_OF, identifier, place, line)
            is_first = False
            place = self._structure.parents.get(place)
        epic = self._find_epic(place, line)
        story = self._make_id(f"{place} story")
        if story not in self._stories:
            self._stories.add(story)
            title = self._structure.names.get(place or "", _UNPLACED)
            self._add(line, {"kind": "user_story", "id": story, "epic_id": epic, "title": _cut(title)})
        return story

    def _find_epic(self, specification: str | None, line: int) -> str:
        epic = self._make_id(specification) if specification else self._make_id("no specification")
        if epic not in self._epics:
            self._epics.add(epic)
            title = self._structure.names.get(specification or "", _UNPLACED)
            where = self._structure.lines.get(specification or "", line)
            self._add(where, {"kind": "epic", "id": epic, "title": _cut(title)})
        return epic

    def _relate(self, identifier: str, name: str, source: str, target: str, line: int) -> None:
        if name == _CHILD_OF:
            self._add_name("relationship_type", name, "The source is inside the target in a specification.", line)
        if source == target or (source, target, name) in self._relations:
            self._skipped[f"relation {name} that is repeated or leads to its own source"] += 1
            return
        self._relations.add((source, target, name))
        fields: dict[str, object] = {"kind": "relationship", "id": self._make_id(identifier)}
        fields["source_requirement_id"] = self._make_id(source)
        fields["target_requirement_id"] = self._make_id(target)
        fields["relationship_type_id"] = name
        self._add(line, fields)

    def _add_name(self, kind: str, name: str, description: str, line: int) -> None:
        if (kind, name) not in self._named and name not in _KNOWN_RELATIONS | _KNOWN_TYPES:
            self._named.add((kind, name))
            self._add(line, {"kind": kind, "name": name, "description": description or None})

    def _name_attribute(self, type_id: str, reference: str) -> str:
        kind = self._structure.kinds.get(type_id)
        return kind.attributes.get(reference, reference) if kind else reference


def _find_text(element: Element, name: str) -> str:
    return element.attributes.get(name, "").strip()


def _list_rest(element: Element, values: list[tuple[str, str]], used: set[str]) -> str:
    """Return a line for each value that is not used. Names of attributes in `used` are in lower case."""
    named = name_values(values)
    rest = [(name, text) for name, text in values if name.casefold() not in used or text != named[name.casefold()]]
    known = {element.attributes["IDENTIFIER"], *(text for _, text in values)}  # many tools repeat one as the LONG-NAME
    own = [(name, _find_text(element, name)) for name in ("LONG-NAME", "DESC") if name not in used]
    rest += [(name, text) for name, text in own if text not in known]
    return "\n".join(f"{name}: {text}" for name, text in rest if text)


def _join(text: str, rest: str) -> str | None:
    return "\n\n".join(one for one in (text, rest) if one) or None


def _cut(title: str) -> str:
    return title if len(title) <= kinds.TITLE_LENGTH else f"{title[: kinds.TITLE_LENGTH - 1]}…"


def _split_title(title: str, text: str) -> tuple[str, str]:
    """Return a title of one line, and the text without what the title already says."""
    line = title.strip().split("\n", 1)[0]
    whole = title.strip() if title.strip() != text else ""
    if len(line) > kinds.TITLE_LENGTH or (line != whole and whole):
        text = "\n\n".join(one for one in (whole, text) if one)
    return _cut(line), "" if text == line and len(line) <= kinds.TITLE_LENGTH else text
