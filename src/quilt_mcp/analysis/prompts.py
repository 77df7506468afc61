"""Prompts that ask a model to call an analysis tool with the given code."""

import logging
import re
from collections.abc import Callable
from contextlib import nullcontext
from inspect import getdoc
from typing import Annotated, cast

from fastmcp import FastMCP
from fastmcp.exceptions import ValidationError
from fastmcp.prompts import PromptResult
from fastmcp.prompts.function_prompt import FunctionPrompt
from pydantic import ConfigDict, Field

from quilt_mcp.app import App
from quilt_mcp.app.checked_tool import without_docstring
from quilt_mcp.app.pools import make_pooled

Code = Annotated[str, Field(description="Python source to analyse.")]
FunctionName = Annotated[str, Field(description="The function to analyse.")]
ExceptionType = Annotated[str, Field(description="An exception class, such as ValueError.")]
OtherName = Annotated[str, Field(description="The function to compare with.")]


def register_analysis_prompts(mcp: FastMCP, app: App) -> None:
    """Register the four prompts. They need the extra `analysis`."""
    titles: dict[Callable[..., str], str] = {
        symbolic_check_template: "Check a contract",
        find_exception_path_template: "Find a path to an exception",
        compare_functions_template: "Compare two functions",
        analyze_branches_template: "Analyse branches",
    }
    for function, title in titles.items():
        pooled = make_pooled("local", function)
        made = CheckedPrompt.from_function(
            without_docstring(pooled), title=title, description=getdoc(function), tags={"analysis"}
        )
        prompt = cast("CheckedPrompt", made)
        prompt.app = app
        mcp.add_prompt(prompt)


class CheckedPrompt(FunctionPrompt):
    """A prompt that names its missing arguments. FastMCP treats them as a bug: with a traceback, and a masked error.

    Attributes:
        app: the current app while the function runs. The function must not refer to it: FastMCP keeps each function.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    app: App | None = Field(default=None, exclude=True, repr=False)

    async def render(self, arguments: dict[str, object] | None = None) -> PromptResult:
        """Render the prompt.

        Raises:
            ValidationError: a required argument is missing.
        """
        missing = [one.name for one in self.arguments or () if one.required and one.name not in (arguments or {})]
        if missing:
            raise ValidationError(f"The prompt needs the arguments {', '.join(missing)}.", log_level=logging.DEBUG)
        with nullcontext() if self.app is None else self.app.active():
            return await super().render(arguments)


def symbolic_check_template(code: Code, function_name: FunctionName) -> str:
    """Check whether a Python function satisfies its contract."""
    return (
        f"Call the tool symbolic_check with function_name `{function_name}` and the code below. If the function has no "
        "contract, first add one to its docstring, in lines such as `pre: x > 0` and `post: _ >= x`, and show it. "
        "For a counterexample, explain why the call violates the contract and how to fix the code. Say that the "
        f"contract is proven only if the status is `verified`.\n\n{_fence(code)}"
    )


def find_exception_path_template(code: Code, function_name: FunctionName, exception_type: ExceptionType) -> str:
    """Find out whether a Python function can raise an exception of a class."""
    return (
        f"Call the tool find_path_to_exception with function_name `{function_name}`, exception_type `{exception_type}` "
        "and the code below. If an input is found, trace the call line by line to the exception and suggest a guard. "
        f"Say that the exception is impossible only if the status is `unreachable`.\n\n{_fence(code)}"
    )


def compare_functions_template(code: Code, function_a: FunctionName, function_b: OtherName) -> str:
    """Find out whether two Python functions behave the same."""
    return (
        f"Call the tool compare_functions with function_a `{function_a}`, function_b `{function_b}` and this code. "
        "If they differ, explain the distinguishing input and which function is right. Say that they are equivalent "
        f"only if the status is `equivalent`.\n\n{_fence(code)}"
    )


def analyze_branches_template(code: Code, function_name: FunctionName) -> str:
    """Analyse the branches and the complexity of a Python function."""
    return (
        f"Call the tool analyze_branches with function_name `{function_name}`, symbolic_reachability true and the code "
        "below. List the unreachable outcomes, write a test for each reachable one, and suggest simplifications if the "
        f"complexity is above 10. An outcome that is null is undecided.\n\n{_fence(code)}"
    )


def _fence(code: str) -> str:
    """Return the code in a fence that is longer than any run of backquotes in it."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", code)), default=0))
    return f"{fence}python\n{code}\n{fence}"
