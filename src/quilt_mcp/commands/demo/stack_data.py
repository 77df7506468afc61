"""What the stack's GraphQL API returns to one user: the company's records, in the shape of the schema.

Functions in the values are called only for the fields that a query selects. So the values can refer to each other.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeVar
from uuid import NAMESPACE_URL, uuid5

from quilt_mcp.commands.demo.packages import describe_package, describe_packages, search, search_more
from quilt_mcp.commands.demo.records import ACCOUNT_ID, Bucket, Company, Level, Policy, Role, User

JSON = dict[str, object]

T = TypeVar("T", Bucket, User)


@dataclass(frozen=True)
class Viewer:
    """The user who sends a GraphQL query, and the company's data that the user may see in part."""

    company: Company
    user: User
    is_admin: bool

    @property
    def role(self) -> Role | None:
        """The role that the user has now."""
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
        "potentialCollaborators": lambda _: records.potential_collaborators(),
        "roles": lambda _: [records.role(role) for role in company.roles],
        "role": lambda _, id: next((records.role(role) for role in company.roles if _role_id(role) == id), None),  # noqa: A006 - the schema's name
        "defaultRole": lambda _: records.role(company.find_role(company.default_role)),
        "policies": lambda _: [records.policy(policy) for policy in records.policies],
        "policy": lambda _, id: next((records.policy(one) for one in records.policies if _policy_id(one) == id), None),  # noqa: A006 - the same
        "admin": {
            "user": {
                "list": lambda _: [records.user(user) for user in company.users],
                "get": lambda _, name: _find(company.users, name, records.user),
            },
            "ssoConfig": lambda _: records.sso(),
            "tabulatorOpenQuery": company.open_query,
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


def _find_package(buckets: Iterable[Bucket], bucket: str, name: str) -> JSON | None:
    found = next((one for one in buckets if one.name == bucket), None)
    packages = [one for one in found.packages if one.name == name] if found else []
    return describe_package(found, packages[0]) if found and packages else None


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
        found = [policy for role in company.roles for policy in role.policies]
        self.policies = list({policy.title: policy for policy in found}.values())

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

    def role(self, role: Role) -> JSON:
        known = {"id": _role_id(role), "name": role.name, "arn": self._company.make_role_arn(role)}
        if role.kind or role.external_arn:
            return {"__typename": role.kind or "UnmanagedRole", **known}
        return {
            "__typename": "ManagedRole",
            **known,
            "policies": lambda _: [self.policy(policy) for policy in role.policies],
            "permissions": lambda _: self._permissions(role.permissions, role=lambda _: self.role(role)),
        }

    def policy(self, policy: Policy) -> JSON:
        slug = policy.title.lower().replace(" ", "-")
        levels = policy.permissions if policy.managed else {}
        return {
            "id": _policy_id(policy),
            "title": policy.title,
            "arn": f"arn:aws:iam::{ACCOUNT_ID}:policy/quilt/{self._company.stack_name}/{slug}",
            "managed": policy.managed,
            "permissions": lambda _: self._permissions(levels, policy=lambda _: self.policy(policy)),
            "roles": lambda _: [self.role(role) for role in self._company.roles if policy in role.policies],
        }

    def _permissions(self, levels: Mapping[str, Level], **owner: object) -> list[JSON]:
        buckets = {bucket.name: bucket for bucket in self._company.buckets}
        return [{**owner, "bucket": self.bucket(buckets[name]), "level": level} for name, level in levels.items()]

    def bucket(self, bucket: Bucket) -> JSON:
        """Return the value of a BucketConfig or a Bucket. Absent fields are null."""
        return {
            "name": bucket.name,
            "title": bucket.title,
            "description": bucket.description,
            "tags": list(bucket.tags),
            "relevanceScore": 0,
            "browsable": False,
            "prefixes": [],
            "collaborators": lambda _: self._collaborators(bucket),
            "tabulatorTables": [{"name": name, "config": config} for name, config in bucket.tables.items()],
        }

    def _collaborators(self, bucket: Bucket) -> list[JSON]:
        return [
            {
                "collaborator": _collaborator(user),
                "permissionLevel": self._company.find_role(user.role).permissions[bucket.name],
            }
            for user in self._collaborating
            if user.role and bucket.name in self._company.find_role(user.role).permissions
        ]

    def potential_collaborators(self) -> list[JSON]:
        """Return the users with an unmanaged role, of which Quilt does not know the buckets."""
        return [
            _collaborator(user)
            for user in self._collaborating
            if user.role and self._company.find_role(user.role).external_arn
        ]

    def sso(self) -> JSON | None:
        if self._company.sso is None:
            return None
        uploader = next(user for user in self._company.users if user.is_admin)
        uploaded = {"timestamp": self._company.sso_set_at, "uploader": self.user(uploader)}
        return {"text": self._company.sso, **uploaded}


def _collaborator(user: User) -> JSON:
    return {"email": user.email, "username": user.name}


def _find(records: Iterable[T], name: str, describe: Callable[[T], JSON]) -> JSON | None:
    return next((describe(record) for record in records if record.name == name), None)


def _role_id(role: Role) -> str:
    return _identifier("role", role.name)


def _policy_id(policy: Policy) -> str:
    return _identifier("policy", policy.title)


def _identifier(kind: str, name: str) -> str:
    return str(uuid5(NAMESPACE_URL, f"quilt:{kind}/{name}"))
