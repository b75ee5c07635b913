"""What one person may hold open."""

from __future__ import annotations

import json

import pytest

from tests.live.conftest import LiveRun, OpenProgram, OpenTab, SignIn, threads

BUSY = 1013


@pytest.fixture(autouse=True)
def _two_at_most(settings: object) -> None:
    settings.CONNECTIONS_PER_PERSON = 2


async def test_one_tab_too_many_is_sent_away_until_another_leaves(
    run: LiveRun, open_tab: OpenTab, bobs_session: str
) -> None:
    first, second = open_tab(bobs_session), open_tab(bobs_session)
    for tab in (first, second):
        await tab.until(lambda tab: any(e["type"] == "websocket.accept" for e in tab.sent))
    third = open_tab(bobs_session)
    await third.until_closed()

    await first.close()
    fourth = open_tab(bobs_session)
    fourth.follow(run.id)
    await run.tell("Hello")
    await fourth.until_seq(run.id, len(run.entries))

    assert third.close_code == BUSY
    assert fourth.close_code is None


async def test_one_stream_too_many_is_refused_in_words(
    run: LiveRun, open_program: OpenProgram, bobs_session: str
) -> None:
    for _ in range(2):
        await open_program(run.id, bobs_session).until(lambda program: program.status == 200)

    refused = open_program(run.id, bobs_session)
    await refused.until_finished()

    assert refused.status == 429
    assert json.loads(refused.body)["error"]["code"] == "too_many"
    assert refused.headers[b"retry-after"] == b"5"


async def test_everybody_has_their_own_share(
    run: LiveRun,
    open_program: OpenProgram,
    bobs_session: str,
    sign_in: SignIn,
    alice: object,
) -> None:
    for _ in range(2):
        await open_program(run.id, bobs_session).until(lambda program: program.status == 200)

    another = open_program(run.id, await threads.call(sign_in, alice))
    await another.until(lambda program: program.status)

    assert another.status == 200


@pytest.mark.parametrize("is_signed_in", [True, False])
async def test_no_answer_for_programs_can_become_a_page(
    run: LiveRun, open_program: OpenProgram, bobs_session: str, is_signed_in: bool
) -> None:
    program = open_program(run.id, bobs_session if is_signed_in else "")
    await program.until(lambda program: program.status)

    assert program.headers[b"x-content-type-options"] == b"nosniff"
    assert b"default-src 'none'" in program.headers[b"content-security-policy"]
    assert program.headers[b"cross-origin-resource-policy"] == b"same-origin"
