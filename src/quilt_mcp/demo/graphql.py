"""The stack's GraphQL endpoint: it executes each operation against the schema of the stack's age.

The values are the company's records, as one user may see them. Functions in the values are called only for the fields
that a query selects, so the values can refer to each other. The versions of the schema, since 2022, all come from
stack_schema.graphql.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from http import HTTPStatus
from pathlib import Path
from typing import Literal, NamedTuple
from uuid import NAMESPACE_URL, uuid5

from graphql import (
    REMOVE,
    DocumentNode,
    FieldDefinitionNode,
    GraphQLError,
    GraphQLResolveInfo,
    GraphQLSchema,
    ObjectTypeDefinitionNode,
    StringValueNode,
    Visitor,
    VisitorAction,
    build_ast_schema,
    default_field_resolver,
    execute_sync,
    extend_schema,
    parse,
    validate,
    visit,
)

from quilt_mcp.demo.accesses import count_accesses, count_by_extension
from quilt_mcp.demo.account import ACCOUNT_ID
from quilt_mcp.demo.http_server import Answer
from quilt_mcp.demo.packages import describe_package, describe_packages, search, search_more
from quilt_mcp.demo.records import APIKey, Bucket, Company, Level, Policy, Role, User

JSON = dict[str, object]


@dataclass(frozen=True)
class Viewer:
    """The user who sends a GraphQL query, and the company's data that the user may see in part."""

    company: Company
    user: User
    is_admin: bool

    @property
    def role(self) -> Role | None:
        return self.company.find_role(self.user.role) if self.user.role else None

    def list_buckets(self) -> list[Bucket]:
        """Return the buckets of the stack that the role may read. Quilt does not know what an unmanaged role may.

        What a role sees that has unmanaged policies only is not public: `Role.sees_stack` decides.
        """
        added = [bucket for bucket in self.company.buckets if bucket.in_stack]
        if self.role is None:
            return []
        if self.role.external_arn or self.role.sees_stack:
            return added
        return [bucket for bucket in added if bucket.name in self.role.permissions]

    def list_bucket_configs(self) -> list[Bucket]:
        """Return the buckets that the user may see in `bucketConfigs`: all of the stack for administrators."""
        if self.is_admin:
            return [bucket for bucket in self.company.buckets if bucket.in_stack]
        return self.list_buckets()


def describe_stack(viewer: Viewer, *, names_caller: bool = True) -> JSON:
    """Return the value of the type Query. `names_caller`: whether users are among their own collaborators."""
    company = viewer.company
    records = _Records(company, unnamed=None if names_caller else viewer.user)
    return {
        "me": _me(viewer),
        "bucketConfigs": lambda _: [records.bucket(one) for one in viewer.list_bucket_configs()],
        "bucketConfig": lambda _, name: _find(viewer.list_bucket_configs(), name, records.bucket),
        "buckets": lambda _: [records.bucket(one) for one in viewer.list_buckets()],
        "bucket": lambda _, name: _find(viewer.list_buckets(), name, records.bucket),
        "packages": lambda _, bucket, filter=None: _find(  # noqa: A006 - the schema's name
            viewer.list_buckets(), bucket, lambda one: describe_packages(one, filter)
        ),
        "package": lambda _, bucket, name: _find_package(viewer.list_buckets(), bucket, name),
        "searchPackages": partial(_search, viewer, "Packages"),
        "searchObjects": partial(_search, viewer, "Objects"),
        "searchMorePackages": lambda _, after, size: search_more("Packages", viewer.list_buckets(), after, size),
        "searchMoreObjects": lambda _, after, size: search_more("Objects", viewer.list_buckets(), after, size),
        "bucketAccessCounts": lambda _, bucket, window: _find(
            viewer.list_buckets(), bucket, lambda one: _count_bucket(one, window)
        ),
        "objectAccessCounts": lambda _, bucket, key, window: _find(
            viewer.list_buckets(), bucket, lambda one: count_accesses(one.reads.get(key, 0), window)
        ),
        "roles": lambda _: [records.role(role) for role in company.roles],
        "admin": {
            "user": {"list": lambda _: [records.user(user) for user in company.users]},
            "ssoConfig": lambda _: records.sso(),
            "tabulatorOpenQuery": company.open_query,
            "apiKeys": {"list": lambda _: [records.api_key(key) for key in company.api_keys]},
        },
    }


