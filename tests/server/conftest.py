"""A server process for the tests of a module that leave it as they found it."""

from collections.abc import Iterator

import pytest

from tests.server.process import Process, server


@pytest.fixture(scope="module")
def shared() -> Iterator[Process]:
    with server() as process:
        yield process
