"""The metadata templates: what each is for, its fields with placeholder values, and one line that uses it.

The placeholder for a text is "unknown", for a number null. `creation_date` is filled in when a template is read.
"""

from typing import Any, NamedTuple


class Template(NamedTuple):
    """One template.

    Attributes:
        purpose: for which packages it is meant.
        package_type: the value of its field of that name.
        own_fields: the fields that it has beside those of every template, with their placeholders.
        example_usage: Python in which `package` is a `quilt3.Package()` and `template` this template's content.
    """

    purpose: str
    package_type: str
    own_fields: dict[str, Any]
    example_usage: str


TEMPLATES: dict[str, Template] = {
    "analytics": Template(
        "Business figures and reports: the period, who owns them and what they measure.",
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
        "Data sets for machine learning: the stage they are in, their features and their target.",
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
        "Data of a study: its type, its field and whether it is published.",
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
