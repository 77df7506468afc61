"""metadata://: templates for the metadata of Quilt packages, how to use and repair it, and the workflows of a bucket.

Each answer is a copy that the caller may change. Most functions are async because everything is in memory: a thread for
each read, as for other services, would take as long as the rest of the read.
"""

import json
from copy import deepcopy
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple, NotRequired
from urllib.parse import unquote, urlsplit

from typing_extensions import TypedDict

from quilt_mcp.core.errors import NotFound, ResourceFailure
from quilt_mcp.services.packages import make_unknown_bucket
from quilt_mcp.services.permissions_service import check_bucket_name
from quilt_mcp.services.stack.callers import current_caller
from quilt_mcp.services.tabulator_service import parse_yaml

if TYPE_CHECKING:
    from quilt_mcp.services.stack.aws import AWSClients

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


EXAMPLES: ExamplesAnswer = {
    "metadata_usage_guide": {
        "overview": "A Quilt package has one JSON object of metadata. set_meta sets it and push stores it. Quilt "
        "itself requires no fields, but the workflow of a bucket can. In the code, `package` is a quilt3.Package(), "
        "`template` is the data that the tool get_resource returns for that template, and `example` and "
        "`custom_fields` are the values next to the code. If Quilt rejects your metadata, read "
        "metadata://troubleshooting.",
        "recommended_approach": "Read metadata://templates/{template} with get_resource, replace its placeholders, add "
        "your own fields, then call set_meta and push.",
        "working_examples": {
            "basic_dict": {
                "description": "A dict of your own.",
                "example": {"description": "Sensor readings of May 2026", "sensor_count": 12},
                "usage": "package.set_meta(example)",
            },
            "json_string": {
                "description": "JSON text, such as that of a file. Parse it, because set_meta would store a string.",
                "example": '{"description": "Sensor readings of May 2026", "calibrated": true}',
                "usage": "package.set_meta(json.loads(example))",
            },
            "template_based": {
                "description": "A template with its placeholders replaced.",
                "example": {"description": "Liver samples", "created_by": "j.doe"},
                "template": "standard",
                "usage": "package.set_meta({**template, **example})",
            },
            "template_with_custom": {
                "description": "A template with your own fields.",
                "example": {"organism": "Mus musculus", "tissue": "liver", "read_length_bp": 150},
                "template": "genomics",
                "usage": "package.set_meta({**template, **example})",
            },
        },
        "common_patterns": {
            "research_data": {
                "template": "research",
                "custom_fields": {"study_type": "longitudinal", "participants": 120},
                "usage": 'package.set_meta({**template, **custom_fields}).push("sleep/study", registry="s3://my-bucket")',
            },
            "genomics_data": {
                "template": "genomics",
                "custom_fields": {"organism": "Homo sapiens", "genome_build": "GRCh38"},
                "usage": 'package.set_meta({**template, **custom_fields}).push("lab/rna-seq", registry="s3://my-bucket")',
            },
            "ml_dataset": {
                "template": "ml",
                "custom_fields": {"dataset_stage": "train", "features_count": 42},
                "usage": 'package.set_meta({**template, **custom_fields}).push("ml/churn", registry="s3://my-bucket")',
            },
            "business_analytics": {
                "template": "analytics",
                "custom_fields": {"analysis_period": "2026-Q1", "metrics_included": ["revenue_usd"]},
                "usage": 'package.set_meta({**template, **custom_fields}).push("sales/q1", registry="s3://my-bucket")',
            },
        },
    },
    "best_practices": [
        'Start with a template. Replace every "unknown" and null, or remove the field.',
        "Describe the package in one sentence, with words that a colleague would search for.",
        "Use the same field names in all packages of a team. Put units in the names: read_length_bp.",
        'Write dates as ISO 8601 strings ("2026-05-01").',
        "Write numbers as numbers and booleans as booleans, so that searches can compare them.",
        "Do not store credentials or personal data: everyone who can read the package can read its metadata.",
        "Increase `version` with each change. A push creates a new revision and keeps the old ones.",
    ],
}

