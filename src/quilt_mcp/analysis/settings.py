"""Settings of the analysis domain."""

import os

from pydantic import AliasChoices, Field

from quilt_mcp.app.settings import Group, SettingsGroup


class AnalysisSettings(SettingsGroup):
    """Limits of the sandbox. Each SYMBOLIC_… variable is an older name of the same setting."""

    group = Group("Analysis", "See [analysis.md](analysis.md).")

    analysis_memory_limit_mb: int = Field(
        2048,
        ge=128,
        le=65536,
        validation_alias=AliasChoices("QUILT_MCP_ANALYSIS_MEMORY_LIMIT_MB", "SYMBOLIC_MEMORY_LIMIT_MB"),
        description="Address space of the process that runs an analysis, in MiB.",
    )
    analysis_code_size_bytes: int = Field(
        65536,
        ge=1024,
        le=1048576,
        validation_alias=AliasChoices("QUILT_MCP_ANALYSIS_CODE_SIZE_BYTES", "SYMBOLIC_CODE_SIZE_LIMIT"),
        description="Maximum size of submitted code, in bytes of UTF-8.",
    )
    analysis_coverage_threshold: int = Field(
        1000,
        ge=100,
        le=100000,
        validation_alias=AliasChoices(
            "QUILT_MCP_ANALYSIS_COVERAGE_THRESHOLD", "SYMBOLIC_COVERAGE_EXHAUSTIVE_THRESHOLD"
        ),
        description="Maximum number of paths that are explored for each condition.",
    )
    analysis_default_timeout_seconds: int = Field(
        30, ge=1, le=120, description="Timeout of an analysis if the call does not set one."
    )
    analysis_concurrency: int = Field(
        default_factory=lambda: min(os.cpu_count() or 1, 64),
        ge=1,
        le=64,
        description="Maximum number of analyses that run at the same time. Default: the number of cores.",
    )
    analysis_concurrency_per_caller: int | None = Field(
        None,
        ge=1,
        le=64,
        description="Maximum number of analyses that one signed-in caller runs at the same time. Default: half of"
        " QUILT_MCP_ANALYSIS_CONCURRENCY, rounded up. The local user has no limit.",
    )
    analysis_waiting_per_caller: int = Field(
        16,
        ge=0,
        le=1000,
        description="Maximum number of analyses of one signed-in caller that wait for a place. Others are refused.",
    )
    analysis_allow_weaker_sandbox: bool = Field(
        default=False,
        description="Run analyses also if the kernel does not support every layer of the sandbox.",
    )
