"""Figures of feedback for administrators, by model and by preset. They contain no text of a conversation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db.models import Count, F, Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext

from chat.models import Feedback, FeedbackKind, Team

# Days; 0 is all time.
PERIODS = (7, 30, 90, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The feedback that is counted: of the last days (all with 0), and of one team or all."""

    days: int = 30
    team: Team | None = None

    def rows(self) -> QuerySet[Feedback]:
        rows = Feedback.objects.all()
        if self.days:
            rows = rows.filter(updated_at__gte=timezone.now() - timedelta(days=self.days))
        if self.team is not None:
            rows = rows.filter(answer__conversation__team=self.team)
        return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """One line: ``answers`` have ratings, of which ``up`` and ``down`` are the numbers; ``chosen`` of so many choices in
    which people ``compared`` answers. ``place`` is the server of a model, or where a preset is from."""

    name: str
    place: str = ""
    answers: int = 0
    up: int = 0
    down: int = 0
    chosen: int = 0
    compared: int = 0

    @property
    def share(self) -> int | None:
        """Good ratings in percent; ``None`` without ratings."""
        ratings = self.up + self.down
        return round(100 * self.up / ratings) if ratings else None

    def plus(self, other: Figures) -> Figures:
        return Figures(
            name=self.name,
            place=self.place,
            answers=self.answers + other.answers,
            up=self.up + other.up,
            down=self.down + other.down,
            chosen=self.chosen + other.chosen,
            compared=self.compared + other.compared,
        )


_IS_RATING = Q(kind=FeedbackKind.RATING)
_IS_CHOICE = Q(kind=FeedbackKind.CHOICE)
_COUNTS: dict[str, Any] = {
    "answers": Count("answer", filter=_IS_RATING, distinct=True),
    "up": Count("pk", filter=_IS_RATING & Q(value=1)),
    "down": Count("pk", filter=_IS_RATING & Q(value=-1)),
    "chosen": Count("pk", filter=_IS_CHOICE & Q(value=1)),
    "compared": Count("pk", filter=_IS_CHOICE),
}


def by_model(scope: Scope) -> list[Figures]:
    """One line for each model of each server, those with the most feedback first. One statement."""
    rows = _grouped(scope, model=F("answer__runs__model"), server=F("answer__runs__upstream__name"))
    return _sorted(
        Figures(name=row.pop("model"), place=row.pop("server") or "", **row) for row in rows
    )


def by_preset(scope: Scope) -> list[Figures]:
    """One line for each preset of a team or a project, one for all personal presets, whose names are their owners', and
    one for answers without a preset. One statement."""
    preset = "answer__runs__preset_version__preset"
    rows = _grouped(
        scope,
        preset=F(preset),
        title=F(f"{preset}__name"),
        owner=F(f"{preset}__owner"),
        team=F(f"{preset}__team__name"),
        project=F(f"{preset}__project__name"),
    )
    found: dict[object, Figures] = {}
    for row in rows:
        key, line = _preset_line(row)
        found[key] = found[key].plus(line) if key in found else line
    return _sorted(found.values())


def _preset_line(row: dict[str, Any]) -> tuple[object, Figures]:
    key, title, owner = row.pop("preset"), row.pop("title"), row.pop("owner")
    place = row.pop("team") or row.pop("project", "") or ""
    row.pop("project", None)
    if key is None:
        return "none", Figures(name=gettext("No preset"), **row)
    if owner is not None:
        return "personal", Figures(name=gettext("Personal presets"), **row)
    return key, Figures(name=title, place=place, **row)


def _grouped(scope: Scope, **groups: F) -> Iterable[dict[str, Any]]:
    """The counts by columns of the first run of each answer; further ones continue it as it began."""
    rows = scope.rows().filter(answer__runs__position=0)
    return rows.order_by().values(**groups).annotate(**_COUNTS)


def _sorted(lines: Iterable[Figures]) -> list[Figures]:
    return sorted(
        lines, key=lambda line: (-(line.up + line.down + line.compared), line.name, line.place)
    )


def total(lines: Sequence[Figures]) -> Figures:
    """The sums of these lines."""
    result = Figures(name="")
    for line in lines:
        result = result.plus(line)
    return result
