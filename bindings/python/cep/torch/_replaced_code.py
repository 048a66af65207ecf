# SPDX-License-Identifier: Apache-2.0
"""Functions of other people's modules that run other code for a while, and stay the same objects."""

from __future__ import annotations

import inspect
from types import CodeType, FunctionType
from typing import Any, Callable


def twin_of(function: FunctionType) -> FunctionType:
    """Another function with the code that a function has now."""
    twin = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    twin.__kwdefaults__ = function.__kwdefaults__
    return twin


def _calling(function: FunctionType, name: str) -> CodeType:
    """Code with the parameters of a function, which torch.compile reads, that passes them on to a global of its module."""
    parameters = inspect.signature(function, follow_wrapped=False).parameters.values()
    bare = [one.replace(default=one.empty, annotation=one.empty) for one in parameters]
    given = [f"{one.name}={one.name}" if one.kind is one.KEYWORD_ONLY else str(one) for one in bare]
    free = ", ".join(function.__code__.co_freevars)
    text = (
        f"def make({free}):\n"
        f"    def {function.__name__}{inspect.Signature(bare)}:\n"
        f"        {free or None}\n"  # a function's code has as many free variables as its closure
        f"        return {name}({', '.join(given)})\n"
        f"    return {function.__name__}\n"
    )
    made: dict[str, Any] = {}
    exec(compile(text, function.__code__.co_filename, "exec"), made)
    code: CodeType = made["make"](*[None] * len(function.__code__.co_freevars)).__code__
    return code


class ReplacedCode:
    """Functions of a module that run other functions in the place of their own code while replace() is in force.

    Args:
        functions: The functions, and what each calls then.
    """

    def __init__(self, functions: list[tuple[FunctionType, Callable[..., Any]]]) -> None:
        self._codes: list[tuple[FunctionType, CodeType, CodeType]] = []  # each with its own code, and the other
        for function, called in functions:
            name = f"_cep_timed_{function.__name__}"
            function.__globals__[name] = called
            self._codes.append((function, function.__code__, _calling(function, name)))

    def replace(self) -> None:
        for function, own, other in self._codes:
            if function.__code__ is own:
                function.__code__ = other

    def put_back(self) -> None:
        for function, own, other in self._codes:
            if function.__code__ is other:
                function.__code__ = own
