"""The results of an import, or of its check before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Something about one conversation of the file. ``reason`` is a sentence."""

    source_id: str
    title: str
    reason: str = ""

    def as_json(self) -> dict[str, str]:
        named = {"source_id": self.source_id, "title": self.title}
        return {**named, "reason": self.reason} if self.reason else named


@dataclass(slots=True, kw_only=True)
class Report:
    """``found`` is the number of conversations in the file: ``created`` (before the import: to be
    created), ``skipped`` because they were imported before, ``empty``, and ``unread``."""

    format: str
    is_dry_run: bool = False
    import_id: str = ""
    found: int = 0
    created: int = 0
    skipped: int = 0
    empty: int = 0
    unread: int = 0
    # Conversations that changed after they were imported. They count as skipped, too.
    changed: list[Note] = field(default_factory=list)
    # Conversations that can't be read, and parts of imported ones.
    not_understood: list[Note] = field(default_factory=list)
    # Files that the export names but doesn't contain, or that are no pictures; projects that the
    # team doesn't have.
    left_out: list[Note] = field(default_factory=list)

    def add_notes(
        self, notes: list[Note], source_id: str, title: str, reasons: Sequence[str]
    ) -> None:
        notes += [Note(source_id=source_id, title=title, reason=each) for each in reasons]

    def as_json(self) -> dict[str, Any]:
        return {
            "format": self.format,
            "dry_run": self.is_dry_run,
            "import": self.import_id or None,
            "found": self.found,
            "created": self.created,
            "skipped": self.skipped,
            "empty": self.empty,
            "changed": [note.as_json() for note in self.changed],
            "not_understood": [note.as_json() for note in self.not_understood],
            "left_out": [note.as_json() for note in self.left_out],
        }
