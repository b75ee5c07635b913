"""Server processes for the tests."""

from collections.abc import Iterator

import pytest

from tests.server.process import Process, server


@pytest.fixture(scope="module")
def shared() -> Iterator[Process]:
    """For the tests of a module that leave it as they found it."""
    with server() as process:
        yield process


@pytest.fixture
def fresh() -> Iterator[Process]:
    """A process of its own, for tests that count or that watch its memory."""
    with server() as process:
        process.request("GET", "/state")
        yield process
