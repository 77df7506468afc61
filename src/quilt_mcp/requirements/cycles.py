"""Cycles of relationships."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple


class Relation(NamedTuple):
    """A relationship.

    Attributes:
        id: its ID.
        source: the requirement from which it leads.
        target: the requirement to which it leads.
        type: the name of its type.
    """

    id: str
    source: str
    target: str
    type: str


def find_cycles(relations: Sequence[Relation]) -> list[list[Relation]]:
    """Find cycles such that each cycle of the relations contains the last relation of one of them.

    There can be exponentially many cycles. These are at most as many as the relations. Cycles of one type are found
    first, because they contradict what such a type means; then those of several types.
    """
    cycles = [cycle for name in sorted({one.type for one in relations}) for cycle in _search_type(relations, name)]
    closing = {cycle[-1].id for cycle in cycles}
    return cycles + list(_search(one for one in relations if one.id not in closing))


def _search_type(relations: Sequence[Relation], name: str) -> Iterator[list[Relation]]:
    return _search(one for one in relations if one.type == name)


def _search(relations: Iterable[Relation]) -> Iterator[list[Relation]]:
    """Search depth-first. A relation that leads back to a requirement of the current path closes a cycle."""
    outgoing: defaultdict[str, list[Relation]] = defaultdict(list)
    for one in relations:
        outgoing[one.source].append(one)
    done: set[str] = set()
    for start in list(outgoing):
        path: list[Relation] = []
        at = {start: 0}  # the requirements of the path, with the number of relations that lead to them
        pending = [iter(outgoing[start])] if start not in done else []
        while pending:
            relation = next(pending[-1], None)
            if relation is None:
                pending.pop()
                left = path.pop().target if path else start
                del at[left]
                done.add(left)
            elif relation.target in at:
                yield [*path[at[relation.target] :], relation]
            elif relation.target not in done:
                path.append(relation)
                at[relation.target] = len(path)
                pending.append(iter(outgoing.get(relation.target, ())))
