"""The command for the pictures works: one screen, in its four pictures, and what is wrong with it."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import sync_playwright

from tests.screens.camera import COLORS, Camera
from tests.screens.table import Screen
from tests.support.chromium import launched
from tests.support.processes.site import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.needs("chromium")]

FAULTY = """data:text/html,<html lang=en><title>Faulty</title><meta name=viewport content='width=device-width'><main><h1>Faulty</h1>
<p style='color:rgb(120,120,120);background:rgb(128,128,128)'>Hardly legible</p>
<p style='width:600px'>Wide</p></main>"""


class FaultyStage:
    """Nobody is signed in, and each address is that of a page with two faults."""

    site = None

    def address(self, path: str) -> str:
        return FAULTY


def test_faults_are_named_with_their_display(tmp_path: Path) -> None:
    stage: Any = FaultyStage()
    with sync_playwright() as playwright, launched(playwright) as browser:
        camera = Camera(browser, stage, tmp_path)
        # Such an address answers without a status.
        missing = camera.take(Screen("faulty", "", "/", statuses=(0,)))

    assert missing == []
    shown = [fault.partition(" at ")[0] for fault in camera.faults]
    low = [f"faulty.{width}.{colors}: color-contrast" for width in (360, 1280) for colors in COLORS]
    assert [fault for fault in shown if "contrast" in fault] == low
    assert [fault for fault in shown if "beside" in fault] == [shown[0]]
    assert shown[0].startswith("faulty.360: ")


@pytest.mark.process
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
