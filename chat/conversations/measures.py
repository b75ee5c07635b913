"""Time to first token, tokens and speed of an answer, to compare it with others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext

from chat.models import Run
from chat.rendering import figures


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """The figures of an answer in words; empty where they are unknown."""

    first_token: str = ""
    tokens: str = ""
    speed: str = ""
    total: str = ""

    @property
    def has_any(self) -> bool:
        return bool(self.first_token or self.tokens or self.speed or self.total)


def measure(runs: Sequence[Run]) -> Measures:
    """The figures of all runs of an answer, in their order: it waits for the first one, and between them for people and
    tools, which is no time of the model."""
    first = runs[0] if runs else None
    waited = _seconds(first.request_sent_at, first.first_token_at) if first else None
    tokens = [run.output_tokens for run in runs if run.output_tokens is not None]
    written = [
        (run.output_tokens, seconds)
        for run in runs
        if run.output_tokens and (seconds := _seconds(run.first_token_at, run.finished_at))
    ]
    seconds = sum(each for _, each in written)
    times = [_seconds(run.request_sent_at, run.finished_at) for run in runs]
    total = sum(each for each in times if each is not None) if None not in times else None
    return Measures(
        first_token="" if waited is None else figures.duration(round(waited * 1000)),
        tokens=figures.count(sum(tokens)) if tokens else "",
        total=figures.duration(round(total * 1000)) if total is not None else "",
        speed=_speed(sum(count for count, _ in written) / seconds) if seconds else "",
    )


def _seconds(start: datetime | None, end: datetime | None) -> float | None:
    if start is None or end is None:
        return None
    return max((end - start).total_seconds(), 0)


def _speed(rate: float) -> str:
    shown = figures.decimal(rate) if rate < 10 else figures.count(round(rate))
    return gettext("%(count)s tokens/s") % {"count": shown}
