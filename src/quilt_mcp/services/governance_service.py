"""admin://: users, roles and settings of the stack. One GraphQL request each; only administrators may."""

from typing import Any

from quilt_mcp import runtime_context
from quilt_mcp.errors import QueryRefused
from quilt_mcp.services.timestamps import iso

ROLE_KINDS = {"ManagedRole": "managed", "UnmanagedRole": "unmanaged"}


def admin_users_list() -> dict[str, Any]:
    """The users of the stack with their roles and state, sorted by name. For administrators."""
    caller = runtime_context.caller()
    found = caller.admin(lambda registry: registry.users_list(), "the stack's users")
    users = sorted(found, key=lambda user: str(user.name))
    return {"users": [_user(user) for user in users], "count": len(users)}


def _user(user: Any) -> dict[str, Any]:
    return {
        "name": user.name,
        "email": user.email,
        "is_active": user.is_active,
        "is_admin": user.is_admin,
        "is_sso_only": user.is_sso_only,
        "is_service": user.is_service,
        "date_joined": iso(user.date_joined),
        "last_login": iso(user.last_login),
        "role": user.role.name if user.role else None,
        "extra_roles": sorted(role.name for role in user.extra_roles),
    }


def admin_roles_list() -> dict[str, Any]:
    """The roles of the stack with their policies and rights in each bucket, sorted by name. For administrators.

    `type` is "managed" (Quilt writes its policies: these are listed) or "unmanaged" (an IAM role that exists outside
    of Quilt: its policies and permissions are not known here, and null).
    """
    caller = runtime_context.caller()
    found = caller.admin(lambda registry: registry.roles_list(), "the stack's roles")
    roles = sorted(found, key=lambda role: str(role.name))
    return {"roles": [_role(role) for role in roles], "count": len(roles)}


def _role(role: Any) -> dict[str, Any]:
    managed = role.typename__ == "ManagedRole"
    return {
        "id": role.id,
        "name": role.name,
        "arn": role.arn,
        "type": ROLE_KINDS.get(role.typename__, role.typename__),
        "policies": [_policy(policy) for policy in role.policies] if managed else None,
        "permissions": permissions_of(role) if managed else None,
    }


def _policy(policy: Any) -> dict[str, Any]:
    return {"id": policy.id, "title": policy.title, "arn": policy.arn, "managed": policy.managed}


def permissions_of(role: Any) -> list[dict[str, str]]:
    """What a managed role may do: `bucket` and `level` (READ or READ_WRITE), sorted by bucket."""
    rows = [{"bucket": one.bucket.name, "level": str(one.level.value)} for one in role.permissions]
    return sorted(rows, key=lambda row: (row["bucket"], row["level"]))


def admin_sso_config_get() -> dict[str, Any]:
    """The stack's SSO configuration: the YAML that maps SSO claims to roles, who set it and when. For administrators.

    `sso_config` is null where none is set.
    """
    caller = runtime_context.caller()
    config = caller.admin(lambda registry: registry.sso_config_get(), "the SSO configuration")
    if config is None:
        return {"sso_config": None}
    uploader = {"name": config.uploader.name, "email": config.uploader.email} if config.uploader else None
    return {"sso_config": {"text": config.text, "timestamp": iso(config.timestamp), "uploader": uploader}}


def admin_tabulator_open_query_get() -> dict[str, Any]:
    """Whether tabulator's open query is on: tables are then open to any AWS credentials. For administrators."""
    caller = runtime_context.caller()
    try:
        enabled = caller.admin(lambda registry: registry.tabulator_get_open_query(), "tabulator's settings")
    except QueryRefused as refusal:
        refusal.suggested_actions = ["Ask which version the stack has: open query needs Quilt Platform 1.57 or newer."]
        raise
    return {"open_query_enabled": bool(enabled)}
