"""Situations of other companies, each with what a user reads: partitions, endpoints, table formats, keys, clocks.

The demo has none of them. AWS and the stack respond as their documentation says.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from fastmcp import Client

from quilt_mcp.demo.world import World
from quilt_mcp.server import QuiltServer, create_server
from tests.contract.surfaces import ask
from tests.services.test_situations import (
    ACCESS,
    DATABASES,
    DISCOVER,
    HISTORY,
    RAW,
    TABLE,
    TABLES,
    WORKGROUPS,
    Reply,
    Situation,
    answering,
    has,
    identity,
    list_refused,
    pick,
    query,
    s3_error,
    table,
    workgroups,
)
from tests.support.worlds import in_world

OBJECT = f"quilt://buckets/{RAW}/object?key=README.md"
SPARK_SCHEMA = (
    '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{"comment":"Key"}},'
    '{"name":"tags","type":{"type":"array","elementType":"string","containsNull":true},"nullable":true,"metadata":{}},'
    '{"name":"day","type":"date","nullable":true,"metadata":{}}]}'
)
SPARK_COLUMN = [{"Name": "col", "Type": "array<string>", "Comment": "from deserializer"}]
ELSEWHERE = "s3://warehouse/t-__PLACEHOLDER__"


def spark_table(provider: str, columns: Any = SPARK_COLUMN, **parameters: str) -> Mapping[str, Any]:
    return table(
        StorageDescriptor={
            "Columns": columns,
            "Location": ELSEWHERE,
            "SerdeInfo": {"Parameters": {"path": "s3://lake/t", "serialization.format": "1"}},
        },
        PartitionKeys=[],
        Parameters={"spark.sql.sources.provider": provider, **parameters},
    )


def aws_error(code: str, message: str = "No.", status: int = 400) -> Reply:
    return Reply({"__type": code, "message": message}, status)


def cut(text: str, size: int) -> dict[str, str]:
    parts = [text[at : at + size] for at in range(0, len(text), size)]
    return {
        "spark.sql.sources.schema.numParts": str(len(parts)),
        **{f"spark.sql.sources.schema.part.{at}": part for at, part in enumerate(parts)},
    }


NO_BUCKETS = {
    "s3.ListBuckets": Reply("<ListAllMyBucketsResult/>"),
    "s3.ListObjectsV2": Reply("<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"),
}

SITUATIONS = {
    # formats of tables
    "Delta table of Spark": Situation(
        TABLE,
        {
            "data.table_format": "delta",
            "data.column_count": 3,
            "data.columns.0.name": "id",
            "data.columns.0.type": "bigint",
            "data.columns.0.comment": "Key",
            "data.columns.1.type": "array<string>",
            "data.location": "s3://lake/t",
            "data.columns_reason": has("Spark stored"),
            "data.partition_keys": None,
        },
        spark_table("delta", **cut(SPARK_SCHEMA, 40)),
    ),
    "Delta table whose schema is in its log": Situation(
        TABLE,
        {
            "data.table_format": "delta",
            "data.columns": None,
            "data.column_count": None,
            "data.columns_reason": has("in its own metadata"),
            "data.location": "s3://lake/t",
        },
        spark_table("delta", **{"spark.sql.sources.schema": '{"type":"struct","fields":[]}'}),
    ),
    "Delta table without columns": Situation(
        TABLE, {"data.table_format": "delta", "data.columns": None}, spark_table("DELTA", [])
    ),
    "Delta table of Athena": Situation(
        TABLE,
        {"data.table_format": "delta", "data.columns.0.name": "a", "data.columns_reason": None},
        table(StorageDescriptor={"Columns": [{"Name": "a", "Type": "int"}]}, Parameters={"table_type": "DELTA"}),
    ),
    "Delta table that Iceberg readers can use": Situation(
        TABLE,
        {"data.table_format": "iceberg", "data.columns.0.name": "a"},
        table(
            StorageDescriptor={"Columns": [{"Name": "a", "Type": "int"}]},
            Parameters={"table_type": "ICEBERG", "spark.sql.sources.provider": "delta"},
        ),
    ),
    "partitions of a Spark table": Situation(
        TABLE,
        {"data.column_count": 2, "data.partition_keys.0.name": "day", "data.table_format": None},
        spark_table(
            "csv",
            **cut(SPARK_SCHEMA, 1000),
            **{"spark.sql.sources.schema.numPartCols": "1", "spark.sql.sources.schema.partCol.0": "day"},
        ),
    ),
    "a schema of Spark that cannot be read": Situation(
        TABLE,
        {"data.columns": None, "data.columns_reason": has("in its own metadata")},
        spark_table("json", **{"spark.sql.sources.schema": '{"fields": [{"name": 1}]}'}),
    ),
    "a schema of Spark that lacks a part": Situation(
        TABLE,
        {"data.columns": None},
        spark_table("json", **{**cut(SPARK_SCHEMA, 60), "spark.sql.sources.schema.part.1": ""}),
    ),
    "a column that is named col": Situation(
        TABLE,
        {"data.columns.0.name": "col", "data.columns_reason": None},
        table(StorageDescriptor={"Columns": SPARK_COLUMN}),
    ),
    "Hudi table": Situation(
        TABLE,
        {"data.table_format": "hudi", "data.columns.0.name": "a", "data.partition_keys.0.name": "day"},
        table(
            StorageDescriptor={
                "Columns": [{"Name": "a", "Type": "int"}],
                "InputFormat": "org.apache.hudi.hadoop.HoodieParquetInputFormat",
            },
            PartitionKeys=[{"Name": "day", "Type": "date"}],
        ),
    ),
    "Delta table in a list": Situation(
        TABLES,
        {
            "data.tables.0.column_count": 3,
            "data.tables.0.location": "s3://lake/t",
            "data.tables.0.table_format": "delta",
        },
        {
            "glue.GetTables": Reply(
                {"TableList": [spark_table("delta", **cut(SPARK_SCHEMA, 90))["glue.GetTable"].body["Table"]]}
            )
        },
    ),
    # Lake Formation
    "table under Lake Formation": Situation(
        TABLE,
        {"data.is_registered_with_lake_formation": True},
        table(IsRegisteredWithLakeFormation=True, StorageDescriptor={"Columns": []}),
    ),
    "Lake Formation refuses": Situation(
        TABLE,
        {"error": "Unauthorized", "suggested_actions.1": has("Lake Formation")},
        {"glue.GetTable": aws_error("AccessDeniedException", "Insufficient Lake Formation permission(s) on t")},
    ),
    # partitions and endpoints
    "China": Situation(
        DISCOVER,
        {"data.user_identity.role_name": "Quilt-Lab", "data.user_identity.aws_endpoint": None},
        identity("arn:aws-cn:sts::1:assumed-role/Quilt-Lab/ann"),
        {"AWS_ENDPOINT_URL_STS": "https://sts.cn-north-1.amazonaws.com.cn"},
    ),
    **{
        " and ".join(variables): Situation(
            DISCOVER,
            {"data.user_identity.aws_endpoint": None},
            {**identity("arn:aws:sts::1:assumed-role/Quilt-Lab/ann"), **NO_BUCKETS},
            {f"AWS_USE_{one}_ENDPOINT": "true" for one in variables},
        )
        for variables in (["DUALSTACK"], ["FIPS"], ["FIPS", "DUALSTACK"])
    },
    "an endpoint that is configured and ignored": Situation(
        DISCOVER,
        {"data.user_identity.aws_endpoint": None},
        env={"AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true"},
    ),
    "PrivateLink": Situation(
        DISCOVER,
        {"data.user_identity.aws_endpoint": None},
        identity("arn:aws:sts::1:assumed-role/Quilt-Lab/ann"),
        {"AWS_ENDPOINT_URL_STS": "https://vpce-1a2b-3c4d.sts.us-east-1.vpce.amazonaws.com"},
    ),
    "a host that only looks like AWS": Situation(
        DISCOVER,
        {"data.user_identity.aws_endpoint": {"sts": "sts.us-east-1.amazonaws.com.example.org"}},
        identity("arn:aws:sts::1:assumed-role/Quilt-Lab/ann"),
        {"AWS_ENDPOINT_URL_STS": "https://sts.us-east-1.amazonaws.com.example.org"},
    ),
    # access points
    "access point in an address": Situation(
        "arn:aws:s3:us-east-1:123456789012:accesspoint/runs",
        {"error": "InvalidURI", "message": has("access point")},
    ),
    "multi-region access point in an address": Situation(
        "arn:aws:s3::123456789012:accesspoint/mfzwi23gnjvgw.mrap",
        {"error": "InvalidURI", "message": has("access point")},
    ),
    "access point with a key": Situation(
        "arn:aws:s3:us-east-1:123456789012:accesspoint/runs/object/README.md",
        {"error": "InvalidURI", "message": has("access point")},
    ),
    # keys
    "disabled KMS key": Situation(
        OBJECT,
        {"message": has("KMS key")},
        {"s3.GetObject": s3_error("KMS.DisabledException", 400)},
    ),
    "key of the customer": Situation(
        OBJECT,
        {"message": has("SSE-C")},
        {
            "s3.GetObject": Reply(
                "<Error><Code>InvalidRequest</Code><Message>The object was stored using a form of Server Side "
                "Encryption. The correct parameters must be provided to retrieve the object.</Message></Error>",
                400,
            )
        },
    ),
    # clocks
    "clock off, S3": Situation(
        OBJECT, {"message": has("clock")}, {"s3.GetObject": s3_error("RequestTimeTooSkewed", 403)}
    ),
    "clock off, Glue": Situation(
        TABLES,
        {"message": has("clock")},
        {
            "glue.GetTables": aws_error(
                "InvalidSignatureException",
                "Signature expired: 20261128T180000Z is now earlier than 20261128T181500Z (20261128T182000Z - 5 min.)",
            )
        },
    ),
    "clock ahead, Athena": Situation(
        WORKGROUPS,
        {"message": has("clock")},
        {
            "athena.ListWorkGroups": aws_error(
                "InvalidSignatureException",
                "Signature not yet current: 20261128T190000Z is still later than 20261128T184500Z",
            )
        },
    ),
    "clock off, STS": Situation(
        DISCOVER,
        {"message": has("clock")},
        {
            "sts.GetCallerIdentity": Reply(
                "<ErrorResponse><Error><Code>SignatureDoesNotMatch</Code><Message>Signature expired: 20261128T180000Z "
                "is now earlier than 20261128T181500Z</Message></Error></ErrorResponse>",
                403,
            )
        },
    ),
    "a wrong signature is not the clock": Situation(
        TABLES,
        {"message": "AWS rejected the signature of the request."},
        {"glue.GetTables": aws_error("InvalidSignatureException", "The request signature does not match.")},
    ),
    # people and accounts
    "IAM Identity Center": Situation(
        DISCOVER,
        {
            "data.user_identity.role_name": "AWSReservedSSO_Data_0123456789abcdef",
            "data.user_identity.user_name": "ann@acme",
        },
        identity("arn:aws:sts::1:assumed-role/AWSReservedSSO_Data_0123456789abcdef/ann@acme"),
    ),
    "federated user": Situation(
        DISCOVER,
        {"data.user_identity.user_type": "federated_user", "data.user_identity.user_name": "ann"},
        identity("arn:aws:sts::1:federated-user/ann"),
    ),
    "user with a path": Situation(
        DISCOVER,
        {"data.user_identity.user_type": "iam_user", "data.user_identity.user_name": "ann"},
        identity("arn:aws:iam::1:user/division/lab/ann"),
    ),
    "bucket of an account that blocks all": Situation(
        ACCESS,
        {"error": "ResourceExecutionError", "message": has("has closed this resource")},
        list_refused("AllAccessDisabled", 403, RAW),
    ),
    # Athena
    "engine version 2": Situation(
        WORKGROUPS,
        {"data.workgroups.0.engine": "Athena engine version 2", "data.workgroups.0.is_spark": False},
        workgroups(
            {"Name": "x", "State": "ENABLED"},
            EngineVersion={"SelectedEngineVersion": "AUTO", "EffectiveEngineVersion": "Athena engine version 2"},
        ),
    ),
    "workgroup of IAM Identity Center": Situation(
        WORKGROUPS,
        {"data.workgroups.0.needs_identity_center": True},
        workgroups({"Name": "x", "State": "ENABLED"}, IdentityCenterConfiguration={"EnableIdentityCenter": True}),
    ),
    "workgroup with customer encryption": Situation(
        WORKGROUPS,
        {"data.workgroups.0.output_location": "s3://b/r/"},
        workgroups(
            {"Name": "x", "State": "ENABLED"},
            ResultConfiguration={
                "OutputLocation": "s3://b/r/",
                "EncryptionConfiguration": {"EncryptionOption": "CSE_KMS", "KmsKey": "k"},
            },
        ),
    ),
    "federated data catalogs": Situation(
        DATABASES,
        {"data.other_data_catalogs.0.name": "dynamo", "data.other_data_catalogs.0.type": "LAMBDA"},
        {
            "athena.ListDataCatalogs": Reply(
                {
                    "DataCatalogsSummary": [
                        {"CatalogName": "AwsDataCatalog", "Type": "GLUE"},
                        {"CatalogName": "dynamo", "Type": "LAMBDA"},
                    ]
                }
            )
        },
    ),
    "more data catalogs than a page": Situation(
        DATABASES,
        {"data.other_data_catalogs.48.name": "c48", "data.other_data_catalogs_truncated": True},
        {
            "athena.ListDataCatalogs": Reply(
                {
                    "DataCatalogsSummary": [
                        {"CatalogName": "AwsDataCatalog", "Type": "GLUE"},
                        *({"CatalogName": f"c{number:02}", "Type": "LAMBDA"} for number in range(49)),
                    ],
                    "NextToken": "t",
                }
            )
        },
    ),
    "data catalogs are refused": Situation(
        DATABASES,
        {"success": True, "data.other_data_catalogs": None},
        {"athena.ListDataCatalogs": aws_error("AccessDeniedException")},
    ),
    "query in a federated catalog": Situation(
        HISTORY,
        {"data.query_history.0.data_catalog": "dynamo", "data.query_history.0.database": "default"},
        {
            "athena.ListWorkGroups": Reply({"WorkGroups": [{"Name": "w"}]}),
            "athena.ListQueryExecutions": Reply({"QueryExecutionIds": ["q"]}),
            "athena.BatchGetQueryExecution": Reply(
                {
                    "QueryExecutions": [
                        {
                            "QueryExecutionId": "q",
                            "QueryExecutionContext": {"Catalog": "dynamo", "Database": "default"},
                            "Status": {"State": "SUCCEEDED"},
                        }
                    ]
                }
            ),
        },
    ),
    "an error of Athena by its category": Situation(
        HISTORY,
        {"data.query_history.0.error": has("SCHEMA_NOT_FOUND")},
        query(StateChangeReason="SCHEMA_NOT_FOUND: line 1:15: Schema 'x' does not exist"),
    ),
    # the stack
    "roles of a bucket that does not exist": Situation(
        "admin://roles?bucket=acme-raw-sequencin", {"error": "NotFound", "message": has("acme-raw-sequencin")}
    ),
    "roles with a right on a bucket": Situation(
        "admin://roles?bucket=acme-imaging-eu",
        {"data.count": 1, "data.roles.0.name": "DataPlatform", "data.unmanaged_roles.0": "LegacyPipeline"},
    ),
    "buckets with spaces": Situation(f"quilt://search/liver?buckets={RAW},%20acme-analysis-results", {"success": True}),
}


@in_world("admin")
@pytest.mark.parametrize("name", SITUATIONS)
async def test_a_cause_is_named_as_it_is(
    name: str, world: World, server: QuiltServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    situation = SITUATIONS[name]
    for variable, value in situation.env.items():
        monkeypatch.setenv(variable, value)
    if situation.failing:
        endpoint = replace(world.stack.endpoint, failing_fields={situation.failing})
        monkeypatch.setattr(world.stack, "endpoint", endpoint)
    with answering(situation.aws):
        async with Client(create_server() if situation.env else server) as client:
            body = (await ask(client, situation.uri)).body
    found = {path: pick(body, path) for path in situation.expected}
    assert found == situation.expected
