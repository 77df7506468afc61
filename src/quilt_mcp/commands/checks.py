"""The checks of `quilt-mcp doctor`. Each evaluates what get_resource returned for a resource."""

import platform
from importlib.util import find_spec
from typing import Literal, TypedDict

from quilt_mcp import __version__
from quilt_mcp.app.build import advise_extra
from quilt_mcp.commands.session import Body

State = Literal["ok", "failed", "skipped", "info"]


class Check(TypedDict):
    """One line of the checklist."""

    name: str
    state: State
    detail: str
    fix: str | None
    """How to fix a failure; None otherwise."""


def describe_installation() -> list[Check]:
    """Return the versions, and whether the demo world is installed."""
    missing = f"not installed; {advise_extra('demo')}"
    return [
        _check("quilt-mcp", "info", __version__),
        _check("Python", "info", f"{platform.python_version()} on {platform.system()}"),
        _check("demo world", "info", "installed" if find_spec("moto") else missing),
    ]


def check_directories(body: Body) -> Check:
    """Check that Quilt and the workflows can write their directories. They do not use the current directory."""
    name = "directories"
    if not body["success"]:
        return _fail(name, body)
    needed = {key: one for key, one in body["data"]["directories"].items() if key != "current"}
    read_only = [f"{key} at {one['path']}" for key, one in needed.items() if not one["writable"]]
    if read_only:
        fix = "Make them writable for your user. QUILT_MCP_DATA_DIR sets the directory of the workflows."
        return _check(name, "failed", f"not writable: {', '.join(read_only)}", fix)
    return _check(name, "ok", f"{len(needed)} writable")


def check_catalog(catalog: Body) -> Check:
    """Check that a catalog is configured."""
    name = "catalog"
    if not catalog["success"]:
        return _fail(name, catalog)
    url = catalog["data"]["navigator_url"] or catalog["data"]["registry_url"]
    if url is None:
        return _check(name, "failed", "not configured", "Run `quilt3 config https://<your catalog>` in a terminal.")
    return _check(name, "ok", url)


def check_network(catalog: Body) -> Check:
    """Check that the catalog responds."""
    name = "network"
    if not catalog["success"]:
        return _fail(name, catalog)
    data = catalog["data"]
    if data["config_json"] == "not_configured":
        return _check(name, "skipped", "no catalog is configured")
    if data["config_json"] != "read":
        fix = f"Check that {data['navigator_url']} opens in a browser, and the network, VPN and proxy of this machine."
        return _check(name, "failed", f"the catalog's config.json is {data['config_json']}", fix)
    return _check(name, "ok", f"the catalog responds; stack version {data['stack_version'] or 'not published'}")


def check_sign_in(status: Body, network: Check) -> Check:
    """Check that the catalog accepts the sign-in."""
    name = "sign-in"
    if not status["success"]:
        return _fail(name, status)
    data, user = status["data"], status["data"]["user_info"]
    if data["status"] == "not_configured":
        return _check(name, "skipped", "no catalog is configured")
    if data["status"] == "unreachable" and network["state"] == "failed":
        return _check(name, "skipped", "needs the network")
    if user is None and data["authenticated"]:
        return _check(name, "ok", f"{data['message']} {data['details']}")
    if user is None:
        return _check(name, "failed", data["message"], " ".join(data["suggested_actions"]))
    rank = "administrator" if user["is_admin"] else "not an administrator"
    return _check(name, "ok", f"{user['username']}, role {user['role'] or 'none'}, {rank}")


def check_aws_identity(access: Body, sign_in: Check) -> Check:
    """Check that AWS accepts the caller's credentials. Without a sign-in, a failure is expected."""
    name = "AWS identity"
    if access["success"]:
        who = access["data"]["user_identity"]
        return _check(name, "ok", " at ".join(filter(None, (who["arn"], who["aws_endpoint"]))))
    return _fail(name, access) if sign_in["state"] == "ok" else _check(name, "skipped", "needs the sign-in")


def check_buckets(access: Body) -> Check:
    """Check that the names of buckets can be listed, and that some buckets can be read."""
    name = "buckets"
    if not access["success"]:
        return _check(name, "skipped", "needs an AWS identity")
    data = access["data"]
    unread = {source: state for source, state in data["sources"].items() if state != "read"}
    if len(unread) == len(data["sources"]):
        reasons = "; ".join(f"{source}: {state}" for source, state in unread.items())
        return _check(name, "failed", reasons, "Sign in with `quilt3 login`, or request s3:ListAllMyBuckets.")
    readable, total = sum(bool(one["can_read"]) for one in data["bucket_permissions"]), len(data["bucket_permissions"])
    detail = f"{readable} of {total} readable"
    if total and not readable:
        return _check(name, "failed", detail, "Ask a Quilt administrator to give your role access to a bucket.")
    return _check(name, "ok", detail)


def check_athena(workgroups: Body, access: Body) -> Check:
    """Check that Athena responds."""
    name = "Athena"
    if not access["success"]:
        return _check(name, "skipped", "needs an AWS identity")
    if not workgroups["success"]:
        return _fail(name, workgroups)
    return _check(name, "ok", f"{workgroups['data']['count']} workgroups in {workgroups['data']['region']}")


def _fail(name: str, body: Body) -> Check:
    detail = body["message"] + (f" ({body['details']})" if body["details"] else "")
    actions = [action for action in body["suggested_actions"] if "quilt-mcp doctor" not in action]
    return _check(name, "failed", detail, next(iter(actions), "Report this problem with the lines above."))


def _check(name: str, state: State, detail: str, fix: str | None = None) -> Check:
    return {"name": name, "state": state, "detail": detail, "fix": fix}
