"""A conversation whose last answer is running, and what people queue behind it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest
from django.core.files.uploadedfile import UploadedFile
from django.http import HttpResponse
from django.test import Client

from chat.message_queue import sending, tasks
from chat.models import Message, QueuedMessage, Role, Run, RunStatus
from tests.support.files import add_to_draft, ids_in
from tests.support.rooms import HTMX, Room, end_run, url_of

SendDue = Callable[[], None]


@dataclass
class Queue:
    """The room of Alice, and the answer that runs in it."""

    room: Room
    run: Run

    def post(
        self,
        client: Client,
        text: str,
        *,
        below: Message | None = None,
        headers: dict[str, str] = HTMX,
        uploads: Sequence[UploadedFile] = (),
        **fields: object,
    ) -> HttpResponse:
        """What a page posts that shows ``below`` as the last turn, after it has uploaded files."""
        form: dict[str, object] = {
            **self.room.form(text, parent=below or self.run.message, **fields)
        }
        if uploads:
            place = self.room.conversation.public_id.hex
            form["files"] = ids_in(add_to_draft(client, place, *uploads))
        return self.room.send(client, form, headers)

    def end(self, status: str = RunStatus.COMPLETED) -> None:
        end_run(self.run)
        Run.objects.filter(pk=self.run.pk).update(status=status)

    def act(self, client: Client, verb: str, text: str, /, **data: str) -> HttpResponse:
        return client.post(url_of(f"queued_message_{verb}", queued(text)), data, headers=HTMX)

    @property
    def said(self) -> list[str]:
        """The texts of people, each a child of the answer before."""
        rows = list(self.room.conversation.messages.order_by("pk"))
        assert [row.parent_id for row in rows[1:]] == [row.pk for row in rows[:-1]], "a branch"
        return [row.text for row in rows if row.role == Role.USER]

    @property
    def waiting(self) -> list[str]:
        return list(QueuedMessage.objects.values_list("text", flat=True))


def queued(text: str) -> QueuedMessage:
    return QueuedMessage.objects.get(text=text)


@pytest.fixture
def queue(room: Room) -> Queue:
    return Queue(room, room.ask("First"))


@pytest.fixture
def send_due() -> SendDue:
    """One round of the runners' task."""

    def send() -> None:
        while (rooms := tasks.look()) and sending.send_due_in(rooms):
            pass

    return send


@pytest.fixture(autouse=True)
def _nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a process knows of queues belongs to one test."""
    monkeypatch.setattr(tasks, "_has_queued", False)
