"""The checks of `quilt-mcp doctor`: each judges what a resource answered."""

import platform
from importlib.util import find_spec
from typing import Any, Literal, TypedDict

from quilt_mcp import __version__

NO_IDENTITY = "there is no AWS identity to try it with"

Body = dict[str, Any]
"""What get_resource answered."""


class Check(TypedDict):
    """One line of the checklist."""

    name: str
    state: Literal["ok", "failed", "skipped", "info"]
    detail: str
    fix: str | None
    """What to do about a failure."""


def installation() -> list[Check]:
    """The versions, and whether the demo world can be entered; for information."""
    missing = "not installed; run `make install EXTRAS=demo` in the source directory"
    return [
        _check("quilt-mcp", "info", __version__),
        _check("Python", "info", f"{platform.python_version()} on {platform.system()}"),
        _check("demo world", "info", "installed" if find_spec("moto") else missing),
    ]


def directories(body: Body) -> Check:
    """Whether Quilt and the workflows can be kept on this machine; the current directory does not matter to them."""
    name = "directories"
    if not body["success"]:
        return _failure(name, body)
    needed = {key: one for key, one in body["data"]["directories"].items() if key != "current"}
    closed = [f"{key} at {one['path']}" for key, one in needed.items() if not one["writable"]]
    if closed:
        fix = "Make them writable for you; the place of workflows is set by QUILT_MCP_DATA_DIR."
        return _check(name, "failed", f"not writable: {', '.join(closed)}", fix)
    return _check(name, "ok", f"{len(needed)} writable")


def configured(catalog: Body) -> Check:
    """Whether a catalog is configured."""
    name = "catalog"
    if not catalog["success"]:
        return _failure(name, catalog)
    url = catalog["data"]["navigator_url"] or catalog["data"]["registry_url"]
    if url is None:
        return _check(name, "failed", "none is configured", "Run `quilt3 config https://<your catalog>` in a terminal.")
    return _check(name, "ok", url)


def reachable(catalog: Body) -> Check:
    """Whether the catalog answers."""
    name = "network"
    if not catalog["success"]:
        return _failure(name, catalog)
    data = catalog["data"]
    if data["config_json"] == "not_configured":
        return _check(name, "skipped", "there is no catalog to reach")
    if data["config_json"] != "read":
        fix = f"Check that {data['navigator_url']} opens in a browser, and the network, VPN and proxy of this machine."
        return _check(name, "failed", f"the catalog's config.json is {data['config_json']}", fix)
    return _check(name, "ok", f"the catalog answers; stack version {data['stack_version'] or 'not published'}")


def signed_in(status: Body, network: Check) -> Check:
    """Whether the catalog accepts the sign-in, and whose it is."""
    name = "sign-in"
    if not status["success"]:
        return _failure(name, status)
    data, user = status["data"], status["data"]["user_info"]
    if data["status"] == "not_configured":
        return _check(name, "skipped", "there is no catalog to sign in to")
    if data["status"] == "unreachable" and network["state"] == "failed":
        return _check(name, "skipped", "it cannot be checked without the network")
    if user is None:
        return _check(name, "failed", data["message"], " ".join(data["suggested_actions"]))
    rank = "administrator" if user["is_admin"] else "no administrator"
    return _check(name, "ok", f"{user['username']}, role {user['role'] or 'none'}, {rank}")


def aws_identity(access: Body, sign_in: Check) -> Check:
    """Whether AWS knows the caller; without a sign-in it need not."""
    name = "AWS identity"
    if access["success"]:
        return _check(name, "ok", access["data"]["user_identity"]["arn"])
    return _failure(name, access) if sign_in["state"] == "ok" else _check(name, "skipped", "it comes with the sign-in")


def buckets(access: Body) -> Check:
    """Whether the names of the buckets could be found, and how many of them may be read."""
    name = "buckets"
    if not access["success"]:
        return _check(name, "skipped", NO_IDENTITY)
    data = access["data"]
    unread = {source: state for source, state in data["sources"].items() if state != "read"}
    if len(unread) == len(data["sources"]):
        reasons = "; ".join(f"{source}: {state}" for source, state in unread.items())
        return _check(name, "failed", reasons, "Sign in with `quilt3 login`, or ask for s3:ListAllMyBuckets.")
    readable, total = sum(bool(one["can_read"]) for one in data["bucket_permissions"]), data["total_buckets_checked"]
    detail = f"{readable} of {total} readable"
    if total and not readable:
        return _check(name, "failed", detail, "Ask a Quilt administrator to give your role access to a bucket.")
    return _check(name, "ok", detail)


def athena(workgroups: Body, access: Body) -> Check:
    """Whether Athena answers."""
    name = "Athena"
    if not access["success"]:
        return _check(name, "skipped", NO_IDENTITY)
    if not workgroups["success"]:
        return _failure(name, workgroups)
    return _check(name, "ok", f"workgroups in {workgroups['data']['region']}: {workgroups['data']['count']}")


def _failure(name: str, body: Body) -> Check:
    detail = body["message"] + (f" ({body['details']})" if body["details"] else "")
    advice = [action for action in body["suggested_actions"] if "quilt-mcp doctor" not in action]
    return _check(name, "failed", detail, next(iter(advice), "Report it with what stands above."))


def _check(name: str, state: Literal["ok", "failed", "skipped", "info"], detail: str, fix: str | None = None) -> Check:
    return {"name": name, "state": state, "detail": detail, "fix": fix}
