"""The worlds of the contract: those of the demo, and more: who is signed in, to which stack, and what goes wrong.

A world is one row of WORLDS. Add a world here; the contract's tests then read every resource in it.
"""

from collections.abc import Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import get_args

from quilt_mcp.demo import graphql
from quilt_mcp.demo.company import ACME, ADMIN, MEMBER
from quilt_mcp.demo.graphql import Age, Endpoint
from quilt_mcp.demo.world import PEOPLE, Mishap, Plan
from tests.worlds import aws_worlds, mishaps, sign_in_mishaps, stack_mishaps


def _fail(mishap: Mishap) -> Plan:
    return Plan(mishap=mishap)


NEWCOMER = "nikolai_volkov"
"""Has signed in, and has no role."""
_HTML = mishaps.HTML
_BAD_REQUEST = HTTPStatus.BAD_REQUEST

SIGN_INS: Mapping[str, Plan] = {
    "expired": _fail(mishaps.expire),
    "revoked": _fail(mishaps.revoke),
    "two_stacks": _fail(sign_in_mishaps.sign_in_to_two_stacks),
    "role_switched": Plan(company=sign_in_mishaps.SWITCHED, mishap=sign_in_mishaps.switch_role),
    "no_role": Plan(user=NEWCOMER),
    "api_key": _fail(sign_in_mishaps.use_api_key),
    "renewal_race": _fail(sign_in_mishaps.lose_renewal_race),
    "foreign_registry": _fail(sign_in_mishaps.name_foreign_registry),
}

NEW_ROLE_TYPE = replace(
    ACME,
    roles=tuple(
        replace(role, kind=graphql.NEW_ROLE_TYPE) if role.name == ACME.find_user(ADMIN).role else role
        for role in ACME.roles
    ),
)
"""The company with a stack that describes the role of the administrator in a new way. Its rights are the same."""

STACKS: Mapping[str, Plan] = {
    **{
        f"stack_{age.replace('-', '_')}{end}": Plan(endpoint=Endpoint(age, status))
        for age in get_args(Age)[:-1]
        for end, status in (("", HTTPStatus.OK), ("_400", _BAD_REQUEST))
    },
    "graphql_400": Plan(endpoint=Endpoint(invalid_status=_BAD_REQUEST)),
    "collaborators_without_caller": Plan(user=MEMBER, endpoint=Endpoint(names_caller=False)),
    "new_role_type": Plan(company=NEW_ROLE_TYPE, endpoint=Endpoint(has_new_role_type=True)),
    "stack_forbidden": _fail(stack_mishaps.forbid),
    "stack_forbidden_graphql": _fail(stack_mishaps.forbid_queries),
    "stack_partial": _fail(stack_mishaps.fail_in_parts),
    "stack_redirects": _fail(stack_mishaps.redirect),
    "stack_endless": _fail(stack_mishaps.never_end),
    "stack_refused": _fail(mishaps.stop_stack),
    "stack_error_json": _fail(
        mishaps.make_stack_return(HTTPStatus.INTERNAL_SERVER_ERROR, {"message": "Internal server error"})
    ),
    "stack_error_html": _fail(mishaps.make_stack_return(HTTPStatus.BAD_GATEWAY, _HTML)),
    "stack_error_not_json": _fail(mishaps.make_stack_return(HTTPStatus.OK, _HTML)),
    "stack_error_graphql": _fail(
        mishaps.make_stack_return(HTTPStatus.OK, {"errors": [{"message": "Internal error", "path": ["x"]}]})
    ),
    "stack_error_without_path": _fail(
        mishaps.make_stack_return(HTTPStatus.OK, {"errors": [{"message": "Internal server error"}]})
    ),
    "stack_slow": _fail(mishaps.slow_stack),
}

ACCOUNTS: Mapping[str, Plan] = {
    "aws_denied": _fail(mishaps.deny_aws),
    "aws_expired": _fail(mishaps.make_aws_fail("expired")),
    "aws_throttled": _fail(mishaps.make_aws_fail("throttled")),
    "aws_broken": _fail(mishaps.make_aws_fail("broken")),
    "aws_unreachable": _fail(mishaps.disconnect_aws),
    "no_region": _fail(mishaps.remove_region),
}

RIGHTS: Mapping[str, Plan] = {
    name: Plan(world.user, world.company, mishap=world.mishap) for name, world in aws_worlds.AWS_WORLDS.items()
}

DATABASES: Mapping[str, Plan] = {
    "database_unreachable": _fail(mishaps.disconnect_database),
    "database_damaged": _fail(mishaps.damage_database),
}

WORLDS: Mapping[str, Plan] = {**PEOPLE, **SIGN_INS, **STACKS, **ACCOUNTS, **RIGHTS, **DATABASES}
