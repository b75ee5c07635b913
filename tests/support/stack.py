"""Room on the interpreter's stack for all that a test calls.

CPython keeps the frames of Python functions in chunks of 16 KiB. A call that finds no room in one maps
another, and its return unmaps it. A loop that runs at the end of a chunk does both for each call, with
the page faults of fresh memory: 5 to 25% of the processor time of tests with Django's client. The
chunk of a frame that does not fit into 16 KiB is as large as the frame needs, rounded up to a power of
two, and the functions that it calls use the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

# Slots of 8 bytes: a little more than half of a MiB, so the chunk has 1 MiB. Slots that are not used
# are never touched and take no memory.
SLOTS = 70_000

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def with_room(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """The function, called from a frame whose chunk has almost half of a MiB left."""

    def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        return function(*args, **kwargs)

    call.__code__ = call.__code__.replace(co_stacksize=SLOTS)
    return call
