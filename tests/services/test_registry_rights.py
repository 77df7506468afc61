"""What the Quilt stack states about writing, on stacks of any age, and when it counts."""

from typing import Any

import pytest
from pydantic import TypeAdapter

from quilt_mcp.core.errors import ResourceFailure, Unavailable
from quilt_mcp.demo.world import World
from quilt_mcp.services.bucket_statements import StackBuckets, Statements, fetch_buckets, is_session_of, state_rights
from quilt_mcp.services.governance_service import Role, fetch_all_roles, find_own_role
from quilt_mcp.services.stack.caller import Standing
from quilt_mcp.services.stack.failures import NotSignedInToQuilt, QueryNotUnderstood, QueryRefused, RefusedByStack
from quilt_mcp.services.stack.graphql import Rows, keep_readable
from tests.support.python_caller import read
from tests.support.quilt_fakes import answer_queries

ARN = "arn:aws:sts::123456789012:assumed-role/Quilt-Lab/ann"
ROLE_ARN = "arn:aws:iam::123456789012:role/quilt/acme/Quilt-Lab"
ANN = Standing(known=True, name="ann", email="ann@example.com", is_admin=False, role="Lab", roles=("Lab",))
ADMIN = ANN._replace(is_admin=True)
SHARED = [
    {
        "name": "data",
        "collaborators": [
            {"collaborator": {"username": "ann"}, "permissionLevel": "READ_WRITE"},
            {"collaborator": {"username": "bob"}, "permissionLevel": "READ"},
            {"collaborator": {"username": "ann"}, "permissionLevel": "READ"},  # by another role
        ],
    },
    {"name": "archive", "collaborators": [{"collaborator": {"username": "ann"}, "permissionLevel": "READ"}]},
]
STACK = StackBuckets(
    ("archive", "data", "other"), {"data": {"ann": "READ_WRITE"}, "archive": {"ann": "READ"}, "other": {}}
)
WHY = "it is not needed"


