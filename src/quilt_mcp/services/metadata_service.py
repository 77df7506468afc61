"""metadata://: templates for the metadata of Quilt packages, how to use and repair it, and the workflows of a bucket.

Each answer is a copy that the caller may change. Most functions are async because everything is in memory: a thread for
each read, as for other services, would take as long as the rest of the read.
"""

import json
from datetime import UTC, datetime
from functools import cache, partial
from importlib import import_module
from importlib.resources import files
from itertools import islice, starmap
from pathlib import Path
from typing import TYPE_CHECKING, NotRequired, TypeVar
from urllib.parse import parse_qs, unquote, urlsplit

import orjson
from typing_extensions import TypedDict

from quilt_mcp.app import current_app
from quilt_mcp.app.message_text import MAX_DEPTH, is_nested_too_deeply
from quilt_mcp.app.pools import run_in_pool
from quilt_mcp.core.errors import NotFound, ResourceFailure
from quilt_mcp.services.parallel_calls import NOT_IN_TIME, fan_out
from quilt_mcp.services.permissions_service import check_bucket_name
from quilt_mcp.services.settings import QuiltSettings
from quilt_mcp.services.stack.callers import current_caller
from quilt_mcp.services.stack.graphql import read_float
from quilt_mcp.services.tabulator_service import parse_yaml

if TYPE_CHECKING:
    from quilt_mcp.services.stack.aws import AWSClients

T = TypeVar("T")
MetadataValue = str | bool | int | list[str] | None


class WorkingExample(TypedDict):
    """One way to write metadata. Null is a placeholder.

    Attributes:
        description: what it shows.
        example: the metadata, as an object or as JSON text.
        template: the name of the template that it uses, if any.
        usage: Python code that uses `example`.
    """

    description: str
    example: dict[str, MetadataValue] | str
    template: NotRequired[str]
    usage: str


class Pattern(TypedDict):
    """Metadata for one field of work. Null is a placeholder."""

    template: str
    """The name of the template."""
    custom_fields: dict[str, MetadataValue]
    """Fields to set."""
    usage: str
    """Python code that uses them."""


class UsageGuide(TypedDict):
    """How to write metadata."""

    overview: str
    """What the metadata of a package is."""
    recommended_approach: str
    """What to do."""
    working_examples: dict[str, WorkingExample]
    """Ways to write metadata, by name."""
    common_patterns: dict[str, Pattern]
    """Metadata for fields of work, by name."""


class ExamplesAnswer(TypedDict):
    """The answer of metadata://examples."""

    metadata_usage_guide: UsageGuide
    """How to write metadata."""
    best_practices: list[str]
    """Advice, one sentence or two each."""


class Issue(TypedDict):
    """One problem with metadata.

    Attributes:
        error_message: the message of quilt3 or Python.
        root_cause: why it occurs.
        solution: how to fix it.
        working_examples: Python code that works.
        avoid: code and values that cause the problem.
    """

    error_message: str
    root_cause: str
    solution: str
    working_examples: list[str]
    avoid: list[str]


class TroubleshootingAnswer(TypedDict):
    """The answer of metadata://troubleshooting."""

    common_issues_and_fixes: dict[str, Issue]
    """Problems by name."""
    step_by_step_fix: list[str]
    """What to do about an error, in order."""
    testing_approach: list[str]
    """How to test metadata before a push, in order."""
    recommended_workflow: list[str]
    """How to write metadata without errors, in order."""


class OwnFields(TypedDict, total=False):
    """The fields that only some templates have.

    Attributes:
        data_type: the kind of data; all templates except `standard` have it.
        analysis_period: analytics: the period that the figures cover.
        business_unit: analytics: who owns the figures.
        metrics_included: analytics: the names of the figures.
        organism: genomics: the species.
        genome_build: genomics: the reference genome.
        sequencing_platform: genomics: the instrument.
        analysis_type: genomics: the kind of analysis.
        dataset_stage: ml: train, test, …
        model_ready: ml: whether the data can be used for training as they are.
        features_count: ml: the number of features; null as placeholder.
        target_variable: ml: what a model predicts.
        study_type: research: the design of the study.
        research_domain: research: the field.
        publication_status: research: whether it is published.
    """

    data_type: str
    analysis_period: str
    business_unit: str
    metrics_included: list[str]
    organism: str
    genome_build: str
    sequencing_platform: str
    analysis_type: str
    dataset_stage: str
    model_ready: bool
    features_count: int | None
    target_variable: str
    study_type: str
    research_domain: str
    publication_status: str


