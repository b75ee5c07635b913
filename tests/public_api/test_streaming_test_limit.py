"""A refused streaming self-test does not free the place of a running one."""

from __future__ import annotations

from chat.health.streaming_test import AT_ONCE, running
from chat.models import User
from chat.wire.sse import Frame
from tests.live.conftest import bobs_session, live, sign_in  # noqa: F401
from tests.live.connection import HttpConnection


class SelfTest(HttpConnection):
    def __init__(self, session: str) -> None:
        super().__init__("/live/test/", session, query=b"pace=quiet")

    def take_frame(self, frame: Frame) -> None:
        """Only whether it was admitted matters here."""


async def test_refused_test_frees_no_place(
    live: None,  # noqa: F811
    bobs_session: str,  # noqa: F811
    bob: User,
) -> None:
    async def start() -> SelfTest:
        return await SelfTest(bobs_session).until_answered()

    admitted = [await start() for _ in range(AT_ONCE)]
    refused = [await start() for _ in range(3)]
    for each in refused:
        await each.close()
    refused.append(await start())
    for each in [*admitted, refused[-1]]:
        await each.close()

    assert [each.status for each in admitted] == [200] * AT_ONCE
    assert [each.status for each in refused] == [429] * 4
    assert not running._by_person
