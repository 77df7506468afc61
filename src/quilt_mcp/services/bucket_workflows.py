"""metadata://workflows/{bucket}: what a bucket checks on a push: its configured workflows, and their schemas."""

import json
from importlib import import_module
from importlib.resources import files
from itertools import islice, starmap
from typing import TYPE_CHECKING, Literal, NotRequired, TypeVar
from urllib.parse import parse_qs, quote, unquote, urlsplit

from typing_extensions import TypedDict

from quilt_mcp.app import current_app
from quilt_mcp.app.json_depth import MAX_DEPTH, is_nested_too_deeply
from quilt_mcp.core.answers import to_json
from quilt_mcp.core.cuts import PAGE_CHARACTERS
from quilt_mcp.core.errors import ResourceFailure
from quilt_mcp.services.bucket_access import check_bucket_name
from quilt_mcp.services.parallel_calls import NOT_IN_TIME, fan_out
from quilt_mcp.services.settings import QuiltSettings
from quilt_mcp.services.stack.callers import current_caller
from quilt_mcp.services.stack.failures import explain
from quilt_mcp.services.stack.graphql import read_float
from quilt_mcp.services.yaml_text import MAX_CHARACTERS, MAX_SHOWN, parse_yaml

if TYPE_CHECKING:
    from quilt_mcp.services.stack.aws import AWSClients

CONFIG_KEY = ".quilt/workflows/config.yml"
MAX_SCHEMA, MAX_REFUSAL = 64_000, 500
MAX_WORKFLOWS, MAX_SCHEMAS = 50, 10
NO_SCHEMA = f"It is not an object of JSON with at most {MAX_SCHEMA:,} bytes and {MAX_DEPTH} levels."
NOT_A_MAPPING = "The configuration is not a mapping of names to values, so Quilt refuses every push."
TRUE = frozenset({"true", "yes", "on"})
"""The words that YAML 1.1, which quilt3 reads, has for true."""

