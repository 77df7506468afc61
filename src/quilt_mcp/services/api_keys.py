"""admin://api-keys: the API keys of the stack's users."""

from typing import Annotated, Literal, NotRequired

from pydantic import BeforeValidator
from typing_extensions import TypedDict

from quilt_mcp.core.parameters import parse_choice
from quilt_mcp.services.pages import Paged, cut_page
from quilt_mcp.services.stack.callers import current_caller
from quilt_mcp.services.stack.failures import QueryNotUnderstood
from quilt_mcp.services.stack.graphql import Time

KeyStatus = Literal["active", "expired"]
STATUSES: tuple[KeyStatus, ...] = ("active", "expired")
ORDERS = ("owner", "expires_at", "last_used_at")
NEVER = ""
"""Before every time: keys that nobody has used come first."""


class APIKeyRow(TypedDict):
    """One API key. Nobody can read its secret.

    Attributes:
        name: the name that its owner gave it.
        owner: the email address of the user who holds it.
        fingerprint: a part of it, by which its owner recognizes it.
        status: active or expired.
        created_at: ISO 8601 in UTC.
        expires_at: ISO 8601 in UTC.
        last_used_at: ISO 8601 in UTC; null if it was never used.
    """

    name: str
    owner: str
    fingerprint: str
    status: Annotated[KeyStatus, BeforeValidator(lambda one: one.lower() if isinstance(one, str) else one)]
    created_at: Time
    expires_at: Time
    last_used_at: Time | None


class APIKeysAnswer(Paged):
    """A page of the API keys of the stack."""

    api_keys: list[APIKeyRow]
    """The keys of this page, in the order that was asked for."""
    unreadable_count: NotRequired[int]
    """The number of keys that the stack could not read, or sent in a form that this server does not know; absent if
    there are none. They are neither listed nor counted."""


def admin_api_keys_list(
    status: str | None = None, sort: str | None = None, cursor: str | None = None, limit: str | None = None
) -> APIKeysAnswer:
    """API keys: owner, expiry, last use.

    There are 50 per page: `?cursor=` and the `next_cursor` of a page read the next one. `status` is active or expired.
    `sort` is owner, the default, expires_at for those first that expire next, or last_used_at for those first that were
    not used for the longest time, or never. `count` is the number of keys with this status.
    """
    wanted, order = parse_choice("status", status, STATUSES), parse_choice("sort", sort, ORDERS) or ORDERS[0]
    caller = current_caller()
    try:
        found = caller.ask_as_admin(
            "the stack's API keys", lambda: caller.send_list_query("apiKeysList", APIKeyRow, "admin.api_keys.list")
        )
    except QueryNotUnderstood as refusal:
        refusal.suggested_actions = [
            "Ask a Quilt administrator for the version of the stack. Stacks have API keys since January 2026."
        ]
        raise
    page = cut_page(
        [key for key in found.readable if wanted in (None, key["status"])],
        lambda key: " ".join(str(key[name] or NEVER) for name in (order, "owner", "name", "fingerprint")),  # type: ignore[literal-required]  # one of ORDERS
        build=lambda key: key,
        cursor=cursor,
        limit=limit,
        scope=("API keys", caller.login.stack.registry_url, wanted, order),
    )
    answer: APIKeysAnswer = {"api_keys": page.rows, "count": page.total, "next_cursor": page.next_cursor}
    if found.unreadable_count:
        answer["unreadable_count"] = found.unreadable_count
    return answer


def list_statuses(_: str) -> list[str]:
    return [*STATUSES]


def list_orders(_: str) -> list[str]:
    return [*ORDERS]
