"""The company's AWS account, in moto: every request is held against the policies of its sender, as AWS does."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import boto3
from moto import mock_aws
from moto.athena.models import Database as AthenaDatabase
from moto.athena.models import athena_backends
from moto.core import enable_iam_authentication
from moto.glue.models import glue_backends
from moto.s3.models import s3_backends

from quilt_mcp.demo import identities, moto_gaps
from quilt_mcp.demo.moto_gaps.athena import DatedWorkGroup, RecordedExecution
from quilt_mcp.demo.records import ACCOUNT_ID, REGION, Company, User


class Account:
    """The account, as the registry and the tests may act on it."""

    def __init__(self, company: Company, key_id: str, secret: str) -> None:
        """Act with the registry's key, which may do everything."""
        self._company = company
        self._sts = _client("sts", key_id, secret)
        self._iam = _client("iam", key_id, secret)

    def credentials(self, user: User) -> dict[str, str]:
        """Temporary credentials for the user's role, in the form in which the registry hands them out.

        Raises:
            LookupError: the user has no role.
        """
        if user.role is None:
            raise LookupError(f"{user.name} has no role")
        arn = self._company.role_arn(self._company.role(user.role))
        issued = self._sts.assume_role(RoleArn=arn, RoleSessionName=user.name)["Credentials"]
        return {**issued, "Expiration": issued["Expiration"].strftime("%Y-%m-%dT%H:%M:%SZ")}

    def refuse(self, role: str, *actions: str) -> None:
        """Deny these actions, such as `glue:GetDatabases` or `s3:*`, to a role from now on, and no others."""
        _, name = identities.iam_name(self._company, self._company.role(role))
        denial = identities.document(identities.statement(actions, ["*"], effect="Deny"))
        self._iam.put_role_policy(RoleName=name, PolicyName="refusals", PolicyDocument=denial)


@contextmanager
def account(company: Company) -> Iterator[Account]:
    """The company's account, for as long as the context lasts. No request leaves the process meanwhile."""
    with mock_aws(config={"core": {"mock_credentials": False}}), moto_gaps.filled():
        iam = _client("iam", "AKIAIOSFODNN7EXAMPLE", "not looked at before IAM is enforced")
        key_id, secret = identities.create_registry_user(iam)
        identities.create_roles(iam, company)
        _create_buckets(company)
        _create_databases(company)
        _create_work_groups(company)
        _create_tabulator(company)
        _create_queries(company, datetime.now(UTC).replace(microsecond=0))
        with enable_iam_authentication():
            yield Account(company, key_id, secret)


@cache
def _client(service: str, key_id: str, secret: str) -> Any:
    """Kept from one world to the next: making clients takes longer than everything else."""
    return boto3.client(service, REGION, aws_access_key_id=key_id, aws_secret_access_key=secret)


# From here on moto's backends are used directly. Its API cannot set dates, disable a workgroup, or say when a query
# ran and how it ended; and it wants a client for each region and account.


def _create_buckets(company: Company) -> None:
    for bucket in company.buckets:
        s3 = s3_backends[bucket.account]["aws"]
        s3.create_bucket(bucket.name, bucket.region).creation_date = datetime.fromisoformat(bucket.created)
        for key, text in bucket.objects.items():
            s3.put_object(bucket.name, key, text.encode())


def _create_databases(company: Company) -> None:
    glue = glue_backends[ACCOUNT_ID][REGION]
    for database in company.databases:
        described = {"Description": database.description, "LocationUri": database.location}
        known = {key: value for key, value in described.items() if value is not None}
        given = {"Name": database.name, "Parameters": dict(database.parameters), **known}
        glue.create_database(database.name, given).created_time = datetime.fromisoformat(database.created)


def _create_work_groups(company: Company) -> None:
    athena = athena_backends[ACCOUNT_ID][REGION]
    for group in company.work_groups:
        results = {"OutputLocation": group.output_location} if group.output_location else {}
        configuration = {"ResultConfiguration": results, "EnforceWorkGroupConfiguration": group.enforced}
        made = DatedWorkGroup(athena, group.name, configuration, group.description, [])
        made.state = "ENABLED" if group.enabled else "DISABLED"
        made.created = datetime.fromisoformat(group.created).timestamp()
        athena.work_groups[group.name] = made


def _create_queries(company: Company, now: datetime) -> None:
    athena = athena_backends[ACCOUNT_ID][REGION]
    locations = {group.name: group.output_location or "s3://acme-athena-results/" for group in company.work_groups}
    for query in company.queries:
        submitted = (now - timedelta(minutes=query.minutes_ago)).timestamp()
        group = athena.work_groups[query.work_group]
        athena.executions[query.id] = RecordedExecution(query, group, submitted, locations[query.work_group])


def _create_tabulator(company: Company) -> None:
    """The data catalog through which Athena reads tabulator tables: a database for each bucket that has some."""
    athena, name = athena_backends[ACCOUNT_ID][REGION], f"quilt-{company.stack_name}-tabulator"
    athena.create_data_catalog(name, "LAMBDA", "Quilt tabulator", "", [])
    for bucket in company.buckets:
        if bucket.tables:
            athena.databases[name, bucket.name] = AthenaDatabase(name, bucket.name)
