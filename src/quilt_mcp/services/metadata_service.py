"""The metadata:// resources: templates for the metadata of Quilt packages, and how to use and repair it.

Each answers a copy that its caller may change. They are async because they wait for nothing: all is in memory, and a
thread for each read, as other services have, would take as long as the rest of the read.
"""

from copy import deepcopy
from datetime import UTC, datetime
from typing import Any

from quilt_mcp.errors import NotFound
from quilt_mcp.services.metadata_guide import EXAMPLES, TROUBLESHOOTING
from quilt_mcp.services.metadata_templates import TEMPLATES, Template

_CUSTOM_TEMPLATE_TIP = (
    'A template is a start, not a schema: replace every "unknown" and null, remove what does not apply and add fields '
    "of your own before set_meta."
)
_USAGE_EXAMPLES = (
    'template = get_resource(uri="metadata://templates/genomics")["data"]',
    'package = quilt3.Package().set_dir("/", "results").set_meta({**template, "organism": "Homo sapiens"})',
    'package.push("lab/rna-seq", registry="s3://my-bucket", message="Counts of run 7")',
)


async def list_metadata_templates() -> dict[str, Any]:
    """The metadata templates for Quilt packages: what each is for, its fields, and how to fill it in.

    Returns:
        `available_templates` (from name to description, package_type, data_type, fields and example_usage),
        `usage_examples` and `custom_template_tip`.
    """
    return {
        "available_templates": {name: _summary(TEMPLATES[name]) for name in template_names()},
        "usage_examples": list(_USAGE_EXAMPLES),
        "custom_template_tip": _CUSTOM_TEMPLATE_TIP,
    }


async def show_metadata_examples() -> dict[str, Any]:
    """Worked examples of package metadata, common patterns by field of work, and good practice.

    Returns:
        `metadata_usage_guide`, `troubleshooting`, `best_practices` and `quick_reference`.
    """
    return deepcopy(EXAMPLES)


async def fix_metadata_validation_issues() -> dict[str, Any]:
    """How to repair package metadata that Quilt refuses: each error message with its cause and its remedy.

    Returns:
        `common_issues_and_fixes`, `step_by_step_fix`, `testing_approach` and `recommended_workflow`.
    """
    return deepcopy(TROUBLESHOOTING)


async def get_metadata_template(name: str) -> dict[str, Any]:
    """One metadata template, ready to fill in: its fields with placeholders, and today's date.

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
                f"Use one of the templates that exist: {', '.join(template_names())}.",
                "Read metadata://templates to see what each is for.",
            ],
        )
    return _with_placeholders(template)


def template_names() -> list[str]:
    """The names of the templates, sorted."""
    return sorted(TEMPLATES)


def _with_placeholders(template: Template) -> dict[str, Any]:
    return {
        "description": "unknown",
        "created_by": "quilt-mcp",
        "creation_date": datetime.now(UTC).date().isoformat(),
        "package_type": template.package_type,
        "version": "1.0.0",
        **deepcopy(template.own_fields),
    }


def _summary(template: Template) -> dict[str, Any]:
    return {
        "description": template.purpose,
        "package_type": template.package_type,
        "data_type": template.own_fields.get("data_type", ""),
        "fields": list(_with_placeholders(template)),
        "example_usage": template.example_usage,
    }
