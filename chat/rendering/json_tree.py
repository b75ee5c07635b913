"""Results of tools as HTML: JSON as a tree that opens, links, pictures, text."""

import json
from itertools import islice

from django.utils.safestring import SafeString
from django.utils.translation import ngettext

from chat.events import Json
from chat.rendering import figures
from chat.rendering.components import (
    SHOWN_CHARACTERS,
    excerpt,
    excerpt_of_json,
    fill,
    more_note,
    name_of,
    safe,
)
from chat.rendering.media import picture_of, picture_of_address
from chat.rendering.safety import is_safe_link, reveal, storable, with_host

# Limits of a tree: of one list or object, of one text, and altogether. The text below it has more.
SHOWN_MEMBERS = 100
SHOWN_LETTERS = 600
SHOWN_NAME = 120
SHOWN_VALUES = 800
# Parts of an MCP result that are shown; each may be a tree.
SHOWN_PARTS = 50
# Characters of the excerpt beside a closed branch.
GLANCED_MEMBERS = 4
GLANCED_LETTERS = 24
# Deeper than that a value is shown in one line.
SHOWN_DEPTH = 12
# Branches that are open at first: the outermost level, and short ones below.
OPEN_MEMBERS = 6


def result_of(output: str) -> SafeString:
    """A tool's result by its kind: the parts of an MCP result, JSON, an address, or text."""
    value = _parsed(output)
    if isinstance(value, list) and value and all(map(_is_content, value)):
        shown = "".join(_content(part) for part in value[:SHOWN_PARTS])
        return safe(shown + more_note(len(value) - SHOWN_PARTS))
    return _value_or_text(output, value)


def _value_or_text(output: str, value: Json) -> SafeString:
    if isinstance(value, dict | list) and value:
        return tree_of(value)
    line = output.strip()
    if is_safe_link(line) and not line.split(None, 1)[1:]:
        return safe(f"<p>{_link(line)}</p>")
    if picture := picture_of_address(line):
        return safe(picture)
    return excerpt(output)


def tree_of(value: dict[str, Json] | list[Json]) -> SafeString:
    """A tree, and the whole value as text below it."""
    tree = _branch(value, _Room(), 0)
    return fill("tree", tree=tree, text=excerpt_of_json(value))


def _parsed(output: str) -> Json:
    # Results with pictures are long but are shown.
    is_short = len(output) <= 2 * SHOWN_CHARACTERS or "image" in output[:SHOWN_CHARACTERS]
    if not is_short or output.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return json.loads(output)
    except (ValueError, RecursionError):
        return None


# --- the parts of an MCP result ------------------------------------------------------------


def _is_content(part: Json) -> bool:
    if not isinstance(part, dict):
        return False
    if part.get("type") == "text":
        return isinstance(part.get("text"), str)
    return part.get("type") == "image" and isinstance(part.get("data"), str)


def _content(part: dict[str, Json]) -> str:
    if part["type"] == "text":
        return _value_or_text(part["text"], _parsed(part["text"]))
    picture = picture_of(str(part.get("mimeType") or ""), part["data"])
    return picture or excerpt_of_json({**part, "data": _characters(len(part["data"]))})


# --- the tree --------------------------------------------------------------------------------

# A template's context for a value or for the values inside a branch.
_Shown = dict[str, object]


class _Room:
    """The remaining number of values to show."""

    def __init__(self) -> None:
        self.left = SHOWN_VALUES


def _branch(value: dict[str, Json] | list[Json], room: _Room, depth: int) -> _Shown:
    """The members that fit, and how many do not."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    members: list[_Shown] = []
    for key, inner in islice(pairs, SHOWN_MEMBERS):
        if room.left <= 0:
            break
        room.left -= 1
        members.append(_member(str(key), inner, room, depth))
    left = len(value) - len(members)
    return {"members": members, "more": _more(left) if left else ""}


def _member(key: str, value: Json, room: _Room, depth: int) -> _Shown:
    return {"name": _cut(name_of(key), SHOWN_NAME), **_value(value, room, depth)}


def _value(value: Json, room: _Room, depth: int) -> _Shown:
    """Every key that the template asks for is there: one that is missing takes ten times as long."""
    if not isinstance(value, dict | list) or not value:
        return _leaf(value)
    size, glance = _size(value), _glance(value)
    if depth >= SHOWN_DEPTH:
        return _html(fill("tree_deep", size=size, glance=glance))
    is_open = depth == 0 and len(value) <= OPEN_MEMBERS
    branch = _branch(value, room, depth + 1)
    return {"branch": branch, "size": size, "glance": glance, "is_open": is_open}


def _size(value: Json) -> str:
    number = len(value)
    if isinstance(value, list):
        words = ngettext("%(count)s item", "%(count)s items", number)
    else:
        words = ngettext("%(count)s field", "%(count)s fields", number)
    return words % {"count": figures.count(number)}


def _more(number: int) -> str:
    return ngettext("%(count)s more", "%(count)s more", number) % {"count": figures.count(number)}


def _characters(number: int) -> str:
    words = ngettext("%(count)s character", "%(count)s characters", number)
    return words % {"count": figures.count(number)}


def _more_characters(number: int) -> str:
    words = ngettext("%(count)s more character", "%(count)s more characters", number)
    return words % {"count": figures.count(number)}


def _glance(value: Json) -> str:
    """An excerpt of the values inside, if they are flat."""
    inner = value.values() if isinstance(value, dict) else value
    first = list(islice(inner, GLANCED_MEMBERS))
    if any(isinstance(one, dict | list) for one in first):
        return ""
    pairs = list(islice(value.items(), GLANCED_MEMBERS)) if isinstance(value, dict) else []
    shown = [f"{_cut(key, GLANCED_LETTERS)}: {_short(one)}" for key, one in pairs] or [
        _short(one) for one in first
    ]
    return name_of(", ".join(shown)) + ("…" if len(value) > GLANCED_MEMBERS else "")


def _short(value: Json) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return _cut(text, GLANCED_LETTERS)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


def _leaf(value: Json) -> _Shown:
    if not isinstance(value, str):
        return {"kind": "number", "text": json.dumps(value), "html": "", "branch": None}
    if picture := picture_of_address(value):
        return _html(picture)
    more = len(value) - SHOWN_LETTERS
    if is_safe_link(value) and more <= 0 and not value.split(None, 1)[1:]:
        return _html(_link(value))
    text = reveal(storable(value[:SHOWN_LETTERS]))
    if more > 0:
        return _html(fill("tree_cut", text=text, more=_more_characters(more)))
    return {"kind": "string", "text": text, "html": "", "branch": None}


def _html(html: str) -> _Shown:
    """The context of a value with a template of its own, which are rarer than numbers and short texts."""
    return {"html": html, "branch": None}


def _link(address: str) -> SafeString:
    words = with_host(name_of(address), address)
    return fill("link", address=storable(address), words=words)
