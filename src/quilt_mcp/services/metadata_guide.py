"""The texts of metadata://examples and metadata://troubleshooting.

In the Python code `package` is a `quilt3.Package()` and `template` is the content of a template. The guide says so too.
The error messages are exactly those of quilt3 and of Python's json module.
"""

from typing import NotRequired

from typing_extensions import TypedDict  # pydantic needs it before Python 3.12

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
