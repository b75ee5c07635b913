"""Who may not read a run gets nothing of it, whatever they say. Who may read what is the rule of access
(`tests/test_access_rule.py`), which the monitor of all connections asks."""

from chat.models import Conversation
from tests.live.conftest import LiveRun, OpenStream, OpenTab


async def test_stranger_follows_no_run(
    run: LiveRun, open_tab: OpenTab, charlies_session: str
) -> None:
    await run.tell("For whom")
    stranger = open_tab(session=charlies_session)
    stranger.follow(run.id)
    stranger.say(type="resync", run=run.id.hex)
    stranger.say(type="ack", runs={run.id.hex: 3})
    await run.add("And more")

    # Messages are handled in order, and a room that does not exist closes the connection.
    stranger.hello(Conversation().public_id)
    await stranger.until_closed()

    assert stranger.messages == [{"gone": True, "reason": "access"}]


async def test_stranger_streams_no_run(
    run: LiveRun, open_stream: OpenStream, charlies_session: str
) -> None:
    await run.tell("For whom")

    stranger = open_stream((run.id, []), session=charlies_session, wait="0")
    await stranger.until_finished()

    assert stranger.said == []