TROUBLESHOOTING: TroubleshootingAnswer = {
    "common_issues_and_fixes": {
        "schema_validation_error": {
            "error_message": "Metadata failed validation: 'organism' is a required property.",
            "root_cause": "The bucket's .quilt/workflows/config.yml names a JSON Schema (draft 7), and the "
            "metadata do not match it.",
            "solution": "Fetch config.yml and the schema that it names, then correct the field in the message.",
            "working_examples": [
                'quilt3.Bucket("s3://my-bucket").fetch(".quilt/workflows/config.yml", "config.yml")',
                'package.set_meta({**template, "organism": "Homo sapiens"})',
                'package.push("lab/rna-seq", registry="s3://my-bucket", workflow="genomics")',
            ],
            "avoid": [
                "workflow=None to skip the check: Quilt rejects it unless config.yml has is_workflow_required: false."
            ],
        },
        "json_format_error": {
            "error_message": "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
            "root_cause": "The text is a Python dict, or has a trailing comma or a comment. JSON allows none of these.",
            "solution": "Use double quotes, true, false and null, or pass the dict itself to set_meta.",
            "working_examples": [
                """package.set_meta(json.loads('{"organism": "Homo sapiens", "paired_end": true}'))""",
                'package.set_meta({"organism": "Homo sapiens", "paired_end": True})',
            ],
            "avoid": ["{'organism': 'Homo sapiens'}", '{"paired_end": True}', '{"organism": "Homo sapiens",}'],
        },
        "type_validation_error": {
            "error_message": "Object of type date is not JSON serializable",
            "root_cause": "set_meta accepts any value, but push fails on values that JSON does not have. The message "
            "for NaN is: Out of range float values are not JSON compliant",
            "solution": "Convert such values: dates to ISO 8601 strings, sets to lists, numpy numbers to int or float, "
            "NaN to None.",
            "working_examples": [
                'package.set_meta({"collected": date(2026, 5, 1).isoformat()})',
                'package.set_meta({"samples": sorted({"s2", "s1"})})',
                'package.set_meta({"concentration_nm": None})',
            ],
            "avoid": ["date(2026, 5, 1)", '{"s1", "s2"}', 'float("nan")', "a string or a list instead of a dict"],
        },
    },
    "step_by_step_fix": [
        "Read the message. It names the invalid field, type or position.",
        "Find the message in common_issues_and_fixes.",
        "Run `json.dumps(metadata, allow_nan=False)`. It fails on values that are not JSON.",
        "If a schema is the cause, fetch it, and compare its `required` and `properties` with the metadata.",
        "Compare with a template. metadata://templates lists them.",
        "Set the corrected metadata with `package.set_meta(metadata)`, then push again.",
    ],
    "testing_approach": [
        "Check the types: `json.dumps(metadata, allow_nan=False)`.",
        "Check the schema (quilt3 installs jsonschema): `jsonschema.Draft7Validator(schema).validate(metadata)`.",
        'Build without a bucket: `quilt3.Package().set_meta(metadata).build("test/metadata", registry="./registry")`.',
        "Push one small file under a test name before you push the whole package.",
        'Read the metadata back: `quilt3.Package.browse("lab/rna-seq", registry="s3://my-bucket").meta`.',
    ],
    "recommended_workflow": [
        "Read metadata://templates and choose the template that fits best.",
        "Read metadata://templates/{template}, fill in its fields and add your own.",
        "Test the metadata as testing_approach describes.",
        "Read permissions://discover and choose a bucket that you may write to.",
        "Push. For several packages, track progress with workflow_create, workflow_add_step and workflow_update_step.",
    ],
}


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


class Template(NamedTuple):
    """One template.

    Attributes:
        purpose: the packages that it is for.
        package_type: the value of its field `package_type`.
        own_fields: its fields with placeholders, without those that every template has.
        example_usage: Python code. `package` is a `quilt3.Package()` and `template` is the content of this template.
    """

    purpose: str
    package_type: str
    own_fields: OwnFields
    example_usage: str


