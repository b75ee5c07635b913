"""The tool call that an approval is about: its tool, its server, and its arguments as a table."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from django.utils.safestring import SafeString
from django.utils.translation import gettext

from chat.events import Json, JsonObject
from chat.rendering import figures
from chat.rendering.components import (
    SHOWN_CHARACTERS,
    SHOWN_ENTRIES,
    excerpt,
    excerpt_of_json,
    fill,
    more_note,
    name_of,
    output_excerpt,
    pretty,
)
from chat.rendering.safety import reveal, storable

# A longer value is folded, so that the buttons below the table stay in sight.
FOLDED_CHARACTERS = 400
FOLDED_LINES = 8
# Characters of a folded value in its summary, and of a name.
SUMMARY_CHARACTERS = 60
NAME_CHARACTERS = 200


@dataclass(kw_only=True)
class ApprovalCall:
    """``arguments`` is ``None`` unless they are a JSON object; ``raw`` is their text then."""

    tool: str
    server: str
    arguments: JsonObject | None
    raw: str

    @property
    def sentence(self) -> str:
        """The request in one line, without the arguments."""
        if not self.server:
            return gettext("Allow the server to run %(tool)s?") % {"tool": self.tool}
        return gettext("Allow %(server)s to run %(tool)s?") % {
            "server": self.server,
            "tool": self.tool,
        }

    @cached_property
    def table(self) -> SafeString:
        """The arguments, at most ``SHOWN_ENTRIES`` and about ``SHOWN_CHARACTERS``."""
        if self.arguments is None:
            return output_excerpt(self.raw)
        rows: list[dict[str, object]] = []
        left = SHOWN_CHARACTERS
        for name, value in self.arguments.items():
            if left <= 0 or len(rows) == SHOWN_ENTRIES:
                break
            text = value if isinstance(value, str) else pretty(value)
            left -= len(name) + len(text)
            rows.append({"name": _cut(name_of(name), NAME_CHARACTERS), **_value(value, text)})
        more = more_note(len(self.arguments) - len(rows))
        return fill("approval_arguments", rows=rows, more=more)


def call_in(body: JsonObject) -> ApprovalCall | None:
    """The call of an approval; ``None`` if it is only described as text. ``body`` has the members
    of an ``ask.question`` event, with any values in imported files."""
    tool, arguments, raw = body.get("tool"), body.get("arguments"), body.get("arguments_raw")
    if body.get("style") != "approval" or not isinstance(tool, str) or not tool.strip():
        return None
    if not isinstance(arguments, dict) and not isinstance(raw, str):
        return None
    provider = body.get("provider_info")
    server = provider.get("server_label") if isinstance(provider, dict) else None
    return ApprovalCall(
        tool=_cut(name_of(tool), NAME_CHARACTERS),
        server=_cut(name_of(server), NAME_CHARACTERS) if isinstance(server, str) else "",
        arguments=arguments if isinstance(arguments, dict) else None,
        raw=raw if isinstance(raw, str) else "",
    )


def _value(value: Json, text: str) -> dict[str, object]:
    """The content of a cell: text, a value that is no text, or a block of code, which may be folded."""
    is_text = isinstance(value, str)
    lines = text.count("\n") + 1
    is_long = len(text) > FOLDED_CHARACTERS or lines > FOLDED_LINES
    is_block = is_long or lines > 1
    return {
        "text": reveal(storable(text)) if is_text and not is_block else "",
        "literal": text if not is_text and not is_block else "",
        "block": (excerpt(text) if is_text else excerpt_of_json(value)) if is_block else "",
        "summary": _cut(name_of(text[:NAME_CHARACTERS]), SUMMARY_CHARACTERS) if is_long else "",
        "size": figures.count(len(text)) if is_long else "",
    }


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}…"
