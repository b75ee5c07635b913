"""Sites on copies of data that were created once: one for each test, or one for a file."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.processes.seeded import seeded_once
from tests.support.processes.site import Site, World, site_from

Seeded = tuple[Path, World]


@pytest.fixture(scope="session")
def seeded() -> Seeded:
    return seeded_once()


@pytest.fixture
def site(seeded: Seeded, tmp_path: Path) -> Iterator[Site]:
    """Not started; the test may kill it."""
    folder, world = seeded
    with site_from(folder, tmp_path / "data", world, kind=Site) as site:
        yield site


@pytest.fixture(scope="module")
def shared_site(seeded: Seeded, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """For all tests of a file, which leave it running. Not started."""
    folder, world = seeded
    with site_from(folder, tmp_path_factory.mktemp("shared"), world, kind=Site) as site:
        yield site
