"""Answers that have just ended, and a model that writes titles."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest
from django.db import transaction

from chat.conversations.actions.messages import ModelChoice, start_conversation
from chat.events import ChatEnd, Ending, Result, Stop
from chat.models import Run, Team, TitleRequest, TitleSetting, Upstream, User
from chat.result import Fold
from chat.runs.outcomes import write_ending
from chat.titles import queueing
from tests.support.rooms import message_log

MakeAnswer = Callable[..., Run]
Choose = Callable[..., TitleSetting]


@pytest.fixture(autouse=True)
def _off_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a process knows of the setting belongs to one test."""
    monkeypatch.setattr(queueing, "_is_on", False)


@pytest.fixture
def choose(transactional_db: None, upstream: Upstream) -> Choose:
    """Chooses the model that writes titles, as administrators do; this process knows it at once."""

    def choose(server: Upstream | None = upstream, model: str = "title/model") -> TitleSetting:
        setting, _ = TitleSetting.objects.update_or_create(
            pk=TitleSetting.ONLY, defaults={"upstream": server, "model": model}
        )
        queueing.look()
        return setting

    return choose


@pytest.fixture
def answered(transactional_db: None, alice: User, team: Team, upstream: Upstream) -> MakeAnswer:
    """A new conversation whose first answer has ended."""

    def make(text: str = "How do I bake bread?", **options: object) -> Run:
        run = start_conversation(
            alice,
            team,
            text=text,
            choice=ModelChoice(upstream=upstream, model="test/model"),
            idempotency_key=uuid.uuid4(),
            **options,
        )
        complete(run)
        return run

    return make


def complete(run: Run, text: str = "With flour and patience.") -> None:
    """Writes what a runner writes when the server has said that its answer is complete."""
    with transaction.atomic():
        write_ending(run, [*message_log(text), ChatEnd(result=result_with(text))], after=0)
    run.refresh_from_db()


def result_with(text: str) -> Result:
    fold = Fold()
    fold.extend(message_log(text))
    return fold.result(Ending(status="completed", stop=Stop(reason="stop")))


def request_of(run: Run) -> TitleRequest:
    return TitleRequest.objects.get(run=run)
