"""The arguments of the analysis tools. The input schemas are made from these types."""

from typing import Annotated

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from quilt_mcp.analysis.policy import LONGEST_TIMEOUT_SECONDS, SHORTEST_TIMEOUT_SECONDS

# The maximum of the setting analysis_code_size_bytes. The sandbox checks the current setting.
CODE_LENGTH = 1_048_576
# The default of `timeout_seconds` in the signatures. Clients see the setting analysis_default_timeout_seconds instead.
UNSET = 0.0
_NAME = r"^[A-Za-z_][A-Za-z0-9_]{0,99}(\.[A-Za-z_][A-Za-z0-9_]{0,99})?$"
_CLASS = r"^[A-Za-z_][A-Za-z0-9_]{0,99}(\.[A-Za-z_][A-Za-z0-9_]{0,99}){0,2}$"
_MODULE = r"^[A-Za-z_][A-Za-z0-9_]{0,99}(\.[A-Za-z_][A-Za-z0-9_]{0,99}){0,9}$"

Code = Annotated[
    str,
    Field(description="Python source; config://security says what it can use.", min_length=1, max_length=CODE_LENGTH),
]
FunctionName = Annotated[str, Field(description="A function in the code, or Class.method.", pattern=_NAME)]
OptionalCode = Annotated[
    Annotated[str, Field(min_length=1, max_length=CODE_LENGTH)] | SkipJsonSchema[None],
    Field(description="Python source with both functions."),
]
_OptionalName = Annotated[str, Field(pattern=_NAME)] | SkipJsonSchema[None]
ComparedName = Annotated[_OptionalName, Field(description="A function in the code.")]
NameInBoth = Annotated[_OptionalName, Field(description="The function in both versions.")]
_Version = Annotated[str, Field(min_length=1, max_length=CODE_LENGTH)] | SkipJsonSchema[None]
OldCode = Annotated[_Version, Field(description="For two versions of one function: the old source.")]
NewCode = Annotated[_Version, Field(description="The new source.")]
Files = Annotated[
    dict[str, Annotated[str, Field(max_length=CODE_LENGTH)]] | SkipJsonSchema[None],
    Field(description="Other modules that the code imports: text by name, such as pkg.models."),
]
ModuleName = Annotated[str, Field(description="The code's module, for `test`.", pattern=_MODULE)]
ExceptionType = Annotated[
    str, Field(description="An exception class, such as ValueError or one in the code.", pattern=_CLASS)
]
Timeout = Annotated[
    float,
    Field(
        description="Seconds for the analysis.",
        ge=SHORTEST_TIMEOUT_SECONDS,
        le=LONGEST_TIMEOUT_SECONDS,
        allow_inf_nan=False,
        strict=True,
    ),
]
Symbolic = Annotated[bool, Field(description="Also search for a call for each outcome.")]