def _search(
    viewer: Viewer,
    kind: str,
    _: object,
    buckets: list[str] | None = None,
    searchString: str | None = None,  # noqa: N803 - the schema's name
    **__: object,
) -> JSON:
    return search(kind, viewer.list_buckets(), buckets, searchString)


def _count_bucket(bucket: Bucket, window: int) -> JSON:
    return {
        "byExt": lambda _, groups=None: count_by_extension(bucket.reads, window, groups),
        "combined": count_accesses(sum(bucket.reads.values()), window),
    }


def _find_package(buckets: Iterable[Bucket], bucket: str, name: str) -> JSON | None:
    found = ((one, package) for one in buckets if one.name == bucket for package in one.packages)
    return next((describe_package(one, package) for one, package in found if package.name == name), None)


def _me(viewer: Viewer) -> JSON:
    user = viewer.user
    names = [*([user.role] if user.role else []), *user.extra_roles]
    return {
        "name": user.name,
        "email": user.email,
        "isAdmin": viewer.is_admin,
        "role": {"name": user.role} if user.role else None,
        "roles": [{"name": name} for name in names],
    }


class _Records:
    """The values of a company's records. The unnamed user is in no list of collaborators."""

    def __init__(self, company: Company, unnamed: User | None = None) -> None:
        self._company = company
        self._collaborating = [user for user in company.users if user.is_active and user.role and user != unnamed]

    def user(self, user: User) -> JSON:
        return {
            "name": user.name,
            "email": user.email,
            "dateJoined": user.joined,
            "lastLogin": user.last_login,
            "isActive": user.is_active,
            "isAdmin": user.is_admin,
            "isSsoOnly": user.is_sso_only,
            "isService": user.is_service,
            "role": self.role(self._company.find_role(user.role)) if user.role else None,
            "extraRoles": [self.role(self._company.find_role(name)) for name in user.extra_roles],
        }

    def api_key(self, key: APIKey) -> JSON:
        return {
            "name": key.name,
            "userEmail": next(user.email for user in self._company.users if user.name == key.owner),
            "fingerprint": key.fingerprint,
            "status": key.status,
            "createdAt": key.created,
            "expiresAt": key.expires,
            "lastUsedAt": key.last_used,
        }

    def role(self, role: Role) -> JSON:
        known = {
            "id": str(uuid5(NAMESPACE_URL, f"quilt:role/{role.name}")),
            "name": role.name,
            "arn": self._company.make_role_arn(role),
        }
        if role.kind or role.external_arn:
            return {"__typename": role.kind or "UnmanagedRole", **known}
        return {
            "__typename": "ManagedRole",
            **known,
            "policies": lambda _: [self.policy(policy) for policy in role.policies],
            "permissions": lambda _: self._permissions(role.permissions, {"role": self.role(role)}),
        }

    def policy(self, policy: Policy) -> JSON:
        slug = policy.title.lower().replace(" ", "-")
        levels = policy.permissions if policy.managed else {}
        return {
            "id": str(uuid5(NAMESPACE_URL, f"quilt:policy/{policy.title}")),
            "title": policy.title,
            "arn": f"arn:aws:iam::{ACCOUNT_ID}:policy/quilt/{self._company.stack_name}/{slug}",
            "managed": policy.managed,
            "permissions": lambda _: self._permissions(levels, {"policy": self.policy(policy)}),
        }

    def _permissions(self, levels: Mapping[str, Level], holder: JSON) -> list[JSON]:
        """Return the rights in buckets of `holder`, which is a role or a policy."""
        buckets = {bucket.name: bucket for bucket in self._company.buckets}
        return [{**holder, "bucket": self.bucket(buckets[name]), "level": level} for name, level in levels.items()]

    def bucket(self, bucket: Bucket) -> JSON:
        """Return the value of a BucketConfig or a Bucket. Absent fields are null."""
        return {
            "name": bucket.name,
            "title": bucket.title,
            "description": bucket.description,
            "tags": list(bucket.tags),
            "relevanceScore": 0,
            "lastIndexed": bucket.last_indexed,
            "prefixes": [],
            "associatedPolicies": lambda _: self._policies(bucket),
            "associatedRoles": lambda _: self._roles(bucket),
            "collaborators": lambda _: self._collaborators(bucket),
            "tabulatorTables": [{"name": name, "config": config} for name, config in bucket.tables.items()],
        }

    def _policies(self, bucket: Bucket) -> list[JSON]:
        policies = {policy.title: policy for role in self._company.roles for policy in role.policies if policy.managed}
        return [
            {"policy": self.policy(one), "bucket": self.bucket(bucket), "level": one.permissions[bucket.name]}
            for one in policies.values()
            if bucket.name in one.permissions
        ]

    def _roles(self, bucket: Bucket) -> list[JSON]:
        return [
            {"role": self.role(one), "bucket": self.bucket(bucket), "level": one.permissions[bucket.name]}
            for one in self._company.roles
            if bucket.name in one.permissions
        ]

    def _collaborators(self, bucket: Bucket) -> list[JSON]:
        return [
            {
                "collaborator": {"email": user.email, "username": user.name},
                "permissionLevel": self._company.find_role(user.role).permissions[bucket.name],
            }
            for user in self._collaborating
            if user.role and bucket.name in self._company.find_role(user.role).permissions
        ]

    def sso(self) -> JSON | None:
        if self._company.sso is None:
            return None
        uploader = next(user for user in self._company.users if user.is_admin)
        uploaded = {"timestamp": self._company.sso_set_at, "uploader": self.user(uploader)}
        return {"text": self._company.sso, **uploaded}


