"""Signatures and docstrings derived from the engine's option tables."""

from __future__ import annotations

import inspect
import textwrap
from typing import Any, Callable, TypeVar

from hmann import _core

F = TypeVar("F", bound=Callable[..., Any])


def with_options(table: str) -> Callable[[F], F]:
    """Replaces the ``**options`` of a function by the rows of a table.

    The defaults are those of the engine. ``{options}`` marks their place in the docstring.
    """

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        rows = [row for row in _core.tables[table] if row[0] not in signature.parameters]
        named = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        named += [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)
            for name, default, _ in rows
        ]
        function.__signature__ = signature.replace(parameters=named)  # type: ignore
        lines = [
            textwrap.fill(
                f"{name}: {text} (default: {default!r})",
                width=88,
                initial_indent=" " * 8,
                subsequent_indent=" " * 12,
            )
            for name, default, text in rows
        ]
        if function.__doc__:
            function.__doc__ = function.__doc__.replace("{options}", "\n".join(lines).lstrip())
        return function

    return decorate
