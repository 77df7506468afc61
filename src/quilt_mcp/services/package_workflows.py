"""metadata://workflows/{bucket}: the workflows of a bucket, which decide whether a push is accepted."""

import json
from importlib import import_module
from typing import TYPE_CHECKING, cast
from urllib.parse import unquote, urlsplit

from typing_extensions import TypedDict  # pydantic needs it before Python 3.12

from quilt_mcp.core.errors import NotFound, ResourceFailure
from quilt_mcp.services.one_bucket import check_bucket_name
from quilt_mcp.services.packages import make_unknown_bucket
from quilt_mcp.services.stack.callers import current_caller

if TYPE_CHECKING:
    from quilt_mcp.services.stack.aws_clients import AWSClients

CONFIG_KEY = ".quilt/workflows/config.yml"
MAX_CONFIG, MAX_SCHEMA = 20_000, 64_000
MAX_WORKFLOWS, MAX_SCHEMAS = 50, 10


class WorkflowRow(TypedDict):
    """One workflow. What its configuration does not set is null.

    Attributes:
        id: its id, which a push names.
        name: its name.
        description: its description.
        handle_pattern: the regular expression for the names of packages.
        metadata_schema: the id of the schema that the metadata must fulfil.
        entries_schema: the id of the schema that the files must fulfil.
        is_message_required: whether a push needs a message; false is the default.
    """

    id: str
    name: str | None
    description: str | None
    handle_pattern: str | None
    metadata_schema: str | None
    entries_schema: str | None
    is_message_required: bool


class SchemaRow(TypedDict):
    """One JSON Schema.

    Attributes:
        id: its id in the configuration.
        url: where it is; null if the configuration does not say.
        schema: the schema; null if it was not read.
        error: why it was not read; null if it was.
    """

    id: str
    url: str | None
    schema: dict[str, object] | None
    error: str | None


class WorkflowsAnswer(TypedDict):
    """The workflows of a bucket.

    Attributes:
        bucket: its name.
        has_config: whether the bucket has a configuration of workflows. Without one, Quilt checks nothing on a push.
        is_workflow_required: whether a push must name a workflow, if there is no default; null without a configuration.
        default_workflow: the workflow of a push that names none; null if there is none.
        workflows: the workflows, at most 50.
        workflow_count: the number of all workflows.
        schemas: the schemas, at most 10.
        schema_count: the number of all schemas.
        config: the configuration, in YAML, cut at 20,000 characters; null if there is none.
        config_error: why the configuration cannot be parsed; null if it can.
        packages: the URI of the packages of the bucket.
    """

    bucket: str
    has_config: bool
    is_workflow_required: bool | None
    default_workflow: str | None
    workflows: list[WorkflowRow]
    workflow_count: int
    schemas: list[SchemaRow]
    schema_count: int
    config: str | None
    config_error: str | None
    packages: str


def bucket_workflows_get(bucket: str) -> WorkflowsAnswer:
    """What a bucket checks on a push.

    The answer has the configuration in `.quilt/workflows/config.yml` of the bucket, and the JSON Schemas that it names
    in S3. They decide whether Quilt accepts a push: its name, its message, its metadata and its files. Reads one
    object, and one for each schema.
    """
    check_bucket_name(bucket)
    aws = current_caller().aws
    try:
        text = aws.read_object(bucket, CONFIG_KEY, MAX_CONFIG + 1).decode("utf-8", "replace")
    except NotFound as missing:
        if "NoSuchBucket" in (missing.details or ""):
            raise make_unknown_bucket(bucket) from missing
        return _describe(aws, bucket, None, {}, None)
    value, error = cast(
        "tuple[object, str | None]", import_module("quilt_mcp.services.tabulator_config").parse_yaml(text)
    )
    return _describe(aws, bucket, text, value if isinstance(value, dict) else {}, error)


def _describe(
    aws: "AWSClients", bucket: str, text: str | None, config: dict[str, object], error: str | None
) -> WorkflowsAnswer:
    workflows, schemas = (_get_dict(config, name) for name in ("workflows", "schemas"))
    required = None if text is None or error else str(config.get("is_workflow_required", "true")).lower() == "true"
    return {
        "bucket": bucket,
        "has_config": text is not None,
        "is_workflow_required": required,
        "default_workflow": _get_text(config, "default_workflow"),
        "workflows": [_describe_workflow(*one) for one in list(workflows.items())[:MAX_WORKFLOWS]],
        "workflow_count": len(workflows),
        "schemas": [_read_schema(aws, *one) for one in list(schemas.items())[:MAX_SCHEMAS]],
        "schema_count": len(schemas),
        "config": None if text is None else text[:MAX_CONFIG],
        "config_error": error,
        "packages": f"quilt://buckets/{bucket}/packages",
    }


def _get_dict(value: object, name: str) -> dict[str, object]:
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def _get_text(value: object, name: str) -> str | None:
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, str) else None


def _describe_workflow(identifier: str, value: object) -> WorkflowRow:
    return {
        "id": identifier,
        "name": _get_text(value, "name"),
        "description": _get_text(value, "description"),
        "handle_pattern": _get_text(value, "handle_pattern"),
        "metadata_schema": _get_text(value, "metadata_schema"),
        "entries_schema": _get_text(value, "entries_schema"),
        "is_message_required": _get_text(value, "is_message_required") == "true",
    }


def _read_schema(aws: "AWSClients", identifier: str, value: object) -> SchemaRow:
    url = _get_text(value, "url")
    schema, error = None, None
    try:
        parts = urlsplit(url or "")
        if parts.scheme != "s3" or not parts.netloc:
            error = "It is not in S3."
        else:
            content = aws.read_object(parts.netloc, unquote(parts.path.removeprefix("/")), MAX_SCHEMA + 1)
            found = json.loads(content) if len(content) <= MAX_SCHEMA else None
            schema = found if isinstance(found, dict) else None
            error = None if schema is not None else f"It is not an object of JSON with at most {MAX_SCHEMA:,} bytes."
    except ResourceFailure as failure:
        error = f"{failure.message} ({failure.details})"
    except (ValueError, RecursionError):
        error = "It is not JSON."
    return {"id": identifier, "url": url, "schema": schema, "error": error}
