"""The attributes of ReqIF files: those of our own types, and those that other tools use for titles and texts."""

from collections.abc import Iterable, Mapping

from quilt_mcp.requirements import kinds
from quilt_mcp.requirements.transfer.record_writer import COLUMNS
from quilt_mcp.requirements.transfer.records import MODELS, PARENTS

OWN = "quilt-mcp."
"""The start of the identifiers of our types. The kind of record follows."""
ACCEPTANCE = f"{OWN}acceptance-criterion"
"""The type of the relations from requirements to their acceptance criteria."""
SPECIFICATION = "specification-project-"
"""The start of the identifiers of our specifications. The ID of the project follows."""
PACKED = "exact_texts"
"""The attribute with the texts that XML cannot contain."""
DATATYPES = {
    "STRING": ' MAX-LENGTH="1000000"',
    "INTEGER": ' MIN="1" MAX="4"',
    "DATE": "",
}
_TYPES = {"priority": "INTEGER", "created_at": "DATE", "updated_at": "DATE"}
_STANDARD_NAMES = {
    "reference_id": "ReqIF.ForeignID",
    "title": "ReqIF.Name",
    "description": "ReqIF.Text",
    "creator_id": "ReqIF.ForeignCreatedBy",
    "author_id": "ReqIF.ForeignCreatedBy",
    "created_at": "ReqIF.ForeignCreatedOn",
    "updated_at": "ReqIF.ForeignModifiedOn",
}
"""The names that ReqIF tools recognise."""
_NOT_ATTRIBUTES = {
    "kind",
    "id",
    "acceptance_criteria_id",
    "source_requirement_id",
    "target_requirement_id",
    "relationship_type_id",
}
"""Identifiers, types and relations have these values."""

CHAPTERS = ("reqif.chaptername", "object heading", "heading")
TITLES = ("reqif.name", "title", "name", "summary", "object short text")
TEXTS = ("reqif.text", "object text", "statement", "text", "description", "reqif.description")
REFERENCES = ("reqif.foreignid", "uid", "id", "identifier")
"""The names of attributes of other tools, in lower case. The first one with a value counts."""


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
            named.setdefault(name.casefold(), value.strip())
    return named


def choose(names: Iterable[str], named: Mapping[str, str]) -> str:
    """Return the first name that has a value; empty if none has one."""
    return next((name for name in names if named.get(name)), "")


def fields_of(kind: str) -> dict[str, str]:
    """Return the fields of a kind that are attributes, with their data types."""
    left_out = _NOT_ATTRIBUTES | {PARENTS.get(kind, ""), "title" if kind == kinds.ACCEPTANCE_CRITERIA.name else ""}
    names = [name for name in COLUMNS if name in MODELS[kind].model_fields and name not in left_out]
    return {name: _TYPES.get(name, "STRING") for name in [*names, PACKED]}


def name_field(field: str) -> str:
    """Return the name of an attribute for people and other tools."""
    return _STANDARD_NAMES.get(field, field)
