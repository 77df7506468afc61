"""The worlds of AWS: other rights, other sizes and other behaviour of the account.

Known from documentation or from public logs: the policy in `prefix_policy`, the refusals in `glue_denied`, the quotas
in `athena_throttled`, the checks of KMS. Not known, and therefore a guess or a pair of worlds: the response of S3 to a
missing key in `prefix_policy` and `prefix_policy_404`; whether the stack names its buckets to a role that has unmanaged
policies only, as in `prefix_policy`, or not, as in `prefix_policy_hidden`; whether a service ever sends an empty page
token; after how many calls keys expire.
"""

from contextlib import ExitStack
from dataclasses import replace
from http import HTTPStatus
from typing import Any, NamedTuple
from unittest.mock import patch
from urllib.parse import urlsplit

from moto.core.botocore_stubber import BotocoreStubber

from quilt_mcp.demo.account import ACCOUNT_ID, REGION
from quilt_mcp.demo.aws import Account
from quilt_mcp.demo.company import ACME, ADMIN, MEMBER, QUERY_RESULTS
from quilt_mcp.demo.records import Bucket, Company, Policy, Query, Role, Statement, User, WorkGroup
from quilt_mcp.demo.stack import FakeStack
from quilt_mcp.demo.world import Mishap
from tests.worlds.limits import Expiry, Throttle

RAW, RESULTS = "acme-raw-sequencing", "acme-analysis-results"
ACCESS_DENIED = "<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
CALLS_UNTIL_EXPIRY = 3
CLOSED_BUCKETS, STACK_BUCKETS = 1460, 40
THROTTLED_WORK_GROUPS = 60


class AWSWorld(NamedTuple):
    """Who is signed in, the company, and how its account differs. `worlds.py` makes a plan of it."""

    user: str
    company: Company
    mishap: Mishap | None = None


def _name(bucket: str, *keys: str) -> tuple[str, ...]:
    """Return the ARNs of objects; of the bucket itself if there are none."""
    return tuple(f"arn:aws:s3:::{bucket}/{key}" for key in keys) or (f"arn:aws:s3:::{bucket}",)


def _give_role(user_name: str, role: Role, company: Company = ACME) -> Company:
    """Return the company with another role, which the user has. A role with the same name is replaced."""

    def change(user: User) -> User:
        return replace(user, role=role.name, extra_roles=()) if user.name == user_name else user

    others = tuple(one for one in company.roles if one.name != role.name)
    return replace(company, users=tuple(map(change, company.users)), roles=(*others, role))


# Quilt documents this policy for a prefix: rights on the bucket, `.quilt/*` and one prefix. All its actions are here.
PREFIX_ACTIONS = (
    "s3:GetObject",
    "s3:GetObjectTagging",
    "s3:GetObjectVersion",
    "s3:GetObjectVersionTagging",
    "s3:ListBucket",
    "s3:ListBucketVersions",
    "s3:RestoreObject",
    "s3:DeleteObject",
    "s3:PutObject",
    "s3:PutObjectTagging",
)
RUNS_OF_250519 = Policy(
    "Run 250519",
    managed=False,
    statements=(Statement(PREFIX_ACTIONS, (*_name(RAW), *_name(RAW, ".quilt/*", "runs/*"))),),
)
# Here, unlike in Quilt's documentation, also the listing is limited to a prefix.
ATLAS = Policy(
    "Atlas",
    managed=False,
    statements=(
        Statement(("s3:ListBucket",), _name(RESULTS), conditions={"StringLike": {"s3:prefix": "rnaseq/*"}}),
        Statement(("s3:GetObject", "s3:PutObject"), _name(RESULTS, "rnaseq/*")),
    ),
)
PREFIX_MEMBER = Role(
    "RunAnalyst", (RUNS_OF_250519, ATLAS, QUERY_RESULTS), runs_queries_in=("primary",), sees_stack=True
)
PREFIX_MEMBER_HIDDEN = replace(PREFIX_MEMBER, sees_stack=False)

