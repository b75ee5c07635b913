"""Tests are called with room on the interpreter's stack (tests/support/stack.py)."""

from __future__ import annotations

import resource
import threading
from collections.abc import Callable

from tests.support.stack import with_room

# Frames of 16 KiB and more lie between the first and the last of these depths.
DEPTHS = range(200)
CALLS = 100


def call_at_all_depths() -> None:
    for depth in DEPTHS:
        call_at(depth)


def call_at(depth: int) -> None:
    if depth:
        call_at(depth - 1)
        return
    for _ in range(CALLS):
        nothing()


def nothing() -> None:
    pass


def page_faults_of(function: Callable[[], None]) -> int:
    """In a thread of its own, which has a stack of its own: this test is called with room."""
    faults: list[int] = []

    def measure() -> None:
        before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
        function()
        faults.append(resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before)

    thread = threading.Thread(target=measure)
    thread.start()
    thread.join()
    return faults[0]


def test_calls_at_all_depths_map_no_memory() -> None:
    assert (
        page_faults_of(with_room(call_at_all_depths)) < CALLS < page_faults_of(call_at_all_depths)
    )
