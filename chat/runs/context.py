"""The part of a conversation that a model is sent, where people left out older turns. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from chat.models import Role, RunStatus, StartKind


class SomeRun(Protocol):
    """A run of an answer, as far as it decides."""

    @property
    def pk(self) -> int: ...
    @property
    def status(self) -> str: ...
    @property
    def sent_from(self) -> int | None: ...


R = TypeVar("R", bound=SomeRun, covariant=True)


class SomeMessage(Protocol[R]):
    """A message on a path, with the key and the kind of its `ContextStart`."""

    @property
    def pk(self) -> int: ...
    @property
    def role(self) -> str: ...
    @property
    def start(self) -> int | None: ...
    @property
    def start_kind(self) -> str | None: ...
    @property
    def runs(self) -> Sequence[R]: ...


def first_sent_by(path: Sequence[SomeMessage[SomeRun]], run: int) -> int:
    """The index of the first message that a run with this key is sent, of the path that ends with its answer. All
    runs of an answer are sent the same: nothing changes while it calls tools."""
    answer = path[-1]
    if answer.runs and answer.runs[0].pk != run:
        first = answer.runs[0].sent_from
        return next((index for index, each in enumerate(path) if each.pk == first), 0)
    return first_sent_below(path[:-1])


def first_sent_below(path: Sequence[SomeMessage[SomeRun]]) -> int:
    """The index of the first message that the next answer below this path is sent: 0, or that of the newest choice that
    is in effect. It is always a person's."""
    chosen = newest_start(path)
    if chosen is None or path[chosen].start_kind == StartKind.WHOLE:
        return 0
    return chosen


def newest_start(path: Sequence[SomeMessage[SomeRun]]) -> int | None:
    """The index of the message whose choice is in effect for the next answer below this path."""
    chosen, newest = None, 0
    for index, message in enumerate(path):
        if message.start is not None and message.start > newest and _is_in_effect(path, index):
            chosen, newest = index, message.start
    return chosen


def _is_in_effect(path: Sequence[SomeMessage[SomeRun]], index: int) -> bool:
    if path[index].role != Role.USER:
        return False
    if path[index].start_kind != StartKind.SUMMARY:
        return True
    # The summary itself is written from everything, and replaces it only if it is complete.
    answers = path[index + 1 : index + 2]
    return bool(answers and answers[0].runs and answers[0].runs[-1].status == RunStatus.COMPLETED)
