"""HTML of a page as a part of one file: without controls, scripts and addresses of this server.

The HTML is our own, so it is well formed and its texts are escaped. Elements and attributes that
are not in the tables below are left out, so a new control never gets into a file by itself.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable
from html import escape
from html.parser import HTMLParser
from pathlib import Path

from django.contrib.staticfiles import finders
from django.utils.safestring import SafeString

from chat.core.style_bundles import bundles
from chat.rendering.components import safe
from chat.rendering.safety import is_safe_link

# Elements that are left out with their content.
CONTROLS = frozenset({"button", "form", "audio", "script", "style", "textarea", "select"})
# Links that only open something on this server.
OPENERS = frozenset({"card-open", "medium-download"})
VOID = frozenset({"br", "hr", "img", "input", "use", "rect", "path"})
ATTRIBUTES = frozenset(
    {
        *("id", "class", "dir", "lang", "title", "alt", "role", "datetime", "type", "disabled"),
        *("checked", "open", "name", "value", "max", "start", "align", "colspan", "rowspan"),
        *("for", "aria-hidden", "aria-label", "aria-labelledby", "rel", "target", "tabindex"),
        *("x", "y", "width", "height", "rx", "viewbox", "preserveaspectratio", "focusable"),
    }
)
# SVG needs these spellings; the parser gives names in lower case.
_WRITTEN = {"viewbox": "viewBox", "preserveaspectratio": "preserveAspectRatio"}
_ICON = "icon-"


class _Cleaner(HTMLParser):
    def __init__(self, icons: set[str]) -> None:
        super().__init__(convert_charrefs=False)
        self._icons = icons
        self.parts: list[str] = []
        # The element that is being left out, and the number of open elements of its name.
        self._left_out = ""
        self._depth = 0
        # For each open link, True if it was written.
        self._links: list[bool] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._left_out:
            self._depth += tag == self._left_out
            return
        values = {name: value or "" for name, value in attrs}
        if tag in CONTROLS or OPENERS & set(values.get("class", "").split()):
            self._left_out, self._depth = tag, 1
            return
        if tag == "a":
            self._links.append(_is_kept_link(values.get("href", "")))
            if not self._links[-1]:
                return
        self.parts.append(f"<{tag}{''.join(self._attributes(tag, values))}>")

    def _attributes(self, tag: str, values: dict[str, str]) -> Iterable[str]:
        for name, value in values.items():
            if name in ATTRIBUTES:
                yield f' {_WRITTEN.get(name, name)}="{escape(value)}"'
        if tag == "a":
            yield f' href="{escape(values["href"])}"'
        elif tag == "img" and values.get("src", "").startswith("data:image/"):
            yield f' src="{escape(values["src"])}"'
        elif tag == "use":
            name = values.get("href", "").rpartition("#")[2]
            self._icons.add(name)
            yield f' href="#{_ICON}{escape(name)}"'

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID or tag in ("use", "rect", "path"):
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        if self._left_out:
            self._depth -= tag == self._left_out
            if not self._depth:
                self._left_out = ""
        elif tag != "a" or (self._links and self._links.pop()):
            self.parts.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        self._add(data)

    def handle_entityref(self, name: str) -> None:
        self._add(f"&{name};")

    def handle_charref(self, name: str) -> None:
        self._add(f"&#{name};")

    def _add(self, text: str) -> None:
        if not self._left_out:
            self.parts.append(text)


def _is_kept_link(address: str) -> bool:
    """Links to the web, and to notes of the same text."""
    return is_safe_link(address) or address.startswith("#")


class Standalone:
    """Makes the parts of a document independent of the server, and collects the icons they use."""

    def __init__(self) -> None:
        self._icons: set[str] = set()

    def clean(self, html: str) -> SafeString:
        cleaner = _Cleaner(self._icons)
        cleaner.feed(html)
        cleaner.close()
        return safe("".join(cleaner.parts))

    def sprite(self) -> SafeString:
        """The icons in use."""
        sprite = _text_of("icons.svg")
        symbols = [
            match[0].replace('id="', f'id="{_ICON}', 1)
            for match in re.finditer(r'<symbol id="([\w-]+)".*?</symbol>', sprite, re.DOTALL)
            if match[1] in self._icons
        ]
        return safe(f'<svg class="sprite" hidden>{"".join(symbols)}</svg>')


# --- styles -------------------------------------------------------------------------------------

# Style sheets of pages that a document doesn't use.
_NOT_NEEDED = frozenset(
    {
        *("base/fonts.css", "base/shell.css", "base/keys.css", "components/menu.css"),
        *("components/combobox.css", "components/dialog.css", "components/tabs.css"),
        *("components/switch.css", "components/stat.css"),
    }
)
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_ADDRESS = re.compile(r"""url\(\s*["']?(?:\.\./)*([\w/.-]+\.svg)["']?\s*\)""")


def styles() -> SafeString:
    """The style sheets of a document as one element, with the drawings that they name. No page has
    such an element, so no template does."""
    sheets = bundles()
    names = [*sheets["base"], *sheets["answers"], *sheets["documents"]]
    text = "\n".join(_text_of(name) for name in names if name not in _NOT_NEEDED)
    return safe(f"<style>{_ADDRESS.sub(_as_data, _COMMENT.sub('', text))}</style>")


def _as_data(match: re.Match[str]) -> str:
    drawing = base64.b64encode(_text_of(match[1]).encode()).decode()
    return f'url("data:image/svg+xml;base64,{drawing}")'


def _text_of(name: str) -> str:
    path = finders.find(name)
    if path is None:
        raise FileNotFoundError(name)
    return Path(path).read_text()
