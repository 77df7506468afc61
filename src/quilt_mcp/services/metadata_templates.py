"""The metadata templates: their purpose, their fields with placeholder values, and an example.

The placeholder of a text is "unknown", that of a number null. `creation_date` is set when a template is read.
"""

from typing import NamedTuple

from typing_extensions import TypedDict  # pydantic needs it before Python 3.12


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
