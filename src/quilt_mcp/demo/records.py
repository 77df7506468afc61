"""What a Quilt stack and its AWS account hold, as plain records."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

REGION = "us-east-1"
ACCOUNT_ID = "123456789012"

Level = Literal["READ", "READ_WRITE"]


@dataclass(frozen=True)
class Policy:
    """A Quilt policy: what it allows, by bucket. Of an unmanaged one Quilt itself does not know that."""

    title: str
    permissions: Mapping[str, Level]
    managed: bool = True


@dataclass(frozen=True)
class Role:
    """A Quilt role, and what the AWS IAM role behind it may do.

    Attributes:
        external_arn: for an unmanaged role, the IAM role that somebody made outside Quilt; None if Quilt manages it.
        list_only: buckets whose objects' names it may list but whose objects it may not read.
        runs_queries_in: the Athena workgroups it may use; `*` is any.
        describes: the Athena workgroups it may only describe.
        lists_account: whether it may list the account's buckets.
    """

    name: str
    policies: tuple[Policy, ...] = ()
    external_arn: str | None = None
    list_only: tuple[str, ...] = ()
    runs_queries_in: tuple[str, ...] = ()
    describes: tuple[str, ...] = ()
    lists_account: bool = False

    @property
    def permissions(self) -> dict[str, Level]:
        """The most that any of its managed policies allows, by bucket."""
        merged: dict[str, Level] = {}
        for policy in self.policies:
            for bucket, level in policy.permissions.items() if policy.managed else ():
                merged[bucket] = "READ_WRITE" if "READ_WRITE" in {level, merged.get(bucket)} else level
        return merged


@dataclass(frozen=True)
class User:
    """A user of the stack. Dates are ISO 8601 in UTC, roles are names."""

    name: str
    joined: str
    last_login: str
    role: str | None
    extra_roles: tuple[str, ...] = ()
    is_admin: bool = False
    is_active: bool = True
    is_sso_only: bool = False
    is_service: bool = False

    @property
    def email(self) -> str:
        """Their address, in a domain that is reserved for examples."""
        return f"{self.name.replace('_', '.')}@acme.example.com"


@dataclass(frozen=True)
class Bucket:
    """An S3 bucket.

    Attributes:
        account: who owns it; a bucket of another account is not in the answer to ListBuckets.
        in_stack: whether it was added to the Quilt stack.
        tables: its tabulator tables, YAML by name.
    """

    name: str
    title: str
    created: str
    objects: Mapping[str, str] = field(default_factory=dict)
    region: str = REGION
    account: str = ACCOUNT_ID
    in_stack: bool = True
    tables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Database:
    """A database of the Glue data catalog."""

    name: str
    created: str
    description: str | None = None
    location: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class WorkGroup:
    """An Athena workgroup."""

    name: str
    created: str
    description: str = ""
    output_location: str | None = None
    enforced: bool = True
    enabled: bool = True


@dataclass(frozen=True)
class Query:
    """An Athena query: submitted `minutes_ago`, and ended `seconds` later, or still running if that is None."""

    id: str
    work_group: str
    database: str
    sql: str
    minutes_ago: int
    seconds: int | None
    scanned_bytes: int = 0
    failure: str | None = None

    @property
    def state(self) -> str:
        """Its state, in Athena's words."""
        if self.seconds is None:
            return "RUNNING"
        return "FAILED" if self.failure else "SUCCEEDED"


@dataclass(frozen=True)
class Step:
    """A step of a workflow, the steps it waits for, and the statuses it has been through."""

    id: str
    description: str
    dependencies: tuple[str, ...] = ()
    statuses: tuple[str, ...] = ()
    message: str | None = None


@dataclass(frozen=True)
class Workflow:
    """A workflow of the person who is signed in."""

    id: str
    name: str
    description: str
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Company:
    """Everything there is. `users` come in no particular order, as the registry gives them."""

    stack_name: str
    users: tuple[User, ...]
    roles: tuple[Role, ...]
    default_role: str
    buckets: tuple[Bucket, ...] = ()
    databases: tuple[Database, ...] = ()
    work_groups: tuple[WorkGroup, ...] = ()
    queries: tuple[Query, ...] = ()
    workflows: tuple[Workflow, ...] = ()
    sso: str | None = None
    sso_set_at: str = "2025-02-17T10:04:31Z"
    open_query: bool = False

    def user(self, name: str) -> User:
        """The user of that name; KeyError if there is none."""
        return {user.name: user for user in self.users}[name]

    def role(self, name: str) -> Role:
        """The role of that name; KeyError if there is none."""
        return {role.name: role for role in self.roles}[name]

    def role_arn(self, role: Role) -> str:
        """The ARN of the IAM role behind a role; those that Quilt manages have a path of their own."""
        path = f"quilt/{self.stack_name}/{REGION}"
        return role.external_arn or f"arn:aws:iam::{ACCOUNT_ID}:role/{path}/Quilt-{role.name}"
