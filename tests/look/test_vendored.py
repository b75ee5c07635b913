"""Files of others are what they claim to be; icons that templates name exist."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest
from django.conf import settings

STATIC = Path(settings.BASE_DIR) / "static"
VENDOR = STATIC / "vendor"
CHECKSUMS = dict(
    reversed(line.split("  ", 1))
    for line in re.findall(r"^[0-9a-f]{64}  \S+$", (VENDOR / "README.md").read_text(), re.MULTILINE)
)
# {% icon "x" %}, {% nav_link … "x" %}, and hand-written uses of the sprite in templates, code, scripts.
ICON_TAG = re.compile(r"""\{%\s*icon\s+["']([\w-]+)["']""")
NAV_LINK = re.compile(r"""\{%\s*nav_link\s+"[^"]+"\s+"[^"]+"\s+"([\w-]+)\"""")
SPRITE_USE = re.compile(r"icons\.svg#([a-z][\w-]*)")


def _used_icons() -> set[str]:
    used: set[str] = set()
    for folder, pattern in (("templates", "*.html"), ("chat", "*.py"), ("static/js", "*.js")):
        for path in (Path(settings.BASE_DIR) / folder).rglob(pattern):
            text = path.read_text()
            for expression in (ICON_TAG, NAV_LINK, SPRITE_USE):
                used.update(expression.findall(text))
    return used


def _drawn_icons() -> set[str]:
    return set(re.findall(r'<symbol id="([\w-]+)"', (STATIC / "icons.svg").read_text()))


def test_checksums_name_every_vendored_file() -> None:
    files = {
        str(path.relative_to(VENDOR))
        for path in VENDOR.rglob("*")
        if path.suffix in {".js", ".css", ".woff2"} or path.name == "LICENSE"
    }

    assert files == set(CHECKSUMS)


@pytest.mark.parametrize("name", sorted(CHECKSUMS))
def test_vendored_file_is_unchanged(name: str) -> None:
    assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == CHECKSUMS[name]


def test_every_icon_in_use_is_in_the_sprite() -> None:
    used = _used_icons()

    assert "menu" in used
    assert used - _drawn_icons() == set()


def test_sprite_holds_the_listed_icons_and_the_mark() -> None:
    listed = set((VENDOR / "lucide" / "icons.txt").read_text().split())

    assert _drawn_icons() == listed | {"tributary"}


def test_sprite_carries_no_script_and_no_style() -> None:
    sprite = (STATIC / "icons.svg").read_text()

    assert re.search(r"<script|<style|style=|\son\w+=|href=", sprite) is None


def _pages_and_sheets() -> list[Path]:
    return sorted([*STATIC.glob("css/*.css"), *STATIC.glob("js/*.js")])


@pytest.mark.parametrize("path", _pages_and_sheets(), ids=lambda path: path.name)
def test_own_sheets_and_scripts_load_nothing_from_elsewhere(path: Path) -> None:
    assert re.search(r"https?://(?!www\.w3\.org)|@import", path.read_text()) is None


def _templates() -> list[Path]:
    return sorted((Path(settings.BASE_DIR) / "templates").rglob("*.html"))


@pytest.mark.parametrize(
    "path", _templates(), ids=lambda path: str(path.relative_to(settings.BASE_DIR / "templates"))
)
def test_templates_hold_no_inline_style_and_no_inline_script(path: Path) -> None:
    markup = re.sub(r"\{%.*?%\}|\{\{.*?\}\}", "", path.read_text(), flags=re.DOTALL)

    assert (
        re.search(r"<style|\sstyle\s*=|\son[a-z]+\s*=|javascript:", markup, re.IGNORECASE) is None
    )
    assert re.search(r"<script(?![^>]*\ssrc=)", markup, re.IGNORECASE) is None