def _find(buckets: Iterable[Bucket], name: str, describe: Callable[[Bucket], JSON]) -> JSON | None:
    return next((describe(bucket) for bucket in buckets if bucket.name == name), None)


FILE = Path(__file__).with_name("stack_schema.graphql")

Age = Literal["2022", "2023", "2024-06", "2024-10", "2024-12", "2026-06", "today"]
"""When the stack was last updated."""

DAYS: dict[Age, str] = {
    "2022": "2022-04-30",
    "2023": "2023-12-31",
    "2024-06": "2024-06-30",
    "2024-10": "2024-10-31",
    "2024-12": "2024-12-31",
    "2026-06": "2026-06-30",
    "today": "9999-12-31",
}
"""For each age, the last day of changes that the stack has."""

VERSIONS: dict[Age, str] = {"2024-12": "1.57.0", "2026-06": "1.69.0", "today": "1.71.0"}
"""What config.json says about the version. The catalog shows it since 2024-11-05; older stacks may have none."""


NEW_ROLE_TYPE = "FederatedRole"
"""A made-up type of role, as a later version of the stack can have one."""


@cache
def load_schema(age: Age, *, has_new_role_type: bool = False) -> GraphQLSchema:
    """Return the schema of a stack of this age, if needed with a type of role that no client knows yet."""
    if has_new_role_type:
        fields = "{ id: ID! name: String! arn: String! }"
        extension = f"type {NEW_ROLE_TYPE} {fields} extend union Role = {NEW_ROLE_TYPE}"
        return extend_schema(load_schema(age), parse(extension))
    document = parse(FILE.read_text(encoding="utf-8"), no_location=True)
    return build_ast_schema(visit(document, _Remover(DAYS[age])))


