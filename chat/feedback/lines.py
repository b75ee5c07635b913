"""The feedback on answers as lines below them, which are the same for everybody who reads the conversation."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from django.db.models import BooleanField, ExpressionWrapper, Q
from django.utils.translation import gettext, ngettext

from chat.models import Feedback, FeedbackKind

# Names that a line shows; the others are counted.
NAMES = 3
# Letters of a person's public id in the page, by which a script finds the reader's own rating. Pages of large teams
# stay small, and two people with the same ones are one in four billion pairs.
KEY_LENGTH = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """The people who gave the same judgment."""

    icon: str
    label: str
    names: Sequence[str]
    has_notes: bool

    @property
    def text(self) -> str:
        """The first names, and how many others there are."""
        shown = ", ".join(self.names[:NAMES])
        others = len(self.names) - NAMES
        if others <= 0:
            return shown
        text = ngettext("%(names)s and %(count)d other", "%(names)s and %(count)d others", others)
        return text % {"names": shown, "count": others}


@dataclass(frozen=True, kw_only=True)
class FeedbackLine:
    """The feedback on one answer, in the order in which it was given."""

    rows: Sequence[Feedback]

    @cached_property
    def sides(self) -> list[Side]:
        rated = [row for row in self.rows if row.kind == FeedbackKind.RATING]
        chose = [row for row in self.rows if row.kind == FeedbackKind.CHOICE and row.is_good]
        sides = (
            ("thumbs-up", gettext("Good answer"), [row for row in rated if row.is_good]),
            ("thumbs-down", gettext("Bad answer"), [row for row in rated if not row.is_good]),
            ("circle-check", gettext("Chosen among compared answers"), chose),
        )
        return [
            Side(
                icon=icon,
                label=label,
                names=[str(row.person) for row in rows],
                has_notes=any(row.has_note for row in rows),  # type: ignore[attr-defined]
            )
            for icon, label, rows in sides
            if rows
        ]

    @property
    def raters(self) -> str:
        """The beginning of each rater's id, with the sign of the rating."""
        return " ".join(
            f"{row.person.public_id.hex[:KEY_LENGTH]}{'+' if row.is_good else '-'}"
            for row in self.rows
            if row.kind == FeedbackKind.RATING
        )


def read_lines(answers: Collection[int]) -> Mapping[int, FeedbackLine]:
    """The lines below the answers with these keys that have any feedback, with one statement."""
    rows: dict[int, list[Feedback]] = {}
    found = Feedback.objects.filter(answer__in=answers).select_related("person").defer("note")
    has_note = ExpressionWrapper(~Q(note=""), output_field=BooleanField())
    for row in found.annotate(has_note=has_note).order_by("pk"):
        rows.setdefault(row.answer_id, []).append(row)
    return {answer: FeedbackLine(rows=some) for answer, some in rows.items()}
