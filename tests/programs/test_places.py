"""The streaming self-test's places: a test that was refused had none, and gives none back."""

from __future__ import annotations

from chat.consumers.streaming_test import AT_ONCE, running
from chat.models import User
from tests.live.conftest import bobs_session, live, sign_in  # noqa: F401
from tests.live.connection import Connection, headers_of


class Listening(Connection):
    def __init__(self, session: str) -> None:
        self.status = 0
        scope = {
            "type": "http",
            "method": "GET",
            "path": "/live/test/",
            "raw_path": b"/live/test/",
            "root_path": "",
            "query_string": b"pace=quiet",
            "headers": headers_of(session),
        }
        super().__init__(scope, {"type": "http.request", "body": b"", "more_body": False})

    def took(self, event: dict[str, object]) -> None:
        if event["type"] == "http.response.start":
            self.status = int(str(event["status"]))

    async def until_answered(self) -> int:
        await self.until(lambda listening: listening.status)
        return self.status

    async def close(self) -> None:
        await self.leave({"type": "http.disconnect"})


async def test_whoever_is_refused_is_refused_again(
    live: None,  # noqa: F811
    bobs_session: str,  # noqa: F811
    bob: User,
) -> None:
    statuses = []
    several = []
    for _ in range(AT_ONCE + 3):
        several.append(Listening(bobs_session))
        statuses.append(await several[-1].until_answered())
    for refused in several[AT_ONCE:]:
        await refused.close()
    several[AT_ONCE:] = [Listening(bobs_session)]
    statuses.append(await several[-1].until_answered())
    for each in several:
        await each.close()

    assert statuses == [200] * AT_ONCE + [429] * 4
    assert not running._by_person
