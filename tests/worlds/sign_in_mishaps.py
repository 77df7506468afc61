"""Sign-ins that are not as simple as one login: several stacks, other roles, API keys, other processes, other hosts."""

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from http import HTTPStatus

import quilt3.session
import quilt3.util
from moto.iam.models import iam_backends

from quilt_mcp.demo.account import ACCOUNT_ID
from quilt_mcp.demo.aws import PARTITION, Account, create_roles
from quilt_mcp.demo.company import ACME, ADMIN
from quilt_mcp.demo.http_server import FOREIGN, NORTHWIND_REGISTRY, Answer
from quilt_mcp.demo.records import Company, Policy, Role, User
from quilt_mcp.demo.stack import FakeStack, Grant

FAR_FUTURE = 4_102_444_800  # 2100, in seconds since 1970
SWITCHED = replace(
    ACME,
    users=tuple(
        replace(one, role="FinanceAudit", extra_roles=("DataPlatform",)) if one.name == ADMIN else one
        for one in ACME.users
    ),
)
"""The company after the administrator has switched to another of their roles in the catalog."""
NORTHWIND = Company(
    "northwind",
    (User(ADMIN, "2024-03-04T10:00:00Z", "2025-05-20T09:00:00Z", "Analyst"),),
    (Role("Analyst", (Policy("Exchange", {"acme-partner-exchange": "READ_WRITE"}),), runs_queries_in=("primary",)),),
)
"""Another company. The administrator also uses its stack. Its roles are in the same AWS account."""
NAMES_OF_KEYS = {
    "AccessKeyId": "access_key",
    "SecretAccessKey": "secret_key",
    "SessionToken": "token",
    "Expiration": "expiry_time",
}


def create_api_key(stack: FakeStack, user: User) -> str:
    key = f"qk_demo-{user.name}"
    stack.grants[key] = Grant(user, user.is_admin, float("inf"))
    return key


def open_for(account: Account, company: Company) -> Account:
    """Create the IAM roles of another company's stack in an account, and return the account for that stack."""
    create_roles(iam_backends[ACCOUNT_ID][PARTITION], company)
    return Account(company, account.behaviour)


def sign_in_to_two_stacks(_stack: FakeStack, account: Account, _: object) -> None:
    """Add a later login to another stack. quilt3 keeps the AWS credentials of the last login only."""
    tokens = {"access_token": "northwind-access", "refresh_token": "northwind-refresh", "expires_at": FAR_FUTURE}
    add_login(NORTHWIND_REGISTRY, tokens)
    store_keys(open_for(account, NORTHWIND), NORTHWIND.find_user(ADMIN))


def switch_role(_stack: FakeStack, account: Account, _: object) -> None:
    """Keep the AWS credentials of the role that the user had before they switched roles in the catalog."""
    store_keys(account, ACME.find_user(ADMIN))


def use_api_key(stack: FakeStack, *_: object) -> None:
    """Remove the login, and put an API key into the environment."""
    for file in (quilt3.session.AUTH_PATH, quilt3.session.CREDENTIALS_PATH, quilt3.util.CONFIG_PATH):
        file.unlink()
    quilt3.session.clear_session()
    stack.grants.clear()
    stack.refresh_tokens.clear()
    os.environ["QUILT_API_KEY"] = create_api_key(stack, stack.company.find_user(ADMIN))
    os.environ["QUILT_CATALOG_URL"] = stack.url


def lose_renewal_race(stack: FakeStack, *_: object) -> None:
    """Spend the tokens of the login. New ones are in auth.json only after the stack has rejected the old ones."""
    user = stack.company.find_user(ADMIN)
    stack.grants.clear()
    stack.refresh_tokens.clear()
    stack.on_spent_token = lambda: add_login(stack.registry_url, stack.issue_tokens(user))


def name_foreign_registry(stack: FakeStack, *_: object) -> None:
    """Let the catalog name a registry on another domain, and quilt3's files have a login to it."""
    stack.forced["/config.json"] = Answer(HTTPStatus.OK, {**stack.describe_catalog(), "registryUrl": FOREIGN})
    quilt3.util.configure_from_url(stack.url)
    add_login(FOREIGN, stack.issue_tokens(stack.company.find_user(ADMIN)))


def add_login(registry_url: str, tokens: Mapping[str, object]) -> None:
    """Store tokens as quilt3 stores them."""
    logins = json.loads(quilt3.session.AUTH_PATH.read_text(encoding="utf-8"))
    quilt3.session.AUTH_PATH.write_text(json.dumps({**logins, registry_url: tokens}), encoding="utf-8")


def store_keys(account: Account, user: User) -> None:
    """Store AWS credentials for the user's role as quilt3 stores them."""
    keys = {NAMES_OF_KEYS[name]: value for name, value in account.credentials(user).items()}
    quilt3.session.CREDENTIALS_PATH.write_text(json.dumps(keys), encoding="utf-8")
