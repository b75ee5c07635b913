"""Live channel of the queue of messages below a conversation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

import msgspec
from django.http import Http404
from django.template.loader import render_to_string

from chat import access
from chat.live.access_monitor import Room
from chat.live.channels import Channel, Tab
from chat.live.updates import Updates
from chat.message_queue.shown import mark_for, read_marks, read_shown_queue
from chat.models import User


class QueueReader(NamedTuple):
    """A person, with the token for the forms of their session."""

    person: int
    csrf_token: str


class RenderedQueue(NamedTuple):
    mark: str
    html: str


def render_queue(
    room: UUID, readers: Sequence[QueueReader]
) -> dict[QueueReader, RenderedQueue | None]:
    """The queue for those who may still read the conversation, each with their own buttons."""
    rendered: dict[QueueReader, RenderedQueue | None] = {}
    for reader in readers:
        user = User(pk=reader.person)
        try:
            conversation = access.get_conversation(user, room)
        except Http404:
            continue
        may_write = access.may_write(user, conversation)
        queue = read_shown_queue(user, conversation, may_write=may_write)
        context = {
            "queue": queue,
            "conversation": conversation,
            "user": user,
            "csrf_token": reader.csrf_token,
        }
        html = render_to_string("message_queue/_patch.html", context)
        rendered[reader] = RenderedQueue(queue.mark, html)
    return rendered


updates: Updates[UUID, QueueReader, RenderedQueue] = Updates("message_queue", render_queue)


class MarkLook:
    """The marks of all conversations with a queue, for all tabs together."""

    def read(self, asked: Sequence[UUID]) -> Mapping[UUID, str]:
        marks = read_marks()
        return {room: marks.get(room, "") for room in asked}


class _Shown(msgspec.Struct):
    mark: str = ""


_decoder = msgspec.json.Decoder(_Shown)


class MessageQueueChannel(Channel):
    """The queue that a tab shows, by its mark."""

    name = "message_queue"
    look = MarkLook
    # The message that is sent goes from here when it appears as a turn.
    is_prompt = True

    def __init__(self, tab: Tab) -> None:
        super().__init__(tab)
        self._mark = ""
        self._is_waiting = False

    def start(self, said: msgspec.Raw) -> None:
        self._mark = _decoder.decode(said).mark
        self.asks = self.tab.room

    def check(self, rooms: Sequence[Room], found: str | None) -> None:
        if found is None or self._is_waiting:
            return
        for room in rooms:
            is_shown = room.conversation_id == self.tab.room
            if is_shown and mark_for(found, may_write=room.may_write) != self._mark:
                self._is_waiting = True
                updates.want(room.conversation_id, self)

    # --- while it waits for an update --------------------------------------------------------

    def reader(self) -> QueueReader | None:
        self._is_waiting = False
        return QueueReader(self.tab.reader.person, self.tab.reader.csrf_token)

    def tell(self, update: RenderedQueue | None) -> None:
        # Without one the next look asks for it again.
        if update is not None:
            self._mark = update.mark
            self.send({"mark": update.mark, "content": update.html})
