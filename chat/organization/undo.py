"""The offer to take a change back: the form that does it, and how it travels in a message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.urls import reverse

# No member of `CHANGES`, because each conversation goes back to its own place.
MOVE_BACK = "move-back"
_MARK = "undo:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Undo:
    """``verb`` is one of `chat.organization.views.CHANGES`, or `MOVE_BACK`; ``conversations`` are the
    values of the field of this name."""

    verb: str
    conversations: Sequence[str]

    @classmethod
    def read(cls, mark: str) -> Undo | None:
        if not mark.startswith(_MARK):
            return None
        verb, _, values = mark.removeprefix(_MARK).partition(":")
        return cls(verb=verb, conversations=values.split(","))

    @property
    def mark(self) -> str:
        """The change as an extra tag of a message."""
        return f"{_MARK}{self.verb}:{','.join(self.conversations)}"

    @property
    def action(self) -> str:
        if self.verb == MOVE_BACK:
            return reverse("projects_move_back")
        return reverse("conversations_change", args=[self.verb])
