"""A page that was made from another database is told, and loads itself anew."""

from chat.live.epoch import read_epoch
from tests.live.conftest import LiveRun, OpenTab, threads


def cursors(run: LiveRun, seq: int, check: str) -> list[dict[str, object]]:
    return [{"run": run.id.hex, "seq": seq, "check": check}]


async def test_a_page_from_before_a_restore_is_told_and_gets_nothing_else(
    run: LiveRun, open_tab: OpenTab, bobs_session: str
) -> None:
    await run.tell("What the database says now.")
    tab = open_tab(bobs_session)

    seq, check = tab.show(run.id, [])
    room = run.row.conversation.public_id.hex
    tab.say(type="hello", room=room, epoch="0" * 16, runs=cursors(run, seq, check))
    await tab.until_closed()

    assert tab.said == [{"gone": True, "reason": "restored"}]
    # Below 4000: the page comes back, and does not think that its person may not look.
    assert tab.close_code == 1013


async def test_a_page_of_this_database_goes_on(
    run: LiveRun, open_tab: OpenTab, bobs_session: str
) -> None:
    epoch = await threads.call(read_epoch)
    tab = open_tab(bobs_session)

    seq, check = tab.show(run.id, [])
    room = run.row.conversation.public_id.hex
    tab.say(type="hello", room=room, epoch=epoch, runs=cursors(run, seq, check))
    await run.tell("It goes on.")
    await tab.until_seq(run.id, len(run.entries))

    assert tab.close_code is None
