"""How an account behaves where AWS is not documented, or where it differs from account to account."""

from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import ClassVar


@dataclass
class Behaviour:
    """The behaviour of an account.

    Attributes:
        missing_key_status: the response to a request for a missing key by a sender who may list only a prefix, and to a
            conditional put of a missing key by a sender who may not list. AWS documents neither.
        admits: whether the account may call an operation of Athena now. It counts the call.
        is_expired: whether an access key has expired. It counts the call with this key.
        empty_page_tokens: whether the last page has an empty page token. Otherwise it has none.
        closed_buckets: the names of buckets that refuse everybody.
    """

    missing_key_status: HTTPStatus = HTTPStatus.FORBIDDEN
    admits: Callable[[str], bool] = lambda _: True
    is_expired: Callable[[str], bool] = lambda _: False
    empty_page_tokens: bool = False
    closed_buckets: frozenset[str] = field(default_factory=frozenset)

    def make_page_token(self, end: int, total: int) -> str | None:
        """Return the token of the page that starts at `end`; None for no token."""
        return str(end) if end < total else "" if self.empty_page_tokens else None


class Behaving:
    """A part of the fake that follows the behaviour of the account. `fill_gaps` replaces it for a time."""

    behaviour: ClassVar[Behaviour] = Behaviour()