# It reads most buckets of the stack, and writes to one of them. Neither its name nor its content sets that one apart.
CUSTOM_READS = (RESULTS, "acme-clinical-trials", "acme-imaging-eu", "acme-partner-exchange", RAW)
CUSTOM_WRITES = (RAW, "acme-athena-results")
CUSTOM_ADMIN = Role(
    "StackAdministrator",
    external_arn=f"arn:aws:iam::{ACCOUNT_ID}:role/acme-quilt-administrator",
    statements=(
        Statement(
            ("s3:ListBucket", "s3:ListBucketVersions", "s3:GetObject", "s3:GetObjectVersion"),
            tuple(arn for name in (*CUSTOM_READS, "acme-athena-results") for arn in (*_name(name), *_name(name, "*"))),
        ),
        Statement(
            ("s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"),
            tuple(arn for name in CUSTOM_WRITES for arn in _name(name, "*")),
        ),
        Statement(("s3:ListAllMyBuckets", "athena:*", "glue:*", "cloudwatch:GetMetricData")),
    ),
)

PLATFORM = ACME.find_role("DataPlatform")
DENIALS = (
    Statement(("s3:PutObject",), _name(RESULTS, "*"), "Deny"),
    # every key except README.md
    Statement(("s3:GetObject",), _name(RAW, ".quilt/*", "instruments/*", "runs/*"), "Deny"),
)
# No PutObject at all, and nothing in the bucket RAW.
BOUNDARY = (
    Statement(("athena:*", "glue:*", "s3:ListAllMyBuckets")),
    Statement(
        ("s3:ListBucket", "s3:Get*"),
        tuple(
            arn
            for bucket in ACME.buckets
            if bucket.name != RAW
            for arn in (*_name(bucket.name), *_name(bucket.name, "*"))
        ),
    ),
)

OPEN_KEY, CLOSED_KEY = (
    f"arn:aws:kms:{REGION}:{ACCOUNT_ID}:key/{name}"
    for name in ("1234abcd-12ab-34cd-56ef-1234567890ab", "0987dcba-09fe-87dc-65ba-ab0987654321")
)
KMS_ROLE = replace(PLATFORM, statements=(Statement(("kms:Decrypt", "kms:GenerateDataKey"), (OPEN_KEY,)),))


def _encrypt(bucket: Bucket) -> Bucket:
    return replace(bucket, kms_key={RAW: CLOSED_KEY, RESULTS: OPEN_KEY}.get(bucket.name))


KMS = replace(_give_role(ADMIN, KMS_ROLE), buckets=tuple(map(_encrypt, ACME.buckets)))

# Since Quilt 1.70, the registry limits the session of a managed role to the buckets that the role may read, and to
# Quilt's Iceberg tables of these buckets. The IAM role itself may read all of the stack here, which is a guess.
ICEBERG = f"arn:aws:glue:{REGION}:{ACCOUNT_ID}"
LIMITED = ACME.find_role("Researcher")
SESSION = (
    Statement(("s3:ListBucket",), tuple(arn for name in LIMITED.permissions for arn in _name(name))),
    Statement(("s3:Get*",), tuple(arn for name in LIMITED.permissions for arn in _name(name, "*"))),
    Statement(("s3:PutObject", "s3:DeleteObject"), _name(RESULTS, "*")),
    Statement(("athena:*",)),
    Statement(
        ("glue:GetDatabase", "glue:GetDatabases", "glue:GetTable", "glue:GetTables"),
        (
            f"{ICEBERG}:catalog",
            f"{ICEBERG}:database/*",
            *(f"{ICEBERG}:table/quilt-acme-icebergdatabase/{name}_package_*" for name in LIMITED.permissions),
        ),
    ),
)
SESSION_LIMITED = replace(LIMITED, statements=(Statement(("s3:*", "glue:*", "athena:*")),), session=SESSION)

GLUE_DENIED = replace(ACME.find_role("Researcher"), statements=(Statement(("glue:*",), effect="Deny"),))

TEAMS = tuple(f"team-{number:02}" for number in range(THROTTLED_WORK_GROUPS))
THROTTLED = replace(
    ACME,
    work_groups=tuple(WorkGroup(team, "2024-01-08T09:00:00Z", f"Queries of {team}") for team in TEAMS),
    queries=tuple(
        Query(f"5b1e0f3c-0000-4000-8000-{hour:012}", team, "acme_sequencing", "SELECT 1", 60 * hour, 1)
        for hour, team in enumerate(TEAMS)
    ),
)

