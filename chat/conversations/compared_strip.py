"""The strip above the composer while answers stand side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chat.conversations.transcript import waits_for
from chat.models import Message, Run


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedStrip:
    """The newest runs of the answers: ``at_work`` are live or have tools running, ``asking`` wait for people. ``answer``
    is one of them, for the address that stops all."""

    answer: Message
    runs: Sequence[Run]
    at_work: Sequence[Run]
    asking: Sequence[Run]

    @property
    def mark(self) -> str:
        runs = "-".join(run.public_id.hex[:8] for run in self.at_work)
        return f"compared-{len(self.asking)}-{runs}"

    @property
    def working(self) -> Run | None:
        """The run whose state the composer's button has: stopping if all that are left are asked to stop."""
        return next(
            (run for run in self.at_work if run.stop_requested_at is None),
            self.at_work[0] if self.at_work else None,
        )


def compared_strip(answer: Message | None, runs: Sequence[Run]) -> ComparedStrip | None:
    """``None`` if no answers stand side by side."""
    if answer is None or not runs:
        return None
    waits = {run.pk: waits_for(run) for run in runs if not run.is_live}
    at_work, asking = [], []
    for run in runs:
        cause = waits.get(run.pk)
        if run.is_live or (cause is not None and not cause.people):
            at_work.append(run)
        elif cause is not None:
            asking.append(run)
    return ComparedStrip(answer=answer, runs=runs, at_work=at_work, asking=asking)
