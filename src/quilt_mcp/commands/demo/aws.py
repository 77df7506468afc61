"""The company's AWS account, in moto. Each request is checked against the policies of its sender, as in AWS."""

import base64
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import patch

from moto import backend_index, mock_aws
from moto.athena.models import Database as AthenaDatabase
from moto.athena.models import athena_backends
from moto.core import enable_iam_authentication
from moto.glue.models import glue_backends
from moto.iam.models import iam_backends
from moto.s3.models import s3_backends
from moto.sts.models import sts_backends

from quilt_mcp.commands.demo import identities, moto_gaps
from quilt_mcp.commands.demo.moto_gaps.athena import DatedWorkGroup, RecordedExecution
from quilt_mcp.commands.demo.moto_gaps.behaviour import Behaviour
from quilt_mcp.commands.demo.packages import store_packages
from quilt_mcp.commands.demo.records import ACCOUNT_ID, REGION, Column, Company, Table, User

PARTITION = "aws"
SERVICES = {"athena", "glue", "iam", "s3", "sts"}
"""What the account has. moto has 160 more, and would compare the address of each request with theirs."""
HIVE = "org.apache.hadoop.hive.ql.io"
FORMATS: dict[str, dict[str, object]] = {
    "parquet": {
        "InputFormat": f"{HIVE}.parquet.MapredParquetInputFormat",
        "OutputFormat": f"{HIVE}.parquet.MapredParquetOutputFormat",
        "SerdeInfo": {"SerializationLibrary": f"{HIVE}.parquet.serde.ParquetHiveSerDe"},
    },
    "csv": {
        "InputFormat": "org.apache.hadoop.mapred.TextInputFormat",
        "OutputFormat": f"{HIVE}.HiveIgnoreKeyTextOutputFormat",
        "SerdeInfo": {
            "SerializationLibrary": "org.apache.hadoop.hive.serde2.OpenCSVSerde",
            "Parameters": {"separatorChar": ","},
        },
    },
}


class Account:
    """The account, with the operations that the Quilt stack and the tests need.

    Attributes:
        behaviour: where AWS is not documented, or differs from account to account. It may be changed at any time.
    """

    def __init__(self, company: Company, behaviour: Behaviour) -> None:
        self.behaviour = behaviour
        self._company = company

    def credentials(self, user: User) -> dict[str, str]:
        """Issue temporary credentials for the user's role, in the format of the Quilt stack.

        Raises:
            LookupError: the user has no role.
        """
        if user.role is None:
            raise LookupError(f"{user.name} has no role")
        role, sts = self._company.find_role(user.role), sts_backends[ACCOUNT_ID][PARTITION]
        arn, policy = self._company.make_role_arn(role), identities.write_session_policy(role)
        issued = sts.assume_role(REGION, user.name, arn, policy, duration=identities.ROLE_SECONDS, external_id="")
        return {
            "AccessKeyId": issued.access_key_id,
            "SecretAccessKey": issued.secret_access_key,
            "SessionToken": issued.session_token,
            "Expiration": issued.expiration.strftime("%Y-%m-%dT%H:%M:%SZ"),
        }

    def open_for(self, company: Company) -> "Account":
        """Create the IAM roles of another company's stack in this account, and return the account for that stack."""
        identities.create_roles(iam_backends[ACCOUNT_ID][PARTITION], company)
        return Account(company, self.behaviour)

    def refuse(self, role: str, *actions: str) -> None:
        """Deny these actions, such as `glue:GetDatabases` or `s3:*`, to a role. This replaces earlier denials."""
        _, name = identities.split_iam_name(self._company, self._company.find_role(role))
        denial = identities.make_document(identities.make_statement(actions, ["*"], effect="Deny"))
        iam_backends[ACCOUNT_ID][PARTITION].put_role_policy(name, "refusals", denial)


@contextmanager
def open_account(company: Company) -> Iterator[Account]:
    """Create the company's account until the context ends. No AWS request leaves the process."""
    behaviour = Behaviour()
    patterns = [(service, pattern) for service, pattern in backend_index.backend_url_patterns if service in SERVICES]
    with (
        patch.object(backend_index, "backend_url_patterns", patterns),
        mock_aws(config={"core": {"mock_credentials": False}}),
        moto_gaps.fill_gaps(behaviour),
    ):
        iam = iam_backends[ACCOUNT_ID][PARTITION]
        identities.create_registry_user(iam)
        identities.create_roles(iam, company)
        _create_buckets(company)
        _create_databases(company)
        _create_work_groups(company)
        _create_tabulator(company)
        _create_queries(company, datetime.now(UTC).replace(microsecond=0))
        with enable_iam_authentication():
            yield Account(company, behaviour)


# This module uses moto's backends. Clients of boto3 would take most of the time of entering a world, and one would be
# needed for each region and account. They also cannot set dates, disable a workgroup, or set when a query ran and how
# it ended.


def _create_buckets(company: Company) -> None:
    for bucket in company.buckets:
        s3 = s3_backends[bucket.account][PARTITION]
        s3.create_bucket(bucket.name, bucket.region).creation_date = datetime.fromisoformat(bucket.created)
        encryption = "aws:kms" if bucket.kms_key else "AES256"  # S3 encrypts every object since January 2023
        for key, text in {**bucket.objects, **store_packages(bucket)}.items():
            checksum = base64.b64encode(zlib.crc32(text.encode()).to_bytes(4, "big")).decode()
            stored = s3.put_object(
                bucket.name,
                key,
                text.encode(),
                encryption=encryption,
                kms_key_id=bucket.kms_key,
                checksum_value=checksum,
            )
            stored.checksum_algorithm = "CRC32"  # AWS SDKs send it by default since January 2025


def _create_databases(company: Company) -> None:
    glue = glue_backends[ACCOUNT_ID][REGION]
    for database in company.databases:
        described = {"Description": database.description, "LocationUri": database.location}
        present = {key: value for key, value in described.items() if value is not None}
        given = {"Name": database.name, "Parameters": dict(database.parameters), **present}
        glue.create_database(database.name, given).created_time = datetime.fromisoformat(database.created)
        for table in database.tables:
            made = glue.create_table(database.name, table.name, _describe_table(table))
            made.created_time = datetime.fromisoformat(table.created)


def _describe_table(table: Table) -> dict[str, object]:
    """Return the definition of a table, as Glue stores it. The location of a view is empty, as Athena creates views."""
    columns, keys = ([_describe_column(one) for one in some] for some in (table.columns, table.partition_keys))
    stored: dict[str, object] = {"Columns": columns, "Location": table.location or ""}
    if table.format:
        stored |= {**FORMATS[table.format], "Compressed": False, "NumberOfBuckets": -1}
    given: dict[str, object] = {
        "Name": table.name,
        "TableType": table.type,
        "Retention": 0,
        "PartitionKeys": keys,
        "Parameters": dict(table.parameters),
        "StorageDescriptor": stored,
    }
    return given if table.description is None else {**given, "Description": table.description}


def _describe_column(column: Column) -> dict[str, str]:
    described = {"Name": column.name, "Type": column.type}
    return described if column.comment is None else {**described, "Comment": column.comment}


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
    """Create the data catalog for tabulator tables, with a database for each bucket that has tables."""
    athena, name = athena_backends[ACCOUNT_ID][REGION], f"quilt-{company.stack_name}-tabulator"
    parameters: Any = {}  # moto annotates it as str
    athena.create_data_catalog(name, "LAMBDA", "Quilt tabulator", parameters, [])
    for bucket in company.buckets:
        if bucket.tables:
            athena.databases[name, bucket.name] = AthenaDatabase(name, bucket.name)
