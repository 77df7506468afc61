"""The company's AWS account, in moto. Each request is checked against the policies of its sender, as in AWS."""

import base64
import json
import zlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import patch

from moto import backend_index, mock_aws
from moto.athena.models import Database as AthenaDatabase
from moto.athena.models import athena_backends
from moto.core import enable_iam_authentication
from moto.glue.models import glue_backends
from moto.iam.models import IAMBackend, iam_backends

# Private, as in moto_gaps.
from moto.moto_api._internal import mock_random
from moto.s3.models import S3Backend, s3_backends
from moto.sts.models import sts_backends

from quilt_mcp.demo import moto_gaps
from quilt_mcp.demo.account import ACCOUNT_ID, REGION
from quilt_mcp.demo.graphql import Age
from quilt_mcp.demo.moto_gaps.athena import DatedWorkGroup, RecordedExecution
from quilt_mcp.demo.moto_gaps.refusals import Behaviour
from quilt_mcp.demo.packages import store_packages
from quilt_mcp.demo.query_engine import QueryEngine
from quilt_mcp.demo.records import Bucket, Column, Company, Role, Statement, Table, User

PARTITION = "aws"
SERVICES = {"athena", "cloudwatch", "glue", "iam", "s3", "sts"}
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
        arn, policy = self._company.make_role_arn(role), write_session_policy(role)
        issued = sts.assume_role(REGION, user.name, arn, policy, duration=ROLE_SECONDS, external_id="")
        return {
            "AccessKeyId": issued.access_key_id,
            "SecretAccessKey": issued.secret_access_key,
            "SessionToken": issued.session_token,
            "Expiration": issued.expiration.strftime("%Y-%m-%dT%H:%M:%SZ"),
        }

    def refuse(self, role: str, *actions: str) -> None:
        """Deny these actions, such as `glue:GetDatabases` or `s3:*`, to a role. This replaces earlier denials."""
        _, name = split_iam_name(self._company, self._company.find_role(role))
        denial = make_document(make_statement(actions, ["*"], effect="Deny"))
        iam_backends[ACCOUNT_ID][PARTITION].put_role_policy(name, "refusals", denial)


@contextmanager
def open_account(company: Company, age: Age = "today") -> Iterator[Account]:
    """Create the company's account until the context ends. No AWS request leaves the process.

    The stack keeps tabulator's data catalog in it since Quilt Platform 1.55, and the database of packages since 1.70.
    `age` is the stack's.
    """
    behaviour = Behaviour()
    patterns = [(service, pattern) for service, pattern in backend_index.backend_url_patterns if service in SERVICES]
    with (
        patch.object(backend_index, "backend_url_patterns", patterns),
        mock_aws(config={"core": {"mock_credentials": False}}),
        moto_gaps.fill_gaps(behaviour, QueryEngine(company)),
    ):
        iam = iam_backends[ACCOUNT_ID][PARTITION]
        create_registry_user(iam)
        create_roles(iam, company)
        _create_buckets(company)
        _create_databases(company, without=() if age == "today" else (f"quilt-{company.stack_name}-icebergdatabase",))
        _create_work_groups(company)
        if age >= "2024-10":  # compared as texts, of which "today" is the last
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
        if bucket.requester_pays:
            s3.get_bucket(bucket.name).payer = "Requester"
        for key, text in {**bucket.objects, **store_packages(bucket)}.items():
            _put(s3, bucket, key, text.encode())
        if bucket.versions:
            s3.put_bucket_versioning(bucket.name, "Enabled")
            _put_versions(s3, bucket)


def _put_versions(s3: S3Backend, bucket: Bucket) -> None:
    for version in bucket.versions:
        if version.content is None:
            s3.delete_object(bucket.name, version.key)
        else:
            _put(s3, bucket, version.key, version.content, version.storage_class)
        stored = s3.get_bucket(bucket.name).keys[version.key]
        stored._version_id = version.id  # noqa: SLF001 - moto draws a random one
        stored.last_modified = datetime.fromtimestamp(version.stored, UTC).replace(tzinfo=None)


def _put(s3: S3Backend, bucket: Bucket, key: str, content: bytes, storage_class: str = "STANDARD") -> None:
    stored = s3.put_object(
        bucket.name,
        key,
        content,
        storage_class,
        encryption="aws:kms" if bucket.kms_key else "AES256",  # S3 encrypts every object since January 2023
        kms_key_id=bucket.kms_key,
        checksum_value=base64.b64encode(zlib.crc32(content).to_bytes(4, "big")).decode(),
    )
    stored.checksum_algorithm = "CRC32"  # AWS SDKs send it by default since January 2025


def _create_databases(company: Company, without: Collection[str]) -> None:
    glue = glue_backends[ACCOUNT_ID][REGION]
    for database in (one for one in company.databases if one.name not in without):
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
        configuration: JSON = {
            "ResultConfiguration": results,
            "EnforceWorkGroupConfiguration": group.enforced,
        }
        engine = {"SelectedEngineVersion": "AUTO", "EffectiveEngineVersion": group.engine}
        configuration["EngineVersion"] = engine
        if group.scan_limit_bytes:
            configuration["BytesScannedCutoffPerQuery"] = group.scan_limit_bytes
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


