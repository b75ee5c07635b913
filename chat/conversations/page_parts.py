"""Extensions of the conversation page by other features: cards below a run, feedback on answers, refused forms, and the
queue of messages."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Protocol
from uuid import UUID

from chat.conversations.actions.messages import ModelChoice
from chat.files.actions import AttachedFile
from chat.models import Conversation, Message, Run, User


class PageCard(Protocol):
    """A card below a run: open (somebody may reply), settled, or neither while it is worked on.

    The page sends it again when its `stage` differs from what it shows, and only its line when the rest of `mark`
    does: somebody may be typing below it. ``names_reader``: it is another one for some readers, such as for a person whom it names.
    ``has_own_way_on``: it offers to go on without a reply.
    """

    @property
    def hex(self) -> str: ...

    @property
    def is_open(self) -> bool: ...

    @property
    def is_settled(self) -> bool: ...

    @property
    def stage(self) -> str: ...

    @property
    def mark(self) -> str: ...

    @property
    def names_reader(self) -> bool: ...

    @property
    def has_own_way_on(self) -> bool: ...


class PageAmendment(Protocol):
    """Changes the cards of a page before it is rendered, such as a form that was refused."""

    def put_into(self, cards: Iterable[PageCard]) -> None: ...


CardReader = Callable[[Iterable[Run]], Mapping[int, Sequence[PageCard]]]


def _no_cards(runs: Iterable[Run]) -> Mapping[int, Sequence[PageCard]]:
    return {}


_read_cards: CardReader = _no_cards


def use_cards(read: CardReader) -> None:
    """Sets who reads the cards of runs. `chat.apps` calls it once."""
    global _read_cards
    _read_cards = read


def cards_of(runs: Iterable[Run]) -> Mapping[int, Sequence[PageCard]]:
    """The cards below each of these runs, by the run's key, in their order."""
    return _read_cards(runs)


# By the keys of answers, what templates show of the feedback on them.
FeedbackReader = Callable[[Collection[int]], Mapping[int, object]]


def _no_feedback(answers: Collection[int]) -> Mapping[int, object]:
    return {}


_read_feedback: FeedbackReader = _no_feedback


def use_feedback(read: FeedbackReader) -> None:
    """Sets who reads the feedback on answers. `chat.apps` calls it once."""
    global _read_feedback
    _read_feedback = read


def feedback_on(messages: Iterable[Message]) -> Mapping[int, object]:
    """The feedback on these messages, by their keys. No query if nobody has given any."""
    rated = [message.pk for message in messages if message.feedback_revision]
    return _read_feedback(rated) if rated else {}


class Enqueue(Protocol):
    """Queues a message that can't be sent below ``parent`` now. Raises ``ActionRefused``."""

    def __call__(
        self,
        user: User,
        conversation: Conversation,
        *,
        parent: Message,
        text: str,
        choice: ModelChoice,
        idempotency_key: UUID,
        attachments: Sequence[AttachedFile],
    ) -> None: ...


_enqueue: list[Enqueue] = []


def use_enqueue(enqueue: Enqueue) -> None:
    """Sets who queues messages. `chat.apps` calls it once."""
    _enqueue[:] = [enqueue]


def enqueue_message() -> Enqueue:
    """The function that queues a message."""
    return _enqueue[0]
