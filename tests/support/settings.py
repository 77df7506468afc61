"""The settings of the installed domains, with their types."""

from typing import TYPE_CHECKING

from quilt_mcp.server import find_domains, settings_class

if TYPE_CHECKING:
    from quilt_mcp.analysis.settings import AnalysisSettings
    from quilt_mcp.requirements.settings import RequirementsSettings
    from quilt_mcp.services.settings import QuiltSettings
    from quilt_mcp.settings import ServerSettings
    from quilt_mcp.workflows.settings import WorkflowSettings

    class Settings(QuiltSettings, WorkflowSettings, RequirementsSettings, AnalysisSettings, ServerSettings):
        """What the server combines of its domains."""

else:
    Settings = settings_class(find_domains())
