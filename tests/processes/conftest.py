"""A site for each test, on its own copy of data that were made once."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.processes.site import Site, World, seed, site_from


@pytest.fixture(scope="session")
def seeded(tmp_path_factory: pytest.TempPathFactory, migrated_database: Path) -> tuple[Path, World]:
    folder = tmp_path_factory.mktemp("seeded")
    shutil.copy(migrated_database, folder / "tributary.sqlite3")
    return folder, seed(folder)


@pytest.fixture
def site(seeded: tuple[Path, World], tmp_path: Path) -> Iterator[Site]:
    folder, world = seeded
    with site_from(folder, tmp_path / "data", world, kind=Site) as site:
        yield site
