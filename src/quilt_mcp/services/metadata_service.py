"""metadata://: templates for the metadata of Quilt packages, and how to use and repair metadata.

Each answer is a copy that the caller may change. The functions are async because everything is in memory: a thread for
each read, as for other services, would take as long as the rest of the read.
"""

from copy import deepcopy
from datetime import UTC, datetime

from typing_extensions import TypedDict  # pydantic needs it before Python 3.12

from quilt_mcp.core.errors import NotFound
from quilt_mcp.services.metadata_guide import EXAMPLES, TROUBLESHOOTING, ExamplesAnswer, TroubleshootingAnswer
from quilt_mcp.services.metadata_templates import TEMPLATES, OwnFields, Template

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
