"""A conversation in which one message is answered by three models."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence

import pytest

from chat.conversations.actions.messages import ModelChoice, send_message
from chat.models import Message, Run
from tests.support.rooms import Room

MODELS = ("demo/model", "demo/second", "demo/third")
Ask = Callable[..., list[Run]]


@pytest.fixture
def compare(room: Room) -> Ask:
    """Sends a message to the models; returns their runs in the order of the columns."""

    def ask(
        text: str = "Which one?", below: Message | None = None, models: Sequence[str] = MODELS
    ) -> list[Run]:
        first, *others = [ModelChoice(upstream=room.upstream, model=model) for model in models]
        run = send_message(
            room.conversation.owner,
            room.conversation,
            parent=below,
            text=text,
            choice=ModelChoice(upstream=room.upstream, model=first.model, compared=others),
            idempotency_key=uuid.uuid4(),
        )
        question = run.message.parent
        rows = Run.objects.filter(message__parent=question).order_by("message")
        return list(rows.select_related("message__parent", "conversation"))

    return ask
