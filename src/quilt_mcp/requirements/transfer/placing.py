"""Numbers and places the entities of a file with a hierarchy, in the order of the hierarchy.

New entities are numbered in this order. An entity whose number would put it elsewhere among its siblings gets a
position between theirs. As few as possible move, so that the next version of a file changes only what it moved.
"""

from bisect import bisect_left
from itertools import count, groupby, pairwise
from operator import itemgetter
from typing import NamedTuple

from sqlalchemy import Connection

from quilt_mcp.requirements import model
from quilt_mcp.requirements.model import PARENTS, POSITION, Kind, format_reference, read_number
from quilt_mcp.requirements.transfer.spool import Spool
from quilt_mcp.requirements.writing import raise_counter, take_numbers


class Sibling(NamedTuple):
    """An entity among those of one parent.

    Attributes:
        number: of its record in the spool.
        position: the one that it has; of a new entity, the number of its reference ID.
        is_stored: whether the database has it.
    """

    number: int
    position: float
    is_stored: bool


def place_records(connection: Connection, spool: Spool) -> None:
    for kind in model.KINDS:
        if spool.has_places(kind.name):
            _number(connection, spool, kind)
            _place(spool, kind)


def _number(connection: Connection, spool: Spool, kind: Kind) -> None:
    """Give the new entities reference IDs."""
    lacking = sum("reference_id" not in one.values for records in spool.list_records(kind.name) for one in records)
    raise_counter(connection, kind, spool.find_last_number(kind.table))
    numbers = count(take_numbers(connection, kind, lacking) if lacking else 0)
    for records in spool.list_records(kind.name):
        new = [one for one in records if "reference_id" not in one.values]
        for record in new:
            record.values["reference_id"] = format_reference(kind, next(numbers))
        spool.replace(new)


def _place(spool: Spool, kind: Kind) -> None:
    found: list[tuple[str, Sibling]] = []
    for records in spool.list_records(kind.name):
        stored = spool.find_stored(kind.table, [one.values["id"] for one in records])
        for number, _, values in records:
            position = values.get(POSITION) or float(read_number(values["reference_id"]))
            parent = str(values.get(PARENTS[kind.name], ""))
            found.append((parent, Sibling(number, position, values["id"] in stored)))
    for _, group in groupby(sorted(found, key=itemgetter(0)), key=itemgetter(0)):  # which keeps the order of siblings
        siblings = [one for _, one in group]
        for sibling, position in zip(siblings, arrange(siblings), strict=True):
            if position != sibling.position:
                spool.set_value(sibling.number, POSITION, position)


def arrange(siblings: list[Sibling]) -> list[float]:
    """Return positions that have the order of the siblings. Most siblings keep theirs."""
    positions = [one.position for one in siblings]
    stored = [place for place, one in enumerate(siblings) if one.is_stored]
    kept = _choose_increasing(positions, stored or [*range(len(siblings))])
    arranged: list[float] = []
    for start, end in zip([-1, *kept], [*kept, len(siblings)], strict=True):
        below = positions[start] if start >= 0 else None
        above = positions[end] if end < len(siblings) else None
        arranged += _fill(positions[start + 1 : end], below, above) + ([above] if above is not None else [])
    if all(one < other for one, other in pairwise(arranged)):
        return arranged
    return [arranged[0] + place for place in range(len(siblings))]  # no number is between two of the positions


def _fill(positions: list[float], below: float | None, above: float | None) -> list[float]:
    """Return increasing positions between two others: those that they have, if possible."""
    bounds = [*([below] if below is not None else []), *positions, *([above] if above is not None else [])]
    if all(one < other for one, other in pairwise(bounds)):
        return positions
    first = below if below is not None else max(0.0, above - 1) if above is not None else 0.0
    last = above if above is not None else first + 1
    return [first + (last - first) * place / (len(positions) + 1) for place in range(1, len(positions) + 1)]


def _choose_increasing(positions: list[float], among: list[int]) -> list[int]:
    """Return the longest choice of places whose positions increase."""
    lasts: list[float] = []
    ends: list[int] = []
    before: dict[int, int | None] = {}
    for place in among:
        length = bisect_left(lasts, positions[place])
        before[place] = ends[length - 1] if length else None
        lasts[length : length + 1], ends[length : length + 1] = [positions[place]], [place]
    chosen: list[int] = []
    place_before = ends[-1] if ends else None
    while place_before is not None:
        chosen.append(place_before)
        place_before = before[place_before]
    return chosen[::-1]
