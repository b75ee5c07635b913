"""The demo's mockup: a bundle of files in two versions, and which version a bundle has reached."""

import functools
import re
import secrets
from collections import OrderedDict
from collections.abc import Mapping

from chat.demo.apis.xerotier.steps import JsonObject
from chat.demo.media import Colour, png

BUNDLE_ID = re.compile(r"bndl_[0-9a-f]{12}\b")
IDENTIFIER = "tide-board"
TITLE = "Tide board"
ENTRY = "index.html"
# Old bundles are forgotten beyond this many, as a restart forgets them all.
MOST_BUNDLES = 1_000

_HTML = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Tide board</title>
<link rel="stylesheet" href="css/board.css">
{more_styles}</head>
<body>
<header><img src="img/river.png" alt="" width="96" height="48"><h1>Mill Bridge</h1></header>
<p class="level"><strong id="level">2.12</strong> m and {trend}</p>
<ol id="readings"></ol>
{footer}<script src="js/board.js"></script>
</body>
</html>
"""
_CSS = """\
body { font: 18px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 34rem; color: #23302f; }
header { display: flex; gap: 1rem; align-items: center; }
h1 { font-size: 1.6rem; font-weight: 600; }
.level strong { font-size: 3rem; font-variant-numeric: tabular-nums; }
li { border-top: 1px solid #d5dedb; padding: .4rem 0; }
"""
_NIGHT_CSS = """\
@media (prefers-color-scheme: dark) {
  body { background: #17201f; color: #dfe8e5; }
  li { border-color: #35423f; }
}
"""
_SCRIPT = """\
const readings = [["06:00", 1.94], ["12:00", 2.12]{more}];
const list = document.getElementById("readings");
for (const [time, level] of readings) {{
  const item = document.createElement("li");
  item.textContent = `${{time}}  ${{level.toFixed(2)}} m`;
  list.append(item);
}}
"""
_NOTES = """\
# Tide board

Readings come from the gauge below the bridge. This file goes when the board is finished.
"""


@functools.cache
def _river() -> bytes:
    """A small picture: a band of water between two banks, 96 by 48."""
    return png(96, 48, _river_colour)


def _river_colour(x: int, y: int) -> Colour:
    bend = 24 + (x - 48) ** 2 // 200
    is_water = abs(y - bend) < 9
    return (70, 140 + y, 150) if is_water else (150 + y, 170, 110)


@functools.cache
def files_of(version: int) -> Mapping[str, tuple[str, bytes]]:
    """Path to media type and bytes. Every version from 2 on is the finished board."""
    if version < 2:
        html = _HTML.format(more_styles="", trend="rising", footer="")
        script = _SCRIPT.format(more="")
        changing = {"docs/notes.md": ("text/markdown", _NOTES.encode())}
    else:
        link = '<link rel="stylesheet" href="css/night.css">\n'
        footer = f"<footer>Version {version}, with a night view</footer>\n"
        html = _HTML.format(more_styles=link, trend="rising fast", footer=footer)
        script = _SCRIPT.format(more=', ["18:00", 2.31]')
        changing = {"css/night.css": ("text/css", _NIGHT_CSS.encode())}
    return {
        ENTRY: ("text/html", html.encode()),
        "css/board.css": ("text/css", _CSS.encode()),
        "js/board.js": ("text/javascript", script.encode()),
        "img/river.png": ("image/png", _river()),
        **changing,
    }


def listed(version: int) -> list[JsonObject]:
    return [
        {"path": path, "contentType": media_type, "size": len(data)}
        for path, (media_type, data) in files_of(version).items()
    ]


def changed_paths(version: int) -> list[str]:
    before, after = files_of(version - 1), files_of(version)
    return [path for path, file in after.items() if before.get(path) != file]


def deleted_paths(version: int) -> list[str]:
    return [path for path in files_of(version - 1) if path not in files_of(version)]


class Bundles:
    """The bundles of this process and the version that each is served in."""

    def __init__(self) -> None:
        self._versions: OrderedDict[str, int] = OrderedDict()

    def create(self) -> str:
        bundle_id = f"bndl_{secrets.token_hex(6)}"
        self.keep(bundle_id, 1)
        return bundle_id

    def keep(self, bundle_id: str, version: int) -> None:
        self._versions[bundle_id] = version
        if len(self._versions) > MOST_BUNDLES:
            self._versions.popitem(last=False)

    def version_of(self, bundle_id: str) -> int:
        """0 where there is no such bundle."""
        return self._versions.get(bundle_id, 0)

    def find(self, path: str) -> tuple[str, bytes] | None:
        """The file at ``<bundle>/<path>``, both exactly as they were announced."""
        bundle_id, _, name = path.partition("/")
        version = self.version_of(bundle_id)
        return files_of(version).get(name) if version else None
