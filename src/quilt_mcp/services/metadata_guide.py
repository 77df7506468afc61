"""The texts of metadata://examples and metadata://troubleshooting.

In the Python snippets `package` is a `quilt3.Package()` and `template` the content of a template; the guide says so to
its readers too. The error messages are those of quilt3 and of Python's json module, word for word.
"""

from typing import Any

EXAMPLES: dict[str, Any] = {
    "metadata_usage_guide": {
        "overview": "A Quilt package carries one JSON object of metadata, set with set_meta and stored by push. Quilt "
        "itself requires no field; a bucket's workflow may. In the snippets `package` is a quilt3.Package(), "
        "`template` what this server's tool get_resource answers for that template, and `example` and `custom_fields` "
        "are what stands beside the snippet. If Quilt refuses your metadata, read metadata://troubleshooting.",
        "recommended_approach": "Read metadata://templates/{template} with get_resource, replace its placeholders, add "
        "your own fields, then set_meta and push.",
        "working_examples": {
            "basic_dict": {
                "description": "A dict that you write yourself.",
                "example": {"description": "Sensor readings of May 2026", "sensor_count": 12},
                "usage": "package.set_meta(example)",
            },
            "json_string": {
                "description": "JSON text, such as a file's: parse it, for set_meta would store the text as a text.",
                "example": '{"description": "Sensor readings of May 2026", "calibrated": true}',
                "usage": "package.set_meta(json.loads(example))",
            },
            "template_based": {
                "description": "A template, with its placeholders replaced.",
                "example": {"description": "Liver samples", "created_by": "j.doe"},
                "template": "standard",
                "usage": "package.set_meta({**template, **example})",
            },
            "template_with_custom": {
                "description": "A template and fields of your own.",
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
        'Start from a template, and replace every "unknown" and null or remove the field.',
        "Describe the package in one sentence with the words that a colleague would search for.",
        "Use the same field names in all packages of a team, with the unit in the name: read_length_bp.",
        'Write dates as ISO 8601 text ("2026-05-01").',
        "Write numbers as numbers and booleans as booleans, so that searches can compare them.",
        "Keep credentials and personal data out: whoever can read the package can read its metadata.",
        "Raise `version` with each change; a push makes a new revision and keeps the old ones.",
    ],
}

TROUBLESHOOTING: dict[str, Any] = {
    "common_issues_and_fixes": {
        "schema_validation_error": {
            "error_message": "Metadata failed validation: 'organism' is a required property.",
            "root_cause": "The bucket's .quilt/workflows/config.yml names a JSON Schema (draft 7) that the metadata "
            "does not fit.",
            "solution": "Fetch config.yml, then the schema that it names, and correct the field in the message.",
            "working_examples": [
                'quilt3.Bucket("s3://my-bucket").fetch(".quilt/workflows/config.yml", "config.yml")',
                'package.set_meta({**template, "organism": "Homo sapiens"})',
                'package.push("lab/rna-seq", registry="s3://my-bucket", workflow="genomics")',
            ],
            "avoid": [
                "workflow=None to get around the check: refused unless config.yml says is_workflow_required: false."
            ],
        },
        "json_format_error": {
            "error_message": "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
            "root_cause": "The text is a Python dict, or has a trailing comma or a comment; JSON knows none of these.",
            "solution": "Use double quotes, true, false and null; or pass the dict itself to set_meta.",
            "working_examples": [
                """package.set_meta(json.loads('{"organism": "Homo sapiens", "paired_end": true}'))""",
                'package.set_meta({"organism": "Homo sapiens", "paired_end": True})',
            ],
            "avoid": ["{'organism': 'Homo sapiens'}", '{"paired_end": True}', '{"organism": "Homo sapiens",}'],
        },
        "type_validation_error": {
            "error_message": "Object of type date is not JSON serializable",
            "root_cause": "set_meta takes anything; it is push that finds what JSON cannot hold. For NaN it says: "
            "Out of range float values are not JSON compliant",
            "solution": "Convert such values: dates to ISO 8601 text, sets to lists, numpy numbers to int or float, "
            "NaN to None.",
            "working_examples": [
                'package.set_meta({"collected": date(2026, 5, 1).isoformat()})',
                'package.set_meta({"samples": sorted({"s2", "s1"})})',
                'package.set_meta({"concentration_nm": None})',
            ],
            "avoid": ["date(2026, 5, 1)", '{"s1", "s2"}', 'float("nan")', "text or a list in place of the dict"],
        },
    },
    "step_by_step_fix": [
        "Read the message: it names the field, the type or the position that is wrong.",
        "Look the message up in common_issues_and_fixes.",
        "Run `json.dumps(metadata, allow_nan=False)`: it fails on every value that is not JSON.",
        "If a schema is the cause, fetch it and compare its `required` and `properties` with the metadata.",
        "Compare with a template that works: metadata://templates lists them all.",
        "Set the corrected metadata with `package.set_meta(metadata)` and push again.",
    ],
    "testing_approach": [
        "Check the types: `json.dumps(metadata, allow_nan=False)`.",
        "Check the schema; quilt3 installs jsonschema: `jsonschema.Draft7Validator(schema).validate(metadata)`.",
        'Build without a bucket: `quilt3.Package().set_meta(metadata).build("test/metadata", registry="./registry")`.',
        "Push one small file under a test name before the whole package.",
        'Read it back: `quilt3.Package.browse("lab/rna-seq", registry="s3://my-bucket").meta`.',
    ],
    "recommended_workflow": [
        "Read metadata://templates and choose the template that is nearest.",
        "Read metadata://templates/{template}, fill its fields in and add your own.",
        "Test the metadata as in testing_approach.",
        "Read permissions://discover to choose a bucket that you may write to.",
        "Push, and with several packages keep track by workflow_create, workflow_add_step and workflow_update_step.",
    ],
}
