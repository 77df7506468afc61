"""Prompts that lead a model to the analysis tools, with the code in place."""

from typing import Annotated

from fastmcp import FastMCP
from pydantic import Field

from quilt_mcp.analysis import extra

Code = Annotated[str, Field(description="The Python source to analyse.")]
FunctionName = Annotated[str, Field(description="The function in it.")]
ExceptionType = Annotated[str, Field(description="The exception class, such as ValueError.")]
OtherName = Annotated[str, Field(description="The function to compare it with.")]


def register_analysis_prompts(mcp: FastMCP) -> None:
    """Register the four prompts, if the extra `analysis` is installed; else none of them."""
    if not extra.is_installed():
        return
    mcp.prompt(symbolic_check_template, title="Check a contract", tags={"analysis"})
    mcp.prompt(find_exception_path_template, title="Find a path to an exception", tags={"analysis"})
    mcp.prompt(compare_functions_template, title="Compare two functions", tags={"analysis"})
    mcp.prompt(analyze_branches_template, title="Analyse branches", tags={"analysis"})


def symbolic_check_template(code: Code, function_name: FunctionName) -> str:
    """Check that a Python function keeps its contract."""
    return (
        f"Call the tool symbolic_check with function_name `{function_name}` and the code below. If the function has no "
        "contract, first write one into its docstring, in lines such as `pre: x > 0` and `post: _ >= x`, and show it. "
        "For a counterexample, explain why the call breaks the contract and how to correct the code. Call the "
        f"contract proven only if the status is `verified`.\n\n{_block(code)}"
    )


def find_exception_path_template(code: Code, function_name: FunctionName, exception_type: ExceptionType) -> str:
    """Find out whether a Python function can raise an exception."""
    return (
        f"Call the tool find_path_to_exception with function_name `{function_name}`, exception_type `{exception_type}` "
        "and the code below. If an input is found, trace the call line by line to the exception and suggest a guard. "
        f"Say that it cannot happen only if the status is `unreachable`.\n\n{_block(code)}"
    )


def compare_functions_template(code: Code, function_a: FunctionName, function_b: OtherName) -> str:
    """Find out whether two Python functions do the same."""
    return (
        f"Call the tool compare_functions with function_a `{function_a}`, function_b `{function_b}` and this code. "
        "If they differ, explain the distinguishing input and which of the two is right. Call them equivalent only if "
        f"the status is `equivalent`.\n\n{_block(code)}"
    )


def analyze_branches_template(code: Code, function_name: FunctionName) -> str:
    """Examine a Python function's branches and complexity."""
    return (
        f"Call the tool analyze_branches with function_name `{function_name}`, symbolic_reachability true and the code "
        "below. List the outcomes that cannot be reached, give a test for each that can, and suggest what to simplify "
        f"if the complexity is above 10. An outcome that is null is not decided.\n\n{_block(code)}"
    )


def _block(code: str) -> str:
    """The code in a fence that is longer than any run of backquotes in it."""
    fence = "```"
    while fence in code:
        fence += "`"
    return f"{fence}python\n{code}\n{fence}"
