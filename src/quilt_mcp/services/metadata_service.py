"""metadata://: templates for the metadata of Quilt packages, and how to use and repair it. Promised to Python callers.

Each answer is a copy that the caller may change. The functions are async because everything is in memory: a thread for
each read, as for other services, would take as long as the rest of the read.
"""

from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import NotRequired

import orjson
from typing_extensions import TypedDict

from quilt_mcp.core.errors import NotFound

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
        error: the message of quilt3 or Python.
        root_cause: why it occurs.
        solution: how to fix it.
        working_examples: Python code that works.
        avoid: code and values that cause the problem.
    """

    error: str
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
        uri: the URI of the template.
    """

    description: str
    package_type: str
    data_type: str
    fields: list[str]
    example_usage: str
    uri: str


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
        "available_templates": {
            name: _summary(name, template) for name, template in sorted(texts["templates"].items())
        },
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


def _summary(name: str, template: _Template) -> TemplateSummary:
    return {
        "description": template["purpose"],
        "package_type": template["package_type"],
        "data_type": template["own_fields"].get("data_type", ""),
        "fields": list(_fill(template)),
        "example_usage": template["example_usage"],
        "uri": f"metadata://templates/{name}",
    }
