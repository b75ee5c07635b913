"""What a reader notes while it reads one conversation, and the files that it looks up."""

from __future__ import annotations

from collections.abc import Callable

from chat.imports.conversations import File
from chat.imports.words import gettext


class Notes:
    """``find_member`` gives the archive's member for a name or id of a file, or nothing."""

    def __init__(self, find_member: Callable[[str], str]) -> None:
        self._find_member = find_member
        # As keys, because one file may say the same ten thousand times.
        self._problems: dict[str, None] = {}
        self._left_out: dict[str, None] = {}

    def unknown(self, kind: str) -> None:
        self._problems[gettext("Unknown content: “%(kind)s”.") % {"kind": kind[:60]}] = None

    def leave_out(self, words: str) -> None:
        self._left_out[words] = None

    def file(self, *names: str) -> File:
        """The file of the first of these names or ids that the archive has."""
        named = [name for name in names if name]
        member = next((found for name in named if (found := self._find_member(name))), "")
        name = named[0].replace("\\", "/").rsplit("/", 1)[-1][-100:] if named else gettext("file")
        if not member:
            words = gettext("The export doesn’t contain the file “%(name)s”.")
            self.leave_out(words % {"name": name})
        return File(name=name, member=member)

    def problems(self, *more: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys([*self._problems, *more]))

    @property
    def left_out(self) -> tuple[str, ...]:
        return tuple(self._left_out)
