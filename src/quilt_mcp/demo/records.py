"""The data of a Quilt stack and its AWS account, as plain records."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple
from urllib.parse import quote

from quilt_mcp.demo.account import ACCOUNT_ID, REGION

Level = Literal["READ", "READ_WRITE"]


class Statement(NamedTuple):
    """A statement of an IAM policy. `conditions` are values by key, by operator."""

    actions: tuple[str, ...]
    resources: tuple[str, ...] = ("*",)
    effect: Literal["Allow", "Deny"] = "Allow"
    conditions: Mapping[str, Mapping[str, str]] = {}


@dataclass(frozen=True)
class Policy:
    """A Quilt policy, and the rights that it gives in each bucket. Quilt knows the rights of managed policies only.

    `statements` are rights that an unmanaged policy gives in another way than for whole buckets.
    """

    title: str
    permissions: Mapping[str, Level] = field(default_factory=dict)
    managed: bool = True
    statements: tuple[Statement, ...] = ()


@dataclass(frozen=True)
class Role:
    """A Quilt role, and the rights of its IAM role.

    Attributes:
        external_arn: for an unmanaged role, the IAM role that was created outside Quilt; None if Quilt manages it.
        list_only: buckets in which it may list objects but not read them.
        runs_queries_in: the Athena workgroups that it may use; `*` means all.
        describes: the Athena workgroups that it may describe, but not use.
        lists_account: whether it may list the buckets of the account.
        sees_stack: whether the stack names all its buckets to it, and not only those of its managed policies.
        statements: other rights and denials of its IAM role. An unmanaged role that has some exists in the account.
        boundary: the permissions boundary of its IAM role; empty for none.
        session: the policy of the sessions that the stack opens for it, as since Quilt 1.70; empty for none.
        kind: its GraphQL type, if that is neither of today's two.
    """

    name: str
    policies: tuple[Policy, ...] = ()
    external_arn: str | None = None
    list_only: tuple[str, ...] = ()
    runs_queries_in: tuple[str, ...] = ()
    describes: tuple[str, ...] = ()
    lists_account: bool = False
    sees_stack: bool = False
    statements: tuple[Statement, ...] = ()
    boundary: tuple[Statement, ...] = ()
    session: tuple[Statement, ...] = ()
    kind: str | None = None

    @property
    def permissions(self) -> dict[str, Level]:
        """For each bucket, the highest level that one of its managed policies gives."""
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
        """The email address, in a domain that is reserved for examples."""
        return f"{self.name.replace('_', '.')}@acme.example.com"


class APIKey(NamedTuple):
    """An API key of a user. Dates are ISO 8601 in UTC; `last_used` is None if it was never used."""

    name: str
    owner: str
    fingerprint: str
    created: str
    expires: str
    last_used: str | None
    status: Literal["ACTIVE", "EXPIRED"] = "ACTIVE"


class Version(NamedTuple):
    """A version of an object in a bucket with versions.

    Attributes:
        key: the key of the object.
        stored: when it was stored, in seconds since 1970.
        content: what it holds; None for a delete marker.
        storage_class: `GLACIER` and `DEEP_ARCHIVE` must be restored before they can be read.
    """

    key: str
    stored: int
    content: bytes | None
    storage_class: str = "STANDARD"

    @property
    def id(self) -> str:
        """The version ID. Those of S3 have 32 characters too."""
        return hashlib.sha256(f"{self.key}@{self.stored}".encode()).hexdigest()[:32]


class Revision(NamedTuple):
    """A revision of a package.

    Attributes:
        created: in seconds since 1970.
        message: its message.
        entries: for each path in the package, the version of an object, or the key of an object without versions.
        user_meta: its metadata.
        workflow: the id of the workflow that the push passed.
    """

    created: int
    message: str | None
    entries: Mapping[str, str | Version] = {}
    user_meta: Mapping[str, object] | None = None
    workflow: str | None = None


class Package(NamedTuple):
    """A package, with its revisions from the oldest to the newest. `reads` is how often it is read on a working day."""

    name: str
    revisions: tuple[Revision, ...]
    reads: int = 0


@dataclass(frozen=True)
class Bucket:
    """An S3 bucket.

    Attributes:
        account: the AWS account that owns it. ListBuckets does not list buckets of other accounts.
        in_stack: whether it was added to the Quilt stack.
        tables: the YAML of its tabulator tables, by name.
        description: what the catalog says about it.
        tags: its tags in the catalog.
        kms_key: the ARN of the KMS key that encrypts its objects; None for the keys of S3.
        last_indexed: when the stack has last read the whole bucket for its search; None for never.
        reads: for some of its keys, how often they are read on a working day.
        requester_pays: whether other accounts must pay for their requests, and say so in each.
        packages: its packages, of these objects and versions.
        versions: what was stored after versioning was enabled, the oldest first; without any, it is not enabled.
    """

    name: str
    title: str
    created: str
    objects: Mapping[str, str] = field(default_factory=dict)
    region: str = REGION
    account: str = ACCOUNT_ID
    in_stack: bool = True
    tables: Mapping[str, str] = field(default_factory=dict)
    description: str | None = None
    tags: tuple[str, ...] = ()
    kms_key: str | None = None
    last_indexed: str | None = None
    reads: Mapping[str, int] = field(default_factory=dict)
    requester_pays: bool = False
    packages: tuple[Package, ...] = ()
    versions: tuple[Version, ...] = ()

    def read(self, place: str | Version) -> bytes:
        """Return the content of an entry of a package."""
        return self.objects[place].encode() if isinstance(place, str) else place.content or b""

    def locate(self, place: str | Version) -> str:
        """Return the physical key of an entry of a package, in the form of quilt3."""
        if isinstance(place, str):
            return f"s3://{self.name}/{quote(place)}"
        return f"s3://{self.name}/{quote(place.key)}?versionId={place.id}"


class Column(NamedTuple):
    """A column of a table, or a partition key. The type is one of Hive."""

    name: str
    type: str
    comment: str | None = None


@dataclass(frozen=True)
class Table:
    """A table of the Glue data catalog. A view has no location and no format.

    Attributes:
        rows: its data: for each row, the values of the columns and then of the partition keys.
        sql: the query of a view, without the name of its database.
    """

    name: str
    created: str
    columns: tuple[Column, ...]
    partition_keys: tuple[Column, ...] = ()
    location: str | None = None
    description: str | None = None
    type: Literal["EXTERNAL_TABLE", "VIRTUAL_VIEW"] = "EXTERNAL_TABLE"
    format: Literal["parquet", "csv"] | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    rows: tuple[tuple[object, ...], ...] = ()
    sql: str | None = None


@dataclass(frozen=True)
class Database:
    """A database of the Glue data catalog. In Glue, the names of databases and tables are in lower case."""

    name: str
    created: str
    description: str | None = None
    location: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    tables: tuple[Table, ...] = ()


@dataclass(frozen=True)
class WorkGroup:
    """An Athena workgroup.

    Attributes:
        scan_limit_bytes: Athena cancels a query that scans more; None for no limit.
        engine: the version of its engine.
    """

    name: str
    created: str
    description: str = ""
    output_location: str | None = None
    enforced: bool = True
    enabled: bool = True
    scan_limit_bytes: int | None = None
    engine: str = "Athena engine version 3"


@dataclass(frozen=True)
class Query:
    """An Athena query that was submitted `minutes_ago` and ended `seconds` later; None if it is still running."""

    id: str
    work_group: str
    database: str
    sql: str
    minutes_ago: int
    seconds: int | None
    scanned_bytes: int = 0
    failure: str | None = None
    catalog: str = "AwsDataCatalog"

    @property
    def state(self) -> str:
        if self.seconds is None:
            return "RUNNING"
        return "FAILED" if self.failure else "SUCCEEDED"


@dataclass(frozen=True)
class Company:
    """All data of a company. `users` are not sorted, because the stack does not sort them."""

    stack_name: str
    users: tuple[User, ...]
    roles: tuple[Role, ...]
    buckets: tuple[Bucket, ...] = ()
    databases: tuple[Database, ...] = ()
    work_groups: tuple[WorkGroup, ...] = ()
    queries: tuple[Query, ...] = ()
    sso: str | None = None
    sso_set_at: str = "2025-02-17T10:04:31Z"
    open_query: bool = False
    api_keys: tuple[APIKey, ...] = ()

    def find_user(self, name: str) -> User:
        return {user.name: user for user in self.users}[name]

    def find_role(self, name: str) -> Role:
        return {role.name: role for role in self.roles}[name]

    def make_role_arn(self, role: Role) -> str:
        """Return the ARN of the IAM role of a role. The roles that Quilt manages have their own path."""
        path = f"quilt/{self.stack_name}/{REGION}"
        return role.external_arn or f"arn:aws:iam::{ACCOUNT_ID}:role/{path}/Quilt-{role.name}"
