"""The data of sites, made once for all workers of a run."""

import shutil
from pathlib import Path

import msgspec

from tests.support import databases
from tests.support.forking import until_loaded
from tests.support.processes.site import World, seed


def seeded_once(module: str = "tests.support.processes.seed") -> tuple[Path, World]:
    """A data folder on SQLite, to be copied, and what the module made there; the first worker that
    needs it has it made for all of them."""

    def make(folder: Path) -> None:
        data = folder / "data"
        data.mkdir()
        shutil.copy(databases.migrated_sqlite(), data / "tributary.sqlite3")
        (folder / "world.json").write_bytes(msgspec.json.encode(seed(data, module=module)))

    until_loaded()
    folder = databases.made_once(module, make)
    world = msgspec.json.decode((folder / "world.json").read_bytes(), type=World)
    return folder / "data", world
