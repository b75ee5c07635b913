"""The command for the pictures works: one screen, in its four pictures."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes.site import ROOT


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.process
@pytest.mark.needs("chromium")
def test_one_screen_is_written(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "tests.screens",
        "--out",
        tmp_path,
        "--only",
        "sign-in-refused",
    ]

    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)

    assert done.returncode == 0, done.stdout
    assert {path.name for path in tmp_path.iterdir()} == {
        f"sign-in-refused.{width}.{colors}.png"
        for width in (360, 1280)
        for colors in ("light", "dark")
    }