class _Template(TypedDict):
    purpose: str
    package_type: str
    own_fields: OwnFields
    example_usage: str


class TemplateSummary(TypedDict):
    """One template in the list.

    Attributes:
        description: the packages that it is for.
        package_type: the value of its field `package_type`.
        data_type: the value of its field `data_type`; empty if it has none.
        fields: the names of its fields.
        example_usage: Python code that uses it.
    """

    description: str
    package_type: str
    data_type: str
    fields: list[str]
    example_usage: str


class TemplatesAnswer(TypedDict):
    """The answer of metadata://templates.

    Attributes:
        available_templates: the templates by name.
        usage_examples: Python code that creates a package from a template, line by line.
        custom_template_tip: how to adapt a template.
    """

    available_templates: dict[str, TemplateSummary]
    usage_examples: list[str]
    custom_template_tip: str


class MetadataTemplate(OwnFields):
    """The answer of metadata://templates/{template}: the fields of every template, and the template's own.

    Attributes:
        description: a placeholder.
        created_by: "quilt-mcp".
        creation_date: today in UTC, YYYY-MM-DD.
        package_type: the kind of package.
        version: "1.0.0".
    """

    description: str
    created_by: str
    creation_date: str
    package_type: str
    version: str


class _Texts(TypedDict):
    templates: dict[str, _Template]
    usage_examples: list[str]
    custom_template_tip: str
    examples: ExamplesAnswer
    troubleshooting: TroubleshootingAnswer


@cache
def _read_texts() -> str:
    return Path(__file__).with_name("metadata_texts.json").read_text(encoding="utf-8")


def _load() -> _Texts:
    """Return a new copy of the texts. The placeholder of a text is "unknown", that of a number null."""
    texts: _Texts = orjson.loads(_read_texts())
    return texts


async def list_metadata_templates() -> TemplatesAnswer:
    """Metadata templates for packages."""
    texts = _load()
    return {
        "available_templates": {name: _summary(one) for name, one in sorted(texts["templates"].items())},
        "usage_examples": texts["usage_examples"],
        "custom_template_tip": texts["custom_template_tip"],
    }


async def show_metadata_examples() -> ExamplesAnswer:
    """Examples of package metadata."""
    return _load()["examples"]


async def fix_metadata_validation_issues() -> TroubleshootingAnswer:
    """Metadata errors, with causes and fixes."""
    return _load()["troubleshooting"]


async def get_metadata_template(name: str) -> MetadataTemplate:
    """One metadata template.

    Raises:
        NotFound: there is no such template.
    """
    template = _load()["templates"].get(name)
    if template is None:
        raise NotFound(
            f"There is no metadata template {name!r}.",
            suggested_actions=[
                f"Use one of the existing templates: {', '.join(template_names())}.",
                "Read metadata://templates to see the purpose of each.",
            ],
        )
    return _fill(template)


def template_names() -> list[str]:
    return sorted(_load()["templates"])


async def find_template_names(prefix: str) -> list[str]:
    return [name for name in template_names() if name.startswith(prefix)]


def _fill(template: _Template) -> MetadataTemplate:
    return {
        "description": "unknown",
        "created_by": "quilt-mcp",
        "creation_date": datetime.now(UTC).date().isoformat(),
        "package_type": template["package_type"],
        "version": "1.0.0",
        **template["own_fields"],
    }


def _summary(template: _Template) -> TemplateSummary:
    return {
        "description": template["purpose"],
        "package_type": template["package_type"],
        "data_type": template["own_fields"].get("data_type", ""),
        "fields": list(_fill(template)),
        "example_usage": template["example_usage"],
    }


CONFIG_KEY = ".quilt/workflows/config.yml"
MAX_CONFIG, MAX_SCHEMA, MAX_REFUSAL = 20_000, 64_000, 500
NO_SCHEMA = f"It is not an object of JSON with at most {MAX_SCHEMA:,} bytes and {MAX_DEPTH} levels."
NOT_A_MAPPING = "The configuration is not a mapping of names to values, so Quilt refuses every push."
MAX_WORKFLOWS, MAX_SCHEMAS = 50, 10
TRUE = frozenset({"true", "yes", "on"})
"""The words that YAML 1.1, which quilt3 reads, has for true."""


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
        schema: the schema; null if it was not read. Infinity and NaN, which JSON does not have, are texts.
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
        is_workflow_required: whether a push must name a workflow, if there is no default; null without a configuration,
            or as below.
        default_workflow: the workflow of a push that names none; null if there is none, or as below.
        workflows: the workflows, at most 50; null if the configuration cannot be parsed.
        workflow_count: the number of all workflows; null as above.
        schemas: the schemas, at most 10; null as above.
        schema_count: the number of all schemas; null as above.
        config: the configuration, in YAML, cut at 20,000 characters; null if there is none.
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
    config_error: str | None
    packages: str