TEMPLATES: dict[str, Template] = {
    "analytics": Template(
        "Business figures and reports: the period, the owner and the metrics.",
        "analytics",
        {
            "data_type": "business_analytics",
            "analysis_period": "unknown",
            "business_unit": "unknown",
            "metrics_included": [],
        },
        'package.set_meta({**template, "analysis_period": "2026-Q1", "metrics_included": ["revenue_usd"]})',
    ),
    "genomics": Template(
        "Sequencing and other omics data: organism, reference genome, platform and analysis.",
        "genomics",
        {
            "data_type": "genomics",
            "organism": "unknown",
            "genome_build": "unknown",
            "sequencing_platform": "unknown",
            "analysis_type": "unknown",
        },
        'package.set_meta({**template, "organism": "Homo sapiens", "genome_build": "GRCh38"})',
    ),
    "ml": Template(
        "Data sets for machine learning: stage, features and target.",
        "ml_dataset",
        {
            "data_type": "machine_learning",
            "dataset_stage": "unknown",
            "model_ready": False,
            "features_count": None,
            "target_variable": "unknown",
        },
        'package.set_meta({**template, "dataset_stage": "train", "features_count": 42, "model_ready": True})',
    ),
    "research": Template(
        "Data of a study: type, field and publication status.",
        "research",
        {
            "data_type": "research",
            "study_type": "unknown",
            "research_domain": "unknown",
            "publication_status": "unknown",
        },
        'package.set_meta({**template, "study_type": "longitudinal", "publication_status": "preprint"})',
    ),
    "standard": Template(
        "Any package: only the fields that every template has.",
        "data",
        {},
        'package.set_meta({**template, "description": "Sensor readings of May 2026"})',
    ),
}


_CUSTOM_TEMPLATE_TIP = (
    'A template is a starting point, not a schema. Before set_meta, replace every "unknown" and null, remove what does '
    "not apply, and add your own fields."
)
_USAGE_EXAMPLES = (
    'template = get_resource(uri="metadata://templates/genomics")["data"]',
    'package = quilt3.Package().set_dir("/", "results").set_meta({**template, "organism": "Homo sapiens"})',
    'package.push("lab/rna-seq", registry="s3://my-bucket", message="Counts of run 7")',
)


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


async def list_metadata_templates() -> TemplatesAnswer:
    """The metadata templates for Quilt packages, with their fields.

    Returns:
        `available_templates` (by name: description, package_type, data_type, fields and example_usage),
        `usage_examples` and `custom_template_tip`.
    """
    return {
        "available_templates": {name: _summary(TEMPLATES[name]) for name in template_names()},
        "usage_examples": list(_USAGE_EXAMPLES),
        "custom_template_tip": _CUSTOM_TEMPLATE_TIP,
    }


async def show_metadata_examples() -> ExamplesAnswer:
    """Examples and best practices of package metadata.

    Returns:
        `metadata_usage_guide` and `best_practices`.
    """
    return deepcopy(EXAMPLES)


async def fix_metadata_validation_issues() -> TroubleshootingAnswer:
    """Error messages for package metadata, with causes and fixes.

    Returns:
        `common_issues_and_fixes`, `step_by_step_fix`, `testing_approach` and `recommended_workflow`.
    """
    return deepcopy(TROUBLESHOOTING)


async def get_metadata_template(name: str) -> MetadataTemplate:
    """One metadata template, with placeholders.

    Args:
        name: one of `template_names()`.

    Returns:
        A flat object: description, created_by, creation_date (YYYY-MM-DD, in UTC), package_type, version, and the
        template's own fields.

    Raises:
        NotFound: there is no such template.
    """
    template = TEMPLATES.get(name)
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
    """Return the names of the templates, sorted."""
    return sorted(TEMPLATES)


async def find_template_names(prefix: str) -> list[str]:
    """Return the names that start with a prefix, sorted."""
    return [name for name in template_names() if name.startswith(prefix)]


def _fill(template: Template) -> MetadataTemplate:
    return {
        "description": "unknown",
        "created_by": "quilt-mcp",
        "creation_date": datetime.now(UTC).date().isoformat(),
        "package_type": template.package_type,
        "version": "1.0.0",
        **deepcopy(template.own_fields),
    }


def _summary(template: Template) -> TemplateSummary:
    return {
        "description": template.purpose,
        "package_type": template.package_type,
        "data_type": template.own_fields.get("data_type", ""),
        "fields": list(_fill(template)),
        "example_usage": template.example_usage,
    }


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
    value, error = parse_yaml(text)
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