# The names of the stack's buckets sort last, so that code that truncates a sorted list loses them.
CLOSED = tuple(f"acme-archive-{number:04}" for number in range(CLOSED_BUCKETS))
OPEN = tuple(f"acme-study-{number:02}" for number in range(STACK_BUCKETS))
STUDIES = Policy("Studies", {name: "READ_WRITE" if name == OPEN[-1] else "READ" for name in OPEN[-5:]})
STUDY_LEAD = Role("StudyLead", (STUDIES,), runs_queries_in=("primary",), lists_account=True)
# All users have the same role: the other roles of the company name buckets that this company does not have.
MANY = replace(
    ACME,
    users=tuple(replace(user, role=user.role and STUDY_LEAD.name, extra_roles=()) for user in ACME.users),
    roles=(STUDY_LEAD,),
    databases=(),
    buckets=(
        *(Bucket(name, "", "2024-01-08T09:00:00Z", in_stack=False) for name in CLOSED),
        *(Bucket(name, f"Study {name[-2:]}", "2024-01-08T09:00:00Z", {"README.md": "# Study\n"}) for name in OPEN),
    ),
)


def _answer_missing_keys_with_404(_stack: FakeStack, account: Account, _undo: ExitStack) -> None:
    account.behaviour.missing_key_status = HTTPStatus.NOT_FOUND


def _limit_athena(_stack: FakeStack, account: Account, _undo: ExitStack) -> None:
    account.behaviour.admits = Throttle().admit


def _send_empty_page_tokens(_stack: FakeStack, account: Account, _undo: ExitStack) -> None:
    account.behaviour.empty_page_tokens = True


def _close_archives(_stack: FakeStack, _account: Account, undo: ExitStack) -> None:
    """Refuse everybody: moto takes more than a millisecond to find that a bucket grants no rights."""
    process, closed = BotocoreStubber.process_request, frozenset(CLOSED)

    def refuse(stubber: BotocoreStubber, request: Any) -> object:
        host, path = urlsplit(request.url)[1:3]
        name, _, service = host.partition(".")
        if (name if service.startswith("s3.") else path.split("/")[1] if name == "s3" else "") not in closed:
            return process(stubber, request)
        headers = {"x-amz-bucket-region": REGION, "content-type": "application/xml"}
        return HTTPStatus.FORBIDDEN, headers, "" if request.method == "HEAD" else ACCESS_DENIED

    undo.enter_context(patch.object(BotocoreStubber, "process_request", refuse))


def _expire_keys(_stack: FakeStack, account: Account, _undo: ExitStack) -> None:
    account.behaviour.is_expired = Expiry(CALLS_UNTIL_EXPIRY).count_and_check


AWS_WORLDS: dict[str, AWSWorld] = {
    "prefix_policy": AWSWorld(MEMBER, _give_role(MEMBER, PREFIX_MEMBER)),
    "prefix_policy_404": AWSWorld(MEMBER, _give_role(MEMBER, PREFIX_MEMBER), _answer_missing_keys_with_404),
    "prefix_policy_hidden": AWSWorld(MEMBER, _give_role(MEMBER, PREFIX_MEMBER_HIDDEN)),
    "custom_role": AWSWorld(ADMIN, _give_role(ADMIN, CUSTOM_ADMIN)),
    "denied_by_policy": AWSWorld(ADMIN, _give_role(ADMIN, replace(PLATFORM, statements=DENIALS))),
    "denied_by_boundary": AWSWorld(ADMIN, _give_role(ADMIN, replace(PLATFORM, boundary=BOUNDARY))),
    "denied_by_kms": AWSWorld(ADMIN, KMS),
    "session_policy": AWSWorld(MEMBER, _give_role(MEMBER, SESSION_LIMITED)),
    "glue_denied": AWSWorld(MEMBER, _give_role(MEMBER, GLUE_DENIED)),
    "athena_throttled": AWSWorld(ADMIN, THROTTLED, _limit_athena),
    "many_buckets": AWSWorld(ADMIN, MANY, _close_archives),
    "empty_next_token": AWSWorld(ADMIN, ACME, _send_empty_page_tokens),
    "credentials_expire": AWSWorld(ADMIN, ACME, _expire_keys),
}
