"""The names in ReqIF files: the identifiers of our types, and the attributes, ours and those of other tools."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from quilt_mcp.requirements.model import ENDS, FIELDS, PARENTS, RECORDS
from quilt_mcp.requirements.transfer.reqif.texts import trim

OWN = "quilt-mcp."
"""The start of the identifiers of our types. The kind of record follows."""
ACCEPTANCE = f"{OWN}acceptance-criterion"
"""The type of the relations from requirements to their acceptance criteria."""
SPECIFICATION = "specification-project-"
"""The start of the identifiers of our specifications. The ID of the project follows."""
PACKED = "exact_texts"
"""The attribute with the texts that XML cannot contain."""
DATATYPES = {"STRING": ' MAX-LENGTH="1000000"', "INTEGER": ' MIN="1" MAX="4"', "DATE": ""}
_TYPES = {"priority": "INTEGER", "time": "DATE"}
"""The data types of the forms of fields. All others are STRING."""
_MOST_CHARACTERS = 100
# relations have these values
_NOT_ATTRIBUTES = {"id", "acceptance_criteria_id", *ENDS}

CHAPTERS = ("reqif.chaptername", "object heading", "heading")
TITLES = ("reqif.name", "title", "name", "summary", "object short text")
REFERENCES = ("reqif.foreignid", "uid", "id", "identifier")
DELETED = ("reqif.foreigndeleted", "foreigndeleted", "is deleted", "deleted")
"""The names of attributes of other tools, in lower case. The first one with a value counts."""
MAPPED = {
    "title": TITLES,
    "text": ("reqif.text", "object text", "statement", "text", "description", "reqif.description"),
    "status": ("status", "state"),
    "priority": ("priority",),
    "assignee": ("assignee", "assigned to", "owner", "responsible"),
}
"""The same for the fields that a mapping can change."""
_SAYING = {
    "kind": "heading", "type": "heading", "object type": "heading", "category": "heading", "reqif.category": "heading",
    "is heading": "true", "isheading": "true", "is chapter": "true",
}  # fmt: skip
_HEADINGS = {"heading": {"heading", "header", "headline", "chapter", "section"}, "true": {"true", "yes", "1"}}


@dataclass(frozen=True)
class Names:
    """The names of the attributes of one type that have the fields of records, by field."""

    fields: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MAPPED)

    @property
    def titles(self) -> tuple[str, ...]:
        """Those of a heading come first, unless a mapping names another."""
        own = self.fields["title"]
        return (*CHAPTERS, *own) if own is TITLES else (*own, *CHAPTERS)

    @property
    def texts(self) -> tuple[str, ...]:
        return self.fields["text"]


def says_heading(named: Mapping[str, str]) -> bool:
    """Return whether an attribute says that its object is a heading."""
    return any(named.get(name, "").casefold() in _HEADINGS[kind] for name, kind in _SAYING.items())


def cut_name(name: str) -> str:
    """Return the name of a type as a table can have it. Names that differ only at their end stay different."""
    name = name.strip()
    if len(name) <= _MOST_CHARACTERS:
        return name
    return f"{name[: _MOST_CHARACTERS - 10]} {hashlib.blake2s(name.encode(), digest_size=4).hexdigest()}…"


def fold(name: str) -> str:
    """Return a name as it is compared: some tools change the case, and spaces for underscores."""
    return "_".join(name.casefold().replace("_", " ").split())


def fields_by_name(kind: str) -> dict[str, str]:
    """Return the fields of a kind by the folded names of their attributes, also by those that other tools give them."""
    fields = fields_of(kind)
    titles = {fold(name): "title" for name in CHAPTERS if "title" in fields}
    return titles | {fold(name_field(field)): field for field in fields}


def name_values(values: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the values that are not blank, by name in lower case."""
    named: dict[str, str] = {}
    for name, value in values:
        if value.strip():
            named.setdefault(name.casefold(), trim(value))
    return named


def choose(names: Iterable[str], named: Mapping[str, str]) -> str:
    return next((name for name in names if named.get(name)), "")


def fields_of(kind: str) -> dict[str, str]:
    """Return the fields of a kind that are attributes, with their data types."""
    left_out = _NOT_ATTRIBUTES | {PARENTS.get(kind, "")}
    fields = [one for name, one in FIELDS.items() if name in RECORDS[kind].fields and name not in left_out]
    return {one.name: _TYPES.get(one.form, "STRING") for one in fields} | {PACKED: "STRING"}


def name_field(field: str) -> str:
    return (FIELDS[field].reqif if field in FIELDS else "") or field