class _Remover(Visitor):
    """Removes what did not exist on a day."""

    def __init__(self, day: str) -> None:
        super().__init__()
        self._day = day

    def enter_object_type_definition(self, node: ObjectTypeDefinitionNode, *_: object) -> VisitorAction:
        return None if _existed(node, self._day) else REMOVE

    def enter_field_definition(self, node: FieldDefinitionNode, *_: object) -> VisitorAction:
        return None if _existed(node, self._day) else REMOVE


def is_for_administrators(field: FieldDefinitionNode | None) -> bool:
    return field is not None and any(mark.name.value == "admin" for mark in field.directives or ())


def _existed(node: ObjectTypeDefinitionNode | FieldDefinitionNode, day: str) -> bool:
    dates = {
        mark.name.value: argument.value.value
        for mark in node.directives or ()
        for argument in mark.arguments or ()
        if isinstance(argument.value, StringValueNode)
    }
    return dates.get("since", "") <= day < dates.get("until", "9999-12-32")


class Query(NamedTuple):
    """The body of a request. `text` is empty if there is no body."""

    text: str = ""
    operation: str | None = None
    variables: Mapping[str, object] = {}

    @classmethod
    def parse(cls, body: bytes) -> "Query":
        value = json.loads(body or b"{}")
        return cls(str(value.get("query") or ""), value.get("operationName"), value.get("variables") or {})


@dataclass(frozen=True)
class Endpoint:
    """How a stack answers queries.

    Attributes:
        age: the version of the stack.
        invalid_status: the HTTP status for a query that does not match the schema. Servers use 200 or 400.
        failing_fields: the fields that cannot be resolved, such as `User.role`.
        names_caller: whether a bucket's collaborators include the user who asks. Not documented: Quilt's catalog
            says "Only you can see this bucket" if there are none.
        has_new_role_type: whether its schema has a type of role that no client knows yet.
    """

    age: Age = "today"
    invalid_status: HTTPStatus = HTTPStatus.OK
    failing_fields: Collection[str] = ()
    names_caller: bool = True
    has_new_role_type: bool = False

    def answer(self, query: Query, viewer: Viewer) -> Answer:
        """Return the response to a query. A failure after validation has the status 200, with or without data."""
        schema = load_schema(self.age, has_new_role_type=self.has_new_role_type)
        checked = _check(query.text, schema)
        if not isinstance(checked, DocumentNode):
            return Answer(self.invalid_status, {"errors": [error.formatted for error in checked]})
        result = execute_sync(
            schema,
            checked,
            describe_stack(viewer, names_caller=self.names_caller),
            _Context(viewer.is_admin, self.failing_fields),
            dict(query.variables),
            query.operation,
            _resolve,
        )
        return Answer(HTTPStatus.OK, result.formatted)


TODAY = Endpoint()


class _Context(NamedTuple):
    is_admin: bool
    failing_fields: Collection[str]


@lru_cache(maxsize=128)
def _check(text: str, schema: GraphQLSchema) -> DocumentNode | list[GraphQLError]:
    """Return the parsed query, or the errors that the schema finds in it."""
    try:
        document = parse(text)
    except GraphQLError as error:
        return [error]
    return validate(schema, document) or document


def _resolve(source: JSON, info: "GraphQLResolveInfo[_Context]", **arguments: object) -> object:
    """Return the value of a field.

    Raises:
        GraphQLError: the field is for administrators, or it fails.
    """
    context = info.context
    if is_for_administrators(info.parent_type.fields[info.field_name].ast_node) and not context.is_admin:
        raise GraphQLError("Unauthorized")
    if f"{info.parent_type.name}.{info.field_name}" in context.failing_fields:
        raise GraphQLError("Internal error")
    return default_field_resolver(source, info, **arguments)
