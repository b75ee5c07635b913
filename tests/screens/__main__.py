"""Takes the screenshots: ``python -m tests.screens [--out FOLDER] [--only PART,PART]``.

Writes ``<screen>.<width>.<light|dark>.png``. A screen whose page or state cannot be shown, or which
is not accessible or wider than its window, is reported and the others go on; the exit code is then 1.
"""

import argparse
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

from tests.screens.camera import Camera
from tests.screens.stage import open_stage
from tests.screens.table import SCREENS, Screen
from tests.support.browser.people import SCREENSHOTS
from tests.support.chromium import launched


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.screens")
    parser.add_argument("--out", type=Path, default=SCREENSHOTS / "pages", help="the folder")
    parser.add_argument(
        "--only", default="", help="parts of names, with commas between; empty takes all screens"
    )
    options = parser.parse_args()
    screens = chosen(options.only)
    if not screens:
        parser.error(f"no screen has {options.only!r} in its name")
    missing, faults, written = take(screens, options.out)
    print(f"{written} pictures of {len(screens)} screens are in {options.out}")
    for line in missing:
        print(f"missing: {line}")
    for line in faults:
        print(f"fault: {line}")
    return 1 if missing or faults else 0


def chosen(only: str) -> list[Screen]:
    parts = [part.strip() for part in only.split(",") if part.strip()]
    return [screen for screen in SCREENS if not parts or any(part in screen.name for part in parts)]


def take(screens: list[Screen], folder: Path) -> tuple[list[str], list[str], int]:
    """What is missing, with the reason, what is wrong on the screens, and how many pictures were
    written."""
    folder.mkdir(parents=True, exist_ok=True)
    with open_stage() as stage, sync_playwright() as playwright, launched(playwright) as browser:
        missing = [f"{step} (test data)" for step in stage.failed_steps]
        # All conversations exist before the first picture, so that lists show the same ones
        # wherever a screen stands in the table.
        for screen in screens:
            for path in (screen.path, *screen.needs):
                if not screen.is_late:
                    stage.prepare(path)
        camera = Camera(browser, stage, folder)
        for screen in screens:
            print(screen.name, flush=True)
            missing += camera.take(screen)
    return missing, camera.faults, camera.written


if __name__ == "__main__":
    sys.exit(main())
