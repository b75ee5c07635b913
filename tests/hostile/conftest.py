"""What the tests of hostile texts share: the known classes, and a browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.hostile import rules
from tests.hostile.page import Inspector, running_inspector


@pytest.fixture(scope="session", autouse=True)
def _known_classes() -> None:
    """Collected before any test takes a defence away."""
    rules.classes()


@pytest.fixture(autouse=True)
def _close_connections() -> None:
    """No database is used here, and the browser's event loop would forbid it."""


@pytest.fixture(scope="module")
def inspector() -> Iterator[Inspector]:
    with running_inspector() as inspector:
        yield inspector
