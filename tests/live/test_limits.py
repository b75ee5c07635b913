"""How many live connections one person may hold open."""

from __future__ import annotations

import pytest

from tests.live.conftest import LiveRun, OpenProgram, OpenStream, OpenTab
from tests.live.connection import HttpConnection

BUSY = 1013


@pytest.fixture(autouse=True)
def _two_connections(settings: object) -> None:
    settings.CONNECTIONS_PER_PERSON = 2


def assert_too_many(refused: HttpConnection) -> None:
    assert (refused.status, refused.error_code) == (429, "too_many")
    assert refused.headers[b"retry-after"] == b"5"


async def test_extra_tab_waits_for_another_to_close(run: LiveRun, open_tab: OpenTab) -> None:
    first, second = open_tab(), open_tab()
    for tab in (first, second):
        await tab.until(lambda tab: any(e["type"] == "websocket.accept" for e in tab.sent))
    third = open_tab()
    await third.until_closed()

    await first.close()
    fourth = open_tab()
    fourth.follow(run.id)
    await run.tell("Hello")
    await fourth.until_seq(run.id, len(run.entries))

    assert third.close_code == BUSY
    assert fourth.close_code is None


async def test_extra_page_stream_waits_for_another_to_close(open_stream: OpenStream) -> None:
    first = await open_stream().until_answered()
    await open_stream().until_answered()

    refused = await open_stream().until_finished()
    await first.close()
    back = await open_stream().until_answered()

    assert_too_many(refused)
    assert back.status == 200


async def test_extra_event_stream_is_refused_with_an_error(
    run: LiveRun, open_program: OpenProgram
) -> None:
    for _ in range(2):
        assert (await open_program(run.id).until_answered()).status == 200

    refused = await open_program(run.id).until_finished()

    assert_too_many(refused)


async def test_limit_is_per_person(
    run: LiveRun, open_program: OpenProgram, alices_session: str
) -> None:
    for _ in range(2):
        await open_program(run.id).until_answered()

    another = await open_program(run.id, session=alices_session).until_answered()

    assert another.status == 200


@pytest.mark.parametrize("options", [{}, {"session": ""}], ids=["signed in", "signed out"])
async def test_event_stream_never_renders_as_a_page(
    run: LiveRun, open_program: OpenProgram, options: dict[str, str]
) -> None:
    program = open_program(run.id, **options)
    await program.until_answered()

    assert program.headers[b"x-content-type-options"] == b"nosniff"
    assert b"default-src 'none'" in program.headers[b"content-security-policy"]
    assert program.headers[b"cross-origin-resource-policy"] == b"same-origin"
