"""The records of an update. Each field is optional: a field that a record does not have keeps its value."""

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import ValidationError, create_model

from quilt_mcp.requirements import kinds
from quilt_mcp.requirements.transfer.records import MODELS, PARENTS, FieldValues, Record, make_adapter, move_title
from quilt_mcp.requirements.transfer.rejections import InvalidRecord, Problem, explain

_OPTIONAL = dict.fromkeys(MODELS, ("description",)) | {
    "requirement": ("description", "acceptance_criteria_id"),
    kinds.ACCEPTANCE_CRITERIA.name: (),
}
"""The fields of each kind that null or an empty cell removes. Other fields keep their values."""


def parse_change(fields: object) -> FieldValues:
    """Validate the fields that a record has. Return their values; None for a value to remove.

    Raises:
        InvalidRecord: a field is not valid.
    """
    given = {name: value for name, value in fields.items() if value is not None} if isinstance(fields, dict) else fields
    try:
        values = _CHANGES.validate_python(given).model_dump(exclude_none=True)
    except ValidationError as error:
        raise InvalidRecord([explain(one) for one in error.errors(include_url=False)]) from None
    if problems := list(_check(values)):
        raise InvalidRecord(problems)
    if isinstance(fields, dict):
        values |= {name: None for name in _OPTIONAL[values["kind"]] if fields.get(name, "") is None}
    return values


def _check(values: FieldValues) -> Iterator[Problem]:
    if "title" in values or "description" in values:
        yield from move_title(values)
    field = PARENTS.get(values["kind"])
    if field and "parent" in values and field in values:
        yield Problem("parent", f"Means the same as {field}. Remove one of the two.")


def _make_partial(model: type[Record]) -> type[Record]:
    """Return a model with the same fields, all of them optional."""
    fields: dict[str, Any] = {
        name: (Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation, None)
        for name, field in model.model_fields.items()
        if name != "kind"
    }
    made: type[Record] = create_model(f"{model.__name__}Change", __base__=model, **fields)
    return made


_CHANGES = make_adapter(map(_make_partial, MODELS.values()))
