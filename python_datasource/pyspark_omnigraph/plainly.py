"""Errors on their way to the user: the message, not the path it took through the engine.

Spark carries no exception across its processes, only the text of the traceback. Every frame and
every cause stands above the one line that says what happened and what to do, so an error raised on
purpose leaves with the frame of the data source alone. Unexpected errors keep everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def plainly(method: Callable[P, R]) -> Callable[P, R]:
    """Shorten the errors of a method; the engine is imported by the first call."""

    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        from omnigraph_spark.errors import OmnigraphError

        try:
            return method(*args, **kwargs)
        except OmnigraphError as error:
            raise error.with_traceback(None) from None

    return call


def plainly_each(method: Callable[P, Iterator[R]]) -> Callable[P, Iterator[R]]:
    """Shorten the errors of a method that yields."""

    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> Iterator[R]:
        from omnigraph_spark.errors import OmnigraphError

        try:
            yield from method(*args, **kwargs)
        except OmnigraphError as error:
            raise error.with_traceback(None) from None

    return call