REGISTRY_USER = "quilt-registry"
ROLE_SECONDS = 3600
"""How long the credentials of a role are valid."""

JSON = dict[str, object]

S3_ACTIONS = {
    "LIST": ("s3:ListBucket", "s3:ListBucketVersions", "s3:GetBucketLocation"),  # the catalog lists versions too
    "READ": ("s3:GetObject", "s3:GetObjectVersion"),
    "READ_WRITE": ("s3:GetObject", "s3:GetObjectVersion", "s3:PutObject", "s3:DeleteObject"),
}
CATALOG_ACTIONS = (
    "athena:ListWorkGroups",
    "athena:GetDataCatalog",
    "athena:ListDataCatalogs",
    "athena:ListDatabases",
    "glue:GetDatabase",
    "glue:GetDatabases",
    "glue:GetTable",
    "glue:GetTables",
)
ICEBERG_BUCKET = "acme-iceberg"
"""The stack keeps the data of its tables about packages in it."""
QUERY_ACTIONS = (
    "athena:BatchGetQueryExecution",
    "athena:GetQueryExecution",
    "athena:GetQueryResults",
    "athena:ListQueryExecutions",
    "athena:StartQueryExecution",
    "athena:StopQueryExecution",
)


def make_statement(actions: Sequence[str], resources: Sequence[str], effect: str = "Allow") -> JSON:
    return {"Effect": effect, "Action": list(actions), "Resource": list(resources)}


def make_document(*statements: JSON) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})


def create_registry_user(iam: IAMBackend) -> None:
    """Create the IAM user of the Quilt stack, which has all rights and an access key."""
    iam.create_user(REGION, REGISTRY_USER)
    _end_request()
    iam.put_user_policy(REGISTRY_USER, "all", make_document(make_statement(["*"], ["*"])))
    _end_request()
    iam.create_access_key(REGISTRY_USER)
    _end_request()


def create_roles(iam: IAMBackend, company: Company) -> None:
    """Create the IAM role of each Quilt role, except unmanaged roles without statements. The stack may assume them."""
    registry = iam.get_user(REGISTRY_USER).arn
    _end_request()
    trust: JSON = {"Effect": "Allow", "Principal": {"AWS": registry}, "Action": "sts:AssumeRole"}
    for role in company.roles:
        if role.external_arn is None or role.statements:
            path, name = split_iam_name(company, role)
            iam.create_role(name, make_document(trust), path, None, "", [], str(ROLE_SECONDS))
            _end_request()
            iam.put_role_policy(name, "quilt", make_document(*_rights(role)))
            _end_request()
            if role.boundary:
                _set_boundary(iam, name, role.boundary)


def split_iam_name(company: Company, role: Role) -> tuple[str, str]:
    """Return the path and the name of the IAM role of a role."""
    path, _, name = company.make_role_arn(role).partition(":role")[2].rpartition("/")
    return f"{path}/", name


def _set_boundary(iam: IAMBackend, role_name: str, boundary: Sequence[Statement]) -> None:
    document = make_document(*map(_write_statement, boundary))
    policy = iam.create_policy("", "/", document, f"{role_name}-boundary", [])
    _end_request()
    iam.put_role_permissions_boundary(role_name, policy.arn)
    _end_request()


def _end_request() -> None:
    """Draw the random ID of a request, as moto's API does. So the roles get the same IDs as through the API."""
    mock_random.get_random_string(length=52)


def _rights(role: Role) -> list[JSON]:
    given = [*role.statements, *(one for policy in role.policies for one in policy.statements)]
    rights = list(map(_write_statement, given))
    if role.external_arn is not None:
        return rights
    rights.append(make_statement(CATALOG_ACTIONS, ["*"]))
    granted = dict.fromkeys(right for policy in role.policies for right in policy.permissions.items())
    for bucket, level in granted:
        rights += [_allow_listing(bucket), make_statement(S3_ACTIONS[level], [f"arn:aws:s3:::{bucket}/*"])]
    rights += [_allow_listing(bucket) for bucket in role.list_only]
    if role.runs_queries_in:
        rights.append(make_statement(QUERY_ACTIONS, _work_groups(role.runs_queries_in)))
        rights.append(make_statement(["s3:GetObject"], [f"arn:aws:s3:::{ICEBERG_BUCKET}/*"]))
    if described := (*role.runs_queries_in, *role.describes):
        rights.append(make_statement(["athena:GetWorkGroup"], _work_groups(described)))
    if role.lists_account:
        rights.append(make_statement(["s3:ListAllMyBuckets"], ["*"]))
    return rights


def write_session_policy(role: Role) -> str:
    """Return the policy with which the stack assumes the IAM role, as JSON; empty for none."""
    return make_document(*map(_write_statement, role.session)) if role.session else ""


def _write_statement(statement: Statement) -> JSON:
    written = make_statement(statement.actions, statement.resources, effect=statement.effect)
    return {**written, "Condition": statement.conditions} if statement.conditions else written


def _allow_listing(bucket: str) -> JSON:
    return make_statement(S3_ACTIONS["LIST"], [f"arn:aws:s3:::{bucket}"])


def _work_groups(names: Sequence[str]) -> list[str]:
    return [f"arn:aws:athena:*:*:workgroup/{name}" for name in names]