T = TypeVar("T")


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
        schema: the schema; null with the reason in `error`. Infinity and NaN, which JSON does not have, are texts.
        error: why it was not read, or that it does not fit into the answer; null otherwise.
        other_bucket: the bucket in which it is, if that is another one, perhaps of another account: it is read with
            your rights, as quilt3 does on a push; absent otherwise.
    """

    id: str
    url: str | None
    schema: dict[str, object] | None
    error: str | None
    other_bucket: NotRequired[str]


class WorkflowsAnswer(TypedDict):
    """The workflows of a bucket.

    Attributes:
        bucket: its name.
        has_config: whether the bucket has a configuration of workflows. Without one, Quilt checks nothing on a push.
        is_workflow_required: whether a push must name a workflow, if there is no default; null without a configuration,
            or as below.
        default_workflow: the workflow of a push that names none; null if there is none, or as below.
        workflows: the workflows, at most 50; null if the configuration cannot be parsed.
        workflow_count: the number of all workflows; null as above.
        schemas: the schemas, at most 10; null as above.
        schema_count: the number of all schemas; null as above.
        config: the configuration, in YAML, cut at 10,000 characters; null if there is none.
        config_truncated: true if its end is left out; absent if not.
        config_error: why the configuration cannot be parsed, or why quilt3 refuses it, and with it every push; null
            if neither holds.
        packages: the URI of the packages of the bucket.
    """

    bucket: str
    has_config: bool
    is_workflow_required: bool | None
    default_workflow: str | None
    workflows: list[WorkflowRow] | None
    workflow_count: int | None
    schemas: list[SchemaRow] | None
    schema_count: int | None
    config: str | None
    config_truncated: NotRequired[Literal[True]]
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
    content = aws.read_object(bucket, CONFIG_KEY, 4 * MAX_CHARACTERS + 1)
    text = None if content is None else content.decode("utf-8", "replace")
    value, error = (None, None) if text is None else parse_yaml(text)
    config: dict[str, object] = value if isinstance(value, dict) else {}
    is_known = text is None or isinstance(value, dict)
    if content is not None and error is None:
        error = _find_refusal(content) if is_known else NOT_A_MAPPING
    workflows, schemas = (_get(config, name, dict) or {} for name in ("workflows", "schemas"))
    required = _is_true(str(config.get("is_workflow_required", "true"))) if config else None
    answer: WorkflowsAnswer = {
        "bucket": bucket,
        "has_config": text is not None,
        "is_workflow_required": required,
        "default_workflow": _get_text(config, "default_workflow"),
        "workflows": list(starmap(_describe_workflow, islice(workflows.items(), MAX_WORKFLOWS))) if is_known else None,
        "workflow_count": len(workflows) if is_known else None,
        "schemas": None,
        "schema_count": len(schemas) if is_known else None,
        "config": None if text is None else text[:MAX_SHOWN],
        "config_error": error,
        "packages": f"quilt://buckets/{bucket}/packages",
    }
    if text is not None and len(text) > MAX_SHOWN:
        answer["config_truncated"] = True
    if is_known:
        read = _read_schemas(aws, dict(islice(schemas.items(), MAX_SCHEMAS)), bucket)
        answer["schemas"] = _leave_out(read, PAGE_CHARACTERS - len(to_json(answer)))
    return answer


def _leave_out(schemas: list[SchemaRow], room: int) -> list[SchemaRow]:
    """Leave out the schemas for which there is no room beside those before them."""
    shown = list[SchemaRow]()
    for one in schemas:
        size = len(to_json(one["schema"]))
        fits = one["schema"] is None or size <= room
        room -= size if fits else 0
        shown.append(one if fits else {**one, "schema": None, "error": _explain_size(one["url"] or "", size)})
    return shown


def _explain_size(url: str, size: int) -> str:
    place = urlsplit(url)
    uri = f"quilt://buckets/{place.netloc}/object?key={quote(unquote(place.path.removeprefix('/')), safe='')}"
    return f"Its {size:,} characters do not fit into this answer. Read {uri} for its text."


def _find_refusal(content: bytes) -> str | None:
    """Return why quilt3 refuses a configuration that can be parsed; None if it does not."""
    yaml, judge = import_module("yaml"), import_module("quilt3.workflows")
    schema = json.loads(files(judge).joinpath("config-1.schema.json").read_text("utf-8"))
    try:
        config = yaml.safe_load(content.decode())
        judge.jsonschema.Draft7Validator(schema).validate(config)
        version = judge.ConfigDataVersion.parse(judge.WorkflowConfig.get_config_data_version_str(config))
    except judge.jsonschema.ValidationError as error:
        problem = f"{error.json_path}: {error.message}"
    except (yaml.YAMLError, ValueError, TypeError, ArithmeticError, LookupError, AttributeError) as error:
        problem = f"it is not YAML in UTF-8 ({type(error).__name__})"  # dates, numbers and tags raise any of these
    else:
        if judge.WorkflowConfig.is_supported_config_data_version(version):
            return None
        problem = f"its version {version} is not supported"
    return f"quilt3 refuses the configuration, and with it every push: {problem}"[:MAX_REFUSAL]


def _get(value: object, name: str, kind: type[T]) -> T | None:
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, kind) else None


def _get_text(value: object, name: str) -> str | None:
    return _get(value, name, str)


def _describe_workflow(identifier: str, value: object) -> WorkflowRow:
    return {
        "id": identifier,
        "name": _get_text(value, "name"),
        "description": _get_text(value, "description"),
        "handle_pattern": _get_text(value, "handle_pattern"),
        "metadata_schema": _get_text(value, "metadata_schema"),
        "entries_schema": _get_text(value, "entries_schema"),
        "is_message_required": _is_true(_get_text(value, "is_message_required") or ""),
    }


def _is_true(text: str) -> bool:
    """Return what YAML 1.1 makes of a text. Every value is a text here, because `parse_yaml` converts none."""
    return text.lower() in TRUE


def _read_schemas(aws: "AWSClients", schemas: dict[str, object], bucket: str) -> list[SchemaRow]:
    urls = {name: _get_text(value, "url") for name, value in schemas.items()}
    seconds = current_app().settings_as(QuiltSettings).probe_seconds
    found = fan_out(lambda name: _read_schema(aws, name, urls[name], bucket), urls, seconds=seconds)
    late: dict[str, SchemaRow]
    late = {name: {"id": name, "url": url, "schema": None, "error": NOT_IN_TIME} for name, url in urls.items()}
    return list((late | found).values())


def _read_schema(aws: "AWSClients", identifier: str, url: str | None, bucket: str) -> SchemaRow:
    row: SchemaRow = {"id": identifier, "url": url, "schema": None, "error": None}
    try:
        parts = urlsplit(url or "")
    except ValueError:
        return {**row, "error": "Its address is not valid."}
    if parts.scheme != "s3" or not parts.netloc:
        return {**row, "error": "It is not in S3."}
    if parts.netloc != bucket:
        row["other_bucket"] = parts.netloc
    version, key = parse_qs(parts.query).get("versionId", [None])[0], unquote(parts.path.removeprefix("/"))
    try:
        content = aws.read_object(parts.netloc, key, MAX_SCHEMA + 1, version)
        if content is None:
            return {**row, "error": "Not found in S3."}
        is_read = len(content) <= MAX_SCHEMA and not is_nested_too_deeply(content)
        found = json.loads(content, parse_constant=str, parse_float=read_float) if is_read else None
    except ResourceFailure as failure:
        return {**row, "error": explain(failure)}
    except (ValueError, RecursionError):
        return {**row, "error": "It is not JSON."}
    return {**row, "schema": found} if isinstance(found, dict) else {**row, "error": NO_SCHEMA}
