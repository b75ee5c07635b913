"""Processes of tests are forked from one that has imported the application, as if they had done so themselves."""

import json
from pathlib import Path

import pytest

from tests.support.forking import ForkedPython
from tests.support.processes.site import ROOT, SOON_SECONDS, environment

SAY = """
import json, sys
import django
django.setup()
from django.conf import settings
from django.db import connection
from chat.artifacts import actions
print(json.dumps({
    "is_loaded": "tests.support.loaded" in sys.modules,
    "folder": str(settings.DATA_DIR),
    "database": connection.settings_dict["NAME"],
    # The second is made of the setting when the module is imported.
    "bytes": [settings.RUN_BYTES, actions.MOST_CHARACTERS],
}))
"""
USUAL_BYTES = 64 * 1024 * 1024


def said_by_process(folder: Path, **settings: str) -> dict[str, object]:
    folder.mkdir()
    script, log = folder / "say.py", folder / "log"
    script.write_text(SAY)
    process = ForkedPython(
        [str(script)],
        folder=ROOT,
        environment={**environment(folder), "PYTHONPATH": str(ROOT), **settings},
        log=log,
    )
    assert process.wait(SOON_SECONDS) == 0, log.read_text()
    return dict(json.loads(log.read_text().splitlines()[-1]))


def test_forked_process_has_its_own_settings(tmp_path: Path) -> None:
    for name in ("one", "other"):
        folder = tmp_path / name

        assert said_by_process(folder) == {
            "is_loaded": True,
            "folder": str(folder),
            "database": str(folder / "tributary.sqlite3"),
            "bytes": [USUAL_BYTES, 2 * USUAL_BYTES],
        }


@pytest.mark.slow
def test_process_imports_itself_where_a_setting_matters_to_imports(tmp_path: Path) -> None:
    said = said_by_process(tmp_path / "one", RUN_BYTES="2048")

    assert (said["is_loaded"], said["bytes"]) == (False, [2048, 4096])
