"""Builds ``static/icons.svg`` from the names in ``lucide/icons.txt`` and our own mark.

Usage: ``python static/vendor/build_sprite.py path/to/lucide-static-1.62.0.tgz``. To add an
icon, write its name into ``lucide/icons.txt`` and run this again.
"""

from __future__ import annotations

import re
import sys
import tarfile
from collections.abc import Iterable
from pathlib import Path

HERE = Path(__file__).resolve().parent
NAMES = HERE / "lucide" / "icons.txt"
SPRITE = HERE.parent / "icons.svg"

# Three strands that become one: the mark of Tributary, drawn on Lucide's grid.
MARK = '<path d="M2.5 5c7 0 7 7 13 7"/><path d="M2.5 19c7 0 7-7 13-7"/><path d="M2.5 12h19"/>'
HEAD = (
    '<svg xmlns="http://www.w3.org/2000/svg">\n'
    "<!-- Icons: Lucide 1.62.0, ISC licence, see vendor/lucide/LICENSE. Mark: Tributary. -->\n"
)


def shapes(document: str) -> str:
    """The drawing inside an icon's ``<svg>``, on one line."""
    inner = re.search(r"<svg[^>]*>(.*)</svg>", document, re.DOTALL)
    if inner is None:
        raise ValueError("not an SVG document")
    return re.sub(r"\s*\n\s*", "", inner[1]).replace(" />", "/>").strip()


def symbol(name: str, drawing: str) -> str:
    return f'<symbol id="{name}" viewBox="0 0 24 24">{drawing}</symbol>\n'


def build(archive: tarfile.TarFile, names: Iterable[str]) -> str:
    symbols = [symbol("tributary", MARK)]
    for name in names:
        member = archive.extractfile(f"package/icons/{name}.svg")
        if member is None:
            raise KeyError(name)
        symbols.append(symbol(name, shapes(member.read().decode())))
    return HEAD + "".join(symbols) + "</svg>\n"


def main(path: str) -> None:
    names = sorted(set(NAMES.read_text().split()))
    with tarfile.open(path) as archive:
        SPRITE.write_text(build(archive, names))
    sys.stdout.write(f"{SPRITE.name}: {len(names)} icons and the mark\n")


if __name__ == "__main__":
    main(sys.argv[1])