async def bucket_workflows_get(bucket: str) -> WorkflowsAnswer:
    """What a bucket checks on a push.

    The answer has the configuration in `.quilt/workflows/config.yml` of the bucket, and the JSON Schemas that it names
    in S3. They decide whether Quilt accepts a push: its name, its message, its metadata and its files. Reads one
    object, and one for each schema.
    """
    check_bucket_name(bucket)
    return await run_in_pool("aws", partial(_read_workflows, bucket))


def _read_workflows(bucket: str) -> WorkflowsAnswer:
    aws = current_caller().aws
    content = _read_config(aws, bucket)
    text = None if content is None else content.decode("utf-8", "replace")
    value, error = (None, None) if text is None else parse_yaml(text)
    config: dict[str, object] = value if isinstance(value, dict) else {}
    is_known = text is None or isinstance(value, dict)
    if content is not None and error is None:
        error = _find_refusal(content) if is_known else NOT_A_MAPPING
    workflows, schemas = (_get(config, name, dict) or {} for name in ("workflows", "schemas"))
    required = _is_true(str(config.get("is_workflow_required", "true"))) if config else None
    return {
        "bucket": bucket,
        "has_config": text is not None,
        "is_workflow_required": required,
        "default_workflow": _get_text(config, "default_workflow"),
        "workflows": list(starmap(_describe_workflow, islice(workflows.items(), MAX_WORKFLOWS))) if is_known else None,
        "workflow_count": len(workflows) if is_known else None,
        "schemas": _read_schemas(aws, dict(islice(schemas.items(), MAX_SCHEMAS))) if is_known else None,
        "schema_count": len(schemas) if is_known else None,
        "config": None if text is None else text[:MAX_CONFIG],
        "config_error": error,
        "packages": f"quilt://buckets/{bucket}/packages",
    }


def _read_config(aws: "AWSClients", bucket: str) -> bytes | None:
    try:
        return aws.read_object(bucket, CONFIG_KEY, 4 * MAX_CONFIG + 1)
    except NotFound as missing:
        if "NoSuchBucket" in (missing.details or ""):
            actions = ["Read permissions://discover to see the names of your buckets."]
            raise NotFound(f"S3 has no bucket {bucket!a}.", suggested_actions=actions) from missing
        return None


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


def _read_schemas(aws: "AWSClients", schemas: dict[str, object]) -> list[SchemaRow]:
    urls = {name: _get_text(value, "url") for name, value in schemas.items()}
    seconds = current_app().settings_as(QuiltSettings).probe_seconds
    found = fan_out(lambda name: _read_schema(aws, name, urls[name]), urls, seconds=seconds)
    late: dict[str, SchemaRow]
    late = {name: {"id": name, "url": url, "schema": None, "error": NOT_IN_TIME} for name, url in urls.items()}
    return list((late | found).values())


def _read_schema(aws: "AWSClients", identifier: str, url: str | None) -> SchemaRow:
    row: SchemaRow = {"id": identifier, "url": url, "schema": None, "error": None}
    try:
        parts = urlsplit(url or "")
    except ValueError:
        return {**row, "error": "Its address is not valid."}
    if parts.scheme != "s3" or not parts.netloc:
        return {**row, "error": "It is not in S3."}
    version, key = parse_qs(parts.query).get("versionId", [None])[0], unquote(parts.path.removeprefix("/"))
    try:
        content = aws.read_object(parts.netloc, key, MAX_SCHEMA + 1, version)
        is_read = len(content) <= MAX_SCHEMA and not is_nested_too_deeply(content)
        found = json.loads(content, parse_constant=str, parse_float=read_float) if is_read else None
    except ResourceFailure as failure:
        return {**row, "error": f"{failure.message} ({failure.details})"}
    except (ValueError, RecursionError):
        return {**row, "error": "It is not JSON."}
    return {**row, "schema": found} if isinstance(found, dict) else {**row, "error": NO_SCHEMA}
