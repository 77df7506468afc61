"""What `quilt-mcp doctor` checks of Quilt: the sign-in and the network.

Each check evaluates what get_resource returned for a resource.
"""

from quilt_mcp.app.checks import Body, Check, fail, make_check
from quilt_mcp.app.domain import Ask

URIS = (
    "auth://status",
    "auth://catalog/info",
    "auth://filesystem/status",
    "permissions://discover",
    "athena://workgroups",
)


async def diagnose(ask: Ask) -> list[Check]:
    """Return the lines of the checklist."""
    status, catalog, directories, access, workgroups = [await ask(uri) for uri in URIS]
    network = check_network(catalog)
    sign_in = check_sign_in(status, network)
    return [
        check_directories(directories),
        check_catalog(catalog),
        network,
        sign_in,
        check_aws_identity(access, sign_in),
        check_buckets(access),
        check_athena(workgroups, access),
    ]


def check_directories(body: Body) -> Check:
    """Check that Quilt and the workflows can write their directories. They do not use the current directory."""
    name = "directories"
    if not body["success"]:
        return fail(name, body)
    needed = {key: one for key, one in body["data"]["directories"].items() if key != "current"}
    read_only = [f"{key} at {one['path']}" for key, one in needed.items() if not one["writable"]]
    if read_only:
        fix = "Make them writable for your user. QUILT_MCP_DATA_DIR sets the directory of the workflows."
        return make_check(name, "failed", f"not writable: {', '.join(read_only)}", fix)
    return make_check(name, "ok", f"{len(needed)} writable")


def check_catalog(catalog: Body) -> Check:
    name = "catalog"
    if not catalog["success"]:
        return fail(name, catalog)
    url = catalog["data"]["catalog_url"] or catalog["data"]["registry_url"]
    if url is None:
        return make_check(
            name, "failed", "not configured", "Run `quilt-mcp login https://<your catalog>` in a terminal."
        )
    return make_check(name, "ok", url)


def check_network(catalog: Body) -> Check:
    name = "network"
    if not catalog["success"]:
        return fail(name, catalog)
    data = catalog["data"]
    if data["config_json"] == "not_configured":
        return make_check(name, "skipped", "no catalog is configured")
    if data["config_json"] != "read":
        fix = f"Check that {data['catalog_url']} opens in a browser, and the network, VPN and proxy of this machine."
        return make_check(name, "failed", f"the catalog's config.json is {data['config_json']}", fix)
    return make_check(name, "ok", f"the catalog responds; stack version {data['stack_version'] or 'not published'}")


def check_sign_in(status: Body, network: Check) -> Check:
    name = "sign-in"
    if not status["success"]:
        return fail(name, status)
    data, user = status["data"], status["data"]["user_info"]
    if data["status"] == "not_configured":
        return make_check(name, "skipped", "no catalog is configured")
    if data["status"] == "unreachable" and network["state"] == "failed":
        return make_check(name, "skipped", "needs the network")
    if user is None and data["authenticated"]:
        return make_check(name, "ok", f"{data['message']} {data['details']}")
    if user is None:
        return make_check(name, "failed", data["message"], " ".join(data["suggested_actions"]))
    rank = "administrator" if user["is_admin"] else "not an administrator"
    return make_check(name, "ok", f"{user['username']}, role {user['role'] or 'none'}, {rank}")


def check_aws_identity(access: Body, sign_in: Check) -> Check:
    """Check that AWS accepts the caller's credentials. Without a sign-in, a failure is expected."""
    name = "AWS identity"
    if access["success"]:
        who = access["data"]["user_identity"]
        replaced = [f"{service} at {host}" for service, host in (who["aws_endpoint"] or {}).items()]
        return make_check(name, "ok", " with ".join(filter(None, (who["arn"], ", ".join(replaced)))))
    return fail(name, access) if sign_in["state"] == "ok" else make_check(name, "skipped", "needs the sign-in")


def check_buckets(access: Body) -> Check:
    """Check that the names of buckets can be listed, and that some buckets can be read."""
    name = "buckets"
    if not access["success"]:
        return make_check(name, "skipped", "needs an AWS identity")
    data = access["data"]
    unread = {source: state for source, state in data["sources"].items() if state != "read"}
    if len(unread) == len(data["sources"]):
        reasons = "; ".join(f"{source}: {state}" for source, state in unread.items())
        return make_check(name, "failed", reasons, "Sign in with `quilt-mcp login`, or request s3:ListAllMyBuckets.")
    readable, total = sum(bool(one["can_read"]) for one in data["bucket_permissions"]), len(data["bucket_permissions"])
    detail = f"{readable} of {total} readable"
    if total and not readable:
        return make_check(name, "failed", detail, "Ask a Quilt administrator to give your role access to a bucket.")
    return make_check(name, "ok", detail)


def check_athena(workgroups: Body, access: Body) -> Check:
    name = "Athena"
    if not access["success"]:
        return make_check(name, "skipped", "needs an AWS identity")
    if not workgroups["success"]:
        return fail(name, workgroups)
    return make_check(name, "ok", f"{workgroups['data']['count']} workgroups in {workgroups['data']['region']}")