class Stack:
    """A caller with a stack that answers some queries, and refuses all others."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self.asked: list[str] = []
        self._answers = answers

    def send_query(self, operation: str, form: type[Any], at: str) -> Any:
        self.asked.append(operation)
        if isinstance(self._answers.get(operation), Exception):
            raise self._answers[operation]
        if operation not in self._answers:
            raise QueryNotUnderstood("The Quilt stack rejected the query.")
        data = self._answers[operation]
        return TypeAdapter(form).validate_python(data[at] if at else data)

    def send_list_query(self, operation: str, form: Any, at: str) -> Rows[Any]:
        return keep_readable(form, self.send_query(operation, list[object], at))


def make_role(name: str = "Lab", *, kind: str = "ManagedRole", custom_policy: bool = False, **levels: str) -> Any:
    policies = [{"title": "P", "managed": managed} for managed in (True, not custom_policy)]
    permissions = [{"bucket": {"name": bucket}, "level": level} for bucket, level in levels.items()]
    role = {"name": name, "arn": ROLE_ARN, "type": kind, "policies": policies, "permissions": permissions}
    return TypeAdapter(Role).validate_python(role)


def states(statements: Statements) -> dict[str, tuple[Any, Any]]:
    return {name: (found.level, found.can_write) for name in STACK.names for found in [statements.find(name)]}


NAMES = {"bucketConfigs": [{"name": "data"}, {"name": "archive"}]}
OTHERS = [{"name": "data"}, {"name": "other"}]
BOTH = ("archive", "data")
OLD = ("The Quilt stack rejected the query.",)
TOO_LARGE = "The response is too large."
ANSWERS: dict[str, tuple[dict[str, Any], list[str], tuple[str, ...], tuple[str, ...] | None]] = {
    # what the stack answers, what it is asked, the names, and the refusals if there are no collaborators
    "today": ({"stackBuckets": {"buckets": SHARED, "bucketConfigs": OTHERS}}, ["stackBuckets"], (*BOTH, "other"), None),
    "administrator": (
        {"stackBuckets": {"buckets": SHARED[:1], "bucketConfigs": OTHERS}},
        ["stackBuckets"],
        ("data", "other"),  # also outside the role
        None,
    ),
    "2022 to 2026": ({"stackBucketConfigs": {"buckets": SHARED}}, ["stackBuckets", "stackBucketConfigs"], BOTH, None),
    "without collaborators": (
        {"stackBucketNames": NAMES},
        ["stackBuckets", "stackBucketConfigs", "stackBucketNames"],
        BOTH,
        OLD,
    ),
    "the other list fails": (
        {"stackBuckets": QueryRefused("Not read."), "stackRoleBuckets": {"buckets": SHARED}},
        ["stackBuckets", "stackRoleBuckets"],
        BOTH,
        None,
    ),
    "collaborators fail": (
        {"stackBuckets": Unavailable(TOO_LARGE), "stackBucketNames": NAMES},
        ["stackBuckets", "stackBucketNames"],
        BOTH,
        (TOO_LARGE,),
    ),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_names_come_from_a_stack_of_any_age_and_if_a_part_of_it_fails(name: str) -> None:
    answers, asked, names, refusals = ANSWERS[name]
    stack = Stack(answers)
    found = fetch_buckets(stack)  # type: ignore[arg-type]  # a double: it has only `send_query`
    assert (stack.asked, found.names) == (asked, names)
    if refusals is None:
        assert (found.collaborators or {})["data"] == {"ann": "READ_WRITE", "bob": "READ"}
    else:
        assert found == StackBuckets(names, refusals=refusals)


@pytest.mark.parametrize("failure", [NotSignedInToQuilt("The login has expired."), RefusedByStack("Not allowed.")])
def test_a_caller_whom_the_stack_refuses_is_not_asked_about_again(failure: ResourceFailure) -> None:
    stack = Stack({"stackBuckets": failure})
    with pytest.raises(type(failure)):
        fetch_buckets(stack)  # type: ignore[arg-type]  # a double
    assert stack.asked == ["stackBuckets"]


def test_a_stack_that_refuses_the_names_is_a_failure() -> None:
    with pytest.raises(QueryRefused):
        fetch_buckets(Stack({}))  # type: ignore[arg-type]  # a double


def test_collaborators_count_for_a_user_with_one_role() -> None:
    found = state_rights(STACK, ANN, WHY, ARN)
    assert states(found) == {"data": ("READ_WRITE", True), "archive": ("READ", None), "other": (None, None)}
    assert found.find("data").evidence == "collaborators: READ_WRITE for ann"
    assert "a policy that Quilt does not manage can add rights" in found.find("archive").evidence
    assert found.find("other").evidence == f"{WHY}; ann is not among the collaborators"


@pytest.mark.parametrize(
    ("stack", "standing", "reason"),
    [
        (STACK, ANN._replace(roles=("Lab", "Other")), "you do not have exactly one role"),
        (STACK, ANN._replace(roles=None), "you do not have exactly one role"),
        (STACK, Standing(known=False), "the stack does not say who you are"),
        (STACK, None, "the stack does not say who you are"),
        (StackBuckets(STACK.names), ANN, "no query returned collaborators"),
        (StackBuckets(error="not read: too slow"), ANN, "the stack's buckets with their collaborators were not read: "),
        (StackBuckets(STACK.names, refusals=("No.", "Never.")), ANN, "no query returned collaborators: No. Never."),
    ],
)
def test_collaborators_do_not_count_without_a_single_known_role(
    stack: StackBuckets, standing: Standing | None, reason: str
) -> None:
    found = state_rights(stack, standing, WHY, ARN)
    assert set(states(found).values()) == {(None, None)}
    assert reason in found.find("data").evidence


def test_a_managed_role_states_where_it_may_write() -> None:
    role = make_role(data="READ_WRITE", archive="READ")
    found = state_rights(STACK, ADMIN, role, ARN)
    assert states(found) == {"data": ("READ_WRITE", True), "archive": ("READ", False), "other": ("none", False)}
    assert found.find("data").evidence == "role Lab: READ_WRITE"
    assert "outside the stack" in found.find("elsewhere").evidence


def test_a_managed_role_counts_if_the_list_of_buckets_was_not_read() -> None:
    unread = StackBuckets(error="not read: too slow")
    found = state_rights(unread, ADMIN, make_role(data="READ_WRITE"), ARN)
    assert states(found) == {"data": ("READ_WRITE", True), "archive": (None, None), "other": (None, None)}
    assert found.find("other").evidence == (
        "the role Lab does not name it, and the stack's list of buckets was not read: too slow"
    )


def test_a_policy_outside_quilt_can_add_rights() -> None:
    found = state_rights(STACK, ADMIN, make_role(custom_policy=True, data="READ_WRITE", archive="READ"), ARN)
    assert states(found) == {"data": ("READ_WRITE", True), "archive": ("READ", None), "other": ("none", None)}


@pytest.mark.parametrize(
    ("role", "arn", "reason"),
    [
        (make_role(kind="UnmanagedRole"), ARN, "which it does not manage"),
        (make_role(kind="FutureRole"), ARN, "which it does not manage"),
        (make_role(data="READ_WRITE"), ARN.replace("Quilt-Lab", "Quilt-Finance"), "your AWS identity is not"),
        (make_role(data="READ_WRITE"), ARN.replace("123456789012", "210987654321"), "your AWS identity is not"),
        (make_role(data="READ_WRITE"), "arn:aws:iam::123456789012:user/Quilt-Lab", "your AWS identity is not"),
    ],
)
def test_a_role_that_is_custom_or_not_in_use_states_nothing(role: Any, arn: str, reason: str) -> None:
    found = state_rights(STACK, ADMIN, role, arn)
    assert set(states(found).values()) == {(None, None)}
    assert reason in found.find("data").evidence


@pytest.mark.parametrize("partition", ["aws", "aws-cn", "aws-us-gov"])
def test_a_session_belongs_to_the_role_with_its_name_and_account(partition: str) -> None:
    session, role = ARN.replace(":aws:", f":{partition}:"), ROLE_ARN.replace(":aws:", f":{partition}:")
    assert is_session_of(session, role)
    assert not is_session_of(session, "no ARN")


def test_only_an_administrators_role_is_fetched() -> None:
    roles = [make_role("Other"), make_role("Lab")]
    assert fetch(roles, ADMIN) == roles[1]
    assert fetch(roles[:1], ADMIN) == "the stack does not list the role Lab"
    other = [{"type": "RobotRole"}]
    unknown = "the stack does not list the role Lab; this server does not know its roles of the type RobotRole"
    assert fetch([*roles[:1], *other], ADMIN) == unknown
    assert fetch(roles, ANN) == "only administrators may see the rights of the role Lab"
    assert fetch(roles, ADMIN._replace(role=None)) == "the stack does not say which role you have"
    assert fetch(roles, None) == "the stack does not say which role you have"


async def test_a_role_of_a_type_that_the_schema_does_not_name_is_unknown(
    fresh_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    robot, lab = {"type": "RobotRole"}, {"type": "ManagedRole", "name": "Lab"}
    user = {"name": "ann", "email": "", "created_at": "2026-01-01", "last_login_at": "2026-01-01", "is_active": True}
    user |= dict.fromkeys(("is_admin", "is_sso_only", "is_service"), False) | {
        "role": robot,
        "extra_roles": [robot, lab],
    }
    known = {**lab, "arn": ROLE_ARN, "policies": [], "permissions": []}
    payloads = {"usersList": {"admin": {"user": {"list": [user]}}}, "rolesList": {"roles": [robot, known, robot]}}
    answer_queries(monkeypatch, {name: {"data": data} for name, data in payloads.items()})
    [row] = (await read("admin://users"))["users"]
    assert (row["role"], row["extra_roles"]) == ("unknown (RobotRole)", ["Lab", "unknown (RobotRole)"])
    answer = await read("admin://roles")
    assert ([one["name"] for one in answer["roles"]], answer["count"]) == (["Lab"], 1)
    assert answer["unknown_role_types"] == ["RobotRole"]


@pytest.mark.parametrize("failure", [Unavailable("too slow"), QueryRefused("an unknown type of role")])
def test_a_failure_to_fetch_the_role_is_a_reason(failure: ResourceFailure) -> None:
    stack = Stack({"rolesList": failure})
    found = find_own_role(fetch_all_roles(stack, ADMIN), ADMIN)  # type: ignore[arg-type]  # a double
    assert found == f"the stack's roles could not be read: {failure.message}"


def fetch(roles: list[Any], standing: Standing | None) -> Any:
    stack = Stack({"rolesList": {"roles": roles}})
    return find_own_role(fetch_all_roles(stack, standing), standing)  # type: ignore[arg-type]  # a double
