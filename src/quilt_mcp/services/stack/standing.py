"""What the stack says about the caller: the name, the rights and the role.

The schema has `role: MyRole!`, so for a user without a role the stack returns `me: null` with errors. Stacks before
June 2024 have neither `me` nor the switch of roles in the catalog.
"""

from typing import NamedTuple, TypeVar

from typing_extensions import TypedDict  # pydantic needs it before Python 3.12

from quilt_mcp.services.stack.errors import NotSignedInToQuilt, QueryRefused
from quilt_mcp.services.stack.graphql import PartialAnswer, post_query
from quilt_mcp.services.stack.sign_in import SignIn

ME = "query me { me { name email isAdmin role { name } roles { name } } }"
ME_WITHOUT_ROLE = "query meWithoutRole { me { name email isAdmin } }"
TYPE = "query known { __typename }"
"""Every GraphQL schema has it."""

T = TypeVar("T")


class Standing(NamedTuple):
    """The caller, as the stack describes it. Unknown values are None.

    Attributes:
        known: whether the stack describes its callers; false for a stack without `me`.
        name: the name in Quilt.
        email: the email address.
        is_admin: whether the caller is an administrator of the stack.
        role: the name of the current role; None also for a user without a role.
        roles: the names of all roles of the caller, sorted.
    """

    known: bool
    name: str | None = None
    email: str | None = None
    is_admin: bool | None = None
    role: str | None = None
    roles: tuple[str, ...] | None = None

    @property
    def identity(self) -> tuple[bool, str | None, str | None]:
        """What is the same for two standings for which the stack issues the same AWS identity."""
        return self.known, self.name, self.role


class Named(TypedDict):
    """An object. The query requests only its name."""

    name: str


class Me(Named):
    """The caller without its roles."""

    email: str
    isAdmin: bool


class MeWithRoles(Me):
    """The caller."""

    role: Named | None
    roles: list[Named] | None


class MeData(TypedDict):
    """The data of the query without roles."""

    me: Me | None


class MeWithRolesData(TypedDict):
    """The data of the query with roles."""

    me: MeWithRoles | None


TypeData = TypedDict("TypeData", {"__typename": str})
"""The data of the query that every schema has. A class would change the name of the key."""


def fetch_standing(sign_in: SignIn) -> Standing:
    """Ask the stack who the caller is.

    Raises:
        NotSignedIn: the stack does not know the caller.
        QueryRefused: the stack returned errors, and does not seem to be one without `me`.
        ResourceFailure: as `SignIn.send`.
    """
    answer = _ask(sign_in, "me", ME, MeWithRolesData)
    if answer.is_not_understood:
        _require_working_queries(sign_in, answer.refusal)
        return Standing(known=False)
    if (me := answer.data and answer.data["me"]) is not None:
        role, roles = me["role"], me["roles"]
        return Standing(
            known=True,
            name=me["name"],
            email=me["email"],
            is_admin=me["isAdmin"],
            role=role["name"] if role else None,
            roles=None if roles is None else tuple(sorted(one["name"] for one in roles)),
        )
    if answer.error_paths:
        return _fetch_standing_without_role(sign_in)
    raise _unknown_caller()


def _require_working_queries(sign_in: SignIn, refusal: QueryRefused) -> None:
    """Raise the refusal of `me` if the stack refuses other queries too. Then its errors do not concern the schema."""
    answer = _ask(sign_in, "known", TYPE, TypeData)
    if answer.data is None or answer.error_paths:
        raise refusal


def _fetch_standing_without_role(sign_in: SignIn) -> Standing:
    answer = _ask(sign_in, "meWithoutRole", ME_WITHOUT_ROLE, MeData)
    if (me := answer.data and answer.data["me"]) is not None:
        return Standing(known=True, name=me["name"], email=me["email"], is_admin=me["isAdmin"])
    if answer.error_paths:
        raise answer.refusal
    raise _unknown_caller()


def _ask(sign_in: SignIn, operation: str, query: str, form: type[T]) -> PartialAnswer[T]:
    url = str(sign_in.login.stack.registry_url)
    return sign_in.send(lambda session: post_query(url, session, operation, query, form))


def _unknown_caller() -> NotSignedInToQuilt:
    return NotSignedInToQuilt("The Quilt stack does not know the user of this login.")
