"""The common part of the readers of all products: the conversation, its files, and notes about both."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime

from chat.imports.conversations import Conversation, File, Part, Reasoning, Text
from chat.imports.tree import Tree
from chat.imports.words import gettext


def part_of(kind: type[Text] | type[Reasoning], text: str) -> Iterator[Part]:
    """The text as a part, if there is any."""
    if text.strip():
        yield kind(text)


class Notes:
    """``find_member`` returns the archive's member for a name or id of a file, or an empty string.
    ``model`` is that of answers that name none."""

    def __init__(self, find_member: Callable[[str], str], model: str) -> None:
        self._find_member = find_member
        self._model = model
        # Keys of a dict, because one file may repeat the same problem ten thousand times.
        self._problems: dict[str, None] = {}
        self._left_out: dict[str, None] = {}

    def unknown(self, kind: str) -> None:
        self._problems[gettext("Unknown content: “%(kind)s”.") % {"kind": kind[:60]}] = None

    def leave_out(self, words: str) -> None:
        self._left_out[words] = None

    def file(self, *names: str) -> File:
        """The first file with one of these names or ids that the archive has."""
        named = [name for name in names if name]
        member = next((found for name in named if (found := self._find_member(name))), "")
        name = named[0].replace("\\", "/").rsplit("/", 1)[-1][-100:] if named else gettext("file")
        if not member:
            words = gettext("The export doesn’t contain the file “%(name)s”.")
            self.leave_out(words % {"name": name})
        return File(name=name, member=member)

    def leave_out_source(self, name: str) -> None:
        if name:
            text = gettext("A source of an answer was left out: “%(name)s”.")
            self.leave_out(text % {"name": name[:200]})

    def conversation(
        self,
        named: tuple[str, str],
        tree: Tree,
        *,
        created_at: datetime | None,
        updated_at: datetime | None,
        system_prompt: str = "",
    ) -> Conversation:
        """The conversation of these turns. ``named`` are its id and its title."""
        source_id, title = named
        return Conversation(
            source_id=source_id,
            title=title,
            turns=tree.turns,
            leaf=tree.leaf,
            created_at=created_at,
            updated_at=updated_at,
            system_prompt=system_prompt,
            problems=tuple(dict.fromkeys([*self._problems, *tree.problems])),
            left_out=tuple(self._left_out),
        )
