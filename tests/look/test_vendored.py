"""Vendored files, the icon sprite, and what style sheets, scripts and templates may contain."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable
from pathlib import Path

from django.conf import settings

ROOT = Path(settings.BASE_DIR)
STATIC = ROOT / "static"
VENDOR = STATIC / "vendor"
CHECKSUMS = dict(
    reversed(line.split("  ", 1))
    for line in re.findall(r"^[0-9a-f]{64}  \S+$", (VENDOR / "README.md").read_text(), re.MULTILINE)
)
# {% icon "x" %}, {% nav_link … "x" %}, and URLs of the sprite in templates, code, scripts.
ICON_USES = (
    re.compile(r"""\{%\s*icon\s+["']([\w-]+)["']"""),
    re.compile(r"""\{%\s*nav_link\s+"[^"]+"\s+"[^"]+"\s+"([\w-]+)\""""),
    re.compile(r"icons\.svg#([a-z][\w-]*)"),
)
LOADS_FROM_ANOTHER_HOST = re.compile(r"https?://(?!www\.w3\.org)|@import")
INLINE = re.compile(
    r"<style|\sstyle\s*=|\son[a-z]+\s*=|javascript:|<script(?![^>]*\ssrc=)", re.IGNORECASE
)


def used_icons() -> set[str]:
    used: set[str] = set()
    for folder, pattern in (("templates", "*.html"), ("chat", "*.py"), ("static", "*.js")):
        for path in (ROOT / folder).rglob(pattern):
            if VENDOR in path.parents:
                continue
            text = path.read_text()
            for use in ICON_USES:
                used.update(use.findall(text))
    return used


def drawn_icons() -> set[str]:
    return set(re.findall(r'<symbol id="([\w-]+)"', (STATIC / "icons.svg").read_text()))


def offenders(paths: Iterable[Path], is_wrong: Callable[[str], object]) -> list[str]:
    """The files with a text that is wrong; there is at least one file to look at."""
    found = list(paths)
    assert found
    return sorted(str(path.relative_to(ROOT)) for path in found if is_wrong(path.read_text()))


def test_checksums_name_every_vendored_file() -> None:
    files = {
        str(path.relative_to(VENDOR))
        for path in VENDOR.rglob("*")
        if path.suffix in {".js", ".css", ".woff2"} or path.name == "LICENSE"
    }

    assert files == set(CHECKSUMS)


def test_vendored_files_are_unchanged() -> None:
    actual = {name: hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() for name in CHECKSUMS}

    assert actual == CHECKSUMS


def test_every_used_icon_is_in_the_sprite() -> None:
    used = used_icons()

    assert "menu" in used
    assert used - drawn_icons() == set()


def test_sprite_holds_the_listed_icons_and_the_logo() -> None:
    listed = set((VENDOR / "lucide" / "icons.txt").read_text().split())

    assert drawn_icons() == listed | {"tributary"}


def test_sprite_contains_no_script_and_no_style() -> None:
    sprite = (STATIC / "icons.svg").read_text()

    assert re.search(r"<script|<style|style=|\son\w+=|href=", sprite) is None


def test_own_styles_and_scripts_load_nothing_from_other_hosts() -> None:
    paths = [*STATIC.glob("*/*.css"), *STATIC.glob("*/*.js")]

    assert offenders(paths, LOADS_FROM_ANOTHER_HOST.search) == []


def test_templates_contain_no_inline_style_or_script() -> None:
    def has_inline(source: str) -> bool:
        markup = re.sub(r"\{%.*?%\}|\{\{.*?\}\}", "", source, flags=re.DOTALL)
        return INLINE.search(markup) is not None

    assert offenders((ROOT / "templates").rglob("*.html"), has_inline) == []
