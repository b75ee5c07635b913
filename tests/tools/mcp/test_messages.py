"""The messages of calls as their receipts have them: without credentials, and of no more than so many bytes."""

from __future__ import annotations

import pytest

from chat.tools.kinds import RECORDED_BYTES, Continuation
from tests.tools.mcp.asking import TaskServer, completed, elicitation, input_required
from tests.tools.mcp.conftest import KEY, Caller
from tests.tools.mcp.servers import ToldServer, sends, sends_bytes, text_result

STATE = 'canary-state \\ " end'
HEADERS = {"Authorization": f"Bearer {KEY}"}


async def test_both_messages_are_kept_without_the_key(caller: Caller) -> None:
    async with ToldServer(tools_call=sends(text_result(f"Your key is {KEY}"))) as told:
        await caller.call(told.url, "level", {"station": "Bergen"}, headers=HEADERS)

    [recording] = caller.recordings
    assert '"station":"Bergen"' in recording.sent
    assert "Your key is [" in recording.received
    assert KEY not in recording.sent + recording.received


async def test_state_that_a_server_wants_kept_is_left_out(caller: Caller) -> None:
    replies = [input_required(STATE, k1=elicitation("Which berth?")), text_result("booked")]
    async with ToldServer(
        tools_call=lambda peer, message: sends(replies.pop(0))(peer, message)
    ) as told:
        await caller.needs(told.url)
        await caller.call(told.url, "any", continuation=Continuation(state=STATE))

    first, second = caller.recordings
    assert "Which berth?" in first.received
    assert '"requestState":"[' in second.sent
    assert "canary-state" not in str([first.received, second.sent])


async def test_id_of_a_task_is_left_out_and_its_result_is_kept(caller: Caller) -> None:
    created = {"taskId": "canary-task"}
    async with TaskServer({**completed("2.31 m"), **created}, created=created) as server:
        await caller.call(server.url, "any")

    *_, last = caller.recordings
    assert "tasks/get" in last.sent
    assert "2.31 m" in last.received
    assert "canary-task" not in str([(each.sent, each.received) for each in caller.recordings])


INVALID = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"odd": 1'


async def test_response_that_is_not_valid_is_kept(caller: Caller) -> None:
    async with ToldServer(tools_call=sends_bytes(INVALID)) as told:
        await caller.failure(told.url)

    [recording] = caller.recordings
    assert recording.received == '{"odd": 1'


@pytest.mark.parametrize("letter", ["x", "ø"])
async def test_long_messages_are_cut(caller: Caller, letter: str) -> None:
    text = letter * RECORDED_BYTES
    async with ToldServer(tools_call=sends(text_result(text))) as told:
        await caller.call(told.url, "any", {"text": text})

    [recording] = caller.recordings
    for each in (recording.sent, recording.received):
        assert RECORDED_BYTES / 2 < len(each) <= RECORDED_BYTES
