"""Queries of Prometheus, as a parser of PromQL reads them."""

from collections.abc import Iterator
from dataclasses import dataclass

from promql_parser import AggregateExpr, Expr, Matcher, MatchOp, VectorSelector, parse, walk


@dataclass(frozen=True)
class Selector:
    """What a query selects.

    Attributes:
        metric: the name.
        matchers: of labels; `op` is equal, not equal, or one of the two for regular expressions.
    """

    metric: str
    matchers: tuple[Matcher, ...]

    def find_values(self) -> Iterator[tuple[str, str]]:
        """Yield each label with each value that the query names."""
        for one in self.matchers:
            is_pattern = one.op in (MatchOp.Re, MatchOp.NotRe)  # they cannot be hashed
            for value in one.value.split("|") if is_pattern else [one.value]:
                yield one.name, value


@dataclass(frozen=True)
class Query:
    """A query.

    Attributes:
        selectors: all that it selects.
        grouped: the labels that it groups by.
    """

    selectors: list[Selector]
    grouped: set[str]


def read_query(text: str) -> Query:
    """Return the parts of a query.

    Raises:
        ValueError: it is not valid.
    """
    selectors: list[Selector] = []
    grouped: set[str] = set()

    def visit(part: Expr) -> None:
        if isinstance(part, VectorSelector):
            selectors.append(Selector(part.name or "", tuple(part.matchers.matchers)))
        if isinstance(part, AggregateExpr) and part.modifier:
            grouped.update(part.modifier.labels)

    walk(parse(text), visit)
    return Query(selectors, grouped)
