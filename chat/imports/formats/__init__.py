"""The products whose exports can be read: one module each, with a `Format`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from chat.events import Json, JsonObject
from chat.imports.conversations import Conversation
from chat.imports.formats import chatgpt, claude, librechat, open_webui, tributary

# Returns the archive's member for a name or an id of a file; empty if there is none.
FindMember = Callable[[str], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One product. ``recognizes`` returns whether a value is one of its conversations. ``read``
    converts the value, or raises ``Unreadable``. ``name_of`` returns id and title for a report,
    also of an unreadable one."""

    name: str
    label: str
    recognizes: Callable[[JsonObject], bool]
    read: Callable[[JsonObject, FindMember], Conversation | tributary.Exported]
    name_of: Callable[[JsonObject], tuple[str, str]]


FORMATS: dict[str, Format] = {
    module.__name__.rpartition(".")[2]: Format(
        name=module.__name__.rpartition(".")[2],
        label=module.LABEL,
        recognizes=module.recognizes,
        read=module.read,
        name_of=module.name_of,
    )
    for module in (tributary, chatgpt, claude, librechat, open_webui)
}


def detect(values: Iterable[Json]) -> Format | None:
    """The format of the first value that any format recognizes: a conversation may be damaged."""
    for value in values:
        if isinstance(value, dict):
            for each in FORMATS.values():
                if each.recognizes(value):
                    return each
    return None
