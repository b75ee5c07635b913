"""Messages that wait for the socket: how many there may be, and what ends with the access."""

import asyncio
from contextlib import suppress

import pytest

from chat.live.access_monitor import GONE_ACCESS, GONE_UNSURE, Identity
from chat.live.posts import Post, PostQueue
from chat.live.viewer import CLOSE_ACCESS, CLOSE_LATER, WAITING_BYTES, Viewer
from chat.live.websocket import LiveConsumer, on_post
from tests.live.connection import until


class Socket:
    """Takes one message, and the next only when the test lets it."""

    def __init__(self) -> None:
        self.taken: list[str] = []
        self.close_code: int | None = None
        self.may_take = asyncio.Event()
        self.viewer = Viewer(Identity(user_pk=1), self.send, self.close)

    async def send(self, text: str) -> None:
        self.taken.append(text)
        await self.may_take.wait()

    async def close(self, code: int) -> None:
        self.close_code = code


async def test_messages_that_nobody_reads_are_limited() -> None:
    socket = Socket()
    sending = asyncio.create_task(socket.viewer.run())
    piece = "x" * (WAITING_BYTES // 8)
    socket.viewer.tell({"answer": 0})
    await until(lambda: socket.taken)

    for number in range(40):
        socket.viewer.tell({"answer": number, "body": piece})

    assert socket.viewer.is_gone
    assert not socket.viewer._messages
    socket.may_take.set()
    await sending
    assert socket.close_code == CLOSE_LATER
    assert len(socket.taken) == 1


async def test_many_messages_are_sent_to_a_page_that_reads() -> None:
    socket = Socket()
    socket.may_take.set()
    sending = asyncio.create_task(socket.viewer.run())
    piece = "x" * (WAITING_BYTES // 4)

    # Also one that is larger than the limit.
    for number, body in enumerate([piece] * 12 + [piece * 5] * 2):
        socket.viewer.tell({"answer": number, "body": body})
        await until(lambda number=number: len(socket.taken) == number + 1)

    assert not socket.viewer.is_gone
    sending.cancel()
    with suppress(asyncio.CancelledError):
        await sending


@pytest.mark.parametrize("reason", [GONE_ACCESS, GONE_UNSURE])
async def test_nothing_that_waits_is_sent_after_access_ended(reason: str) -> None:
    socket = Socket()
    for number in range(3):
        socket.viewer.tell({"answer": number})
    sending = asyncio.create_task(socket.viewer.run())
    await until(lambda: socket.taken)

    socket.viewer.on_gone(reason)
    socket.viewer.tell({"answer": 3})
    socket.may_take.set()
    await sending

    assert [text for text in socket.taken if "answer" in text] == ['{"answer":0}']
    assert socket.close_code == (CLOSE_ACCESS if reason == GONE_ACCESS else CLOSE_LATER)


async def test_no_form_is_handled_after_access_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    handled: list[object] = []

    async def handle(post: Post, *_: object) -> None:
        handled.append(post)

    monkeypatch.setattr("chat.live.websocket.respond_to", handle)
    consumer, viewer, form = LiveConsumer(), Socket().viewer, Post(id=1, action="/", fields=[])
    consumer.posts = PostQueue(handle)
    viewer.on_gone(GONE_ACCESS)

    # One that comes now, and one that has waited for its turn.
    await on_post(consumer, viewer, form)
    await consumer._answer(viewer, form)

    assert not consumer.posts.is_busy
    assert not handled
