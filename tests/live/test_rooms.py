"""What a page learns of its conversation: new turns, renames, queue positions, draining servers."""

import asyncio
import uuid
from collections.abc import Callable

import pytest

from chat.conversations.actions import conversation as actions_conversation
from chat.conversations.actions import messages as message_actions
from chat.conversations.actions.messages import ModelChoice
from chat.core.lossy_channel import LossyChannel
from chat.core.notify import QUEUED, ROOMS, ChangeNotifier, Subscription, room_topic
from chat.live import websocket
from chat.models import Conversation, Run, RunStatus, Upstream, User
from tests.live.conftest import Begin, Checks, LiveRun, OpenTab, threads
from tests.live.connection import SOON_SECONDS, Tab, until

lost_notifications = pytest.mark.usefixtures("lost_notifications")


def write(user: User, conversation: Conversation, upstream: Upstream) -> Run:
    return message_actions.send_message(
        user,
        conversation,
        parent=None,
        text="A colleague's question",
        choice=ModelChoice(upstream=upstream, model="m"),
        idempotency_key=uuid.uuid4(),
    )


def rename(user: User, conversation: Conversation, upstream: Upstream) -> None:
    actions_conversation.rename(conversation, "Another title")


def change_in_the_admin(user: User, conversation: Conversation, upstream: Upstream) -> None:
    conversation.touch()


async def enter(tab: Tab, room: Conversation) -> int:
    """Shows the room as it is; returns its revision."""
    await threads.call(room.refresh_from_db)
    tab.hello(room.public_id, room.revision)
    return room.revision


@lost_notifications
@pytest.mark.parametrize("change", [write, rename, change_in_the_admin])
async def test_change_is_announced_without_notifications(
    open_tab: OpenTab,
    conversation: Conversation,
    upstream: Upstream,
    alice: User,
    change: Callable[[User, Conversation, Upstream], object],
) -> None:
    tab = open_tab()
    seen = await enter(tab, conversation)

    await threads.call(change, alice, conversation, upstream)
    await tab.until(lambda tab: tab.said)

    assert tab.said[0]["room"] == conversation.public_id.hex
    assert tab.said[0]["revision"] > seen


@lost_notifications
async def test_current_page_is_told_nothing(open_tab: OpenTab, conversation: Conversation) -> None:
    tab = open_tab()
    revision = await enter(tab, conversation)

    # By the time an older page of the same room is answered, the other one was checked as well.
    older = open_tab()
    older.hello(conversation.public_id, revision - 1)
    await older.until(lambda tab: tab.said)

    assert tab.said == []
    expected = {"channel": "page", "room": conversation.public_id.hex, "revision": revision}
    assert older.said == [expected]


@lost_notifications
async def test_end_of_a_run_changes_the_room(
    run: LiveRun, open_tab: OpenTab, conversation: Conversation
) -> None:
    tab = open_tab()
    await enter(tab, conversation)
    await run.tell("Hello")

    await run.end()

    await tab.until(lambda tab: tab.said)
    assert tab.said[0]["room"] == conversation.public_id.hex


# --- the queue -----------------------------------------------------------------------------


async def set_status(run: LiveRun, status: RunStatus) -> None:
    await threads.call(lambda: Run.objects.filter(pk=run.row.pk).update(status=status))


async def set_draining(is_draining: bool) -> None:
    await threads.call(lambda: Upstream.objects.update(is_draining=is_draining))


@lost_notifications
async def test_queued_run_is_told_each_position(
    queued_run: LiveRun, begin: Begin, open_tab: OpenTab
) -> None:
    second = await threads.call(begin, is_claimed=False)
    tab = open_tab()
    tab.hello()
    tab.follow(second.id)

    await tab.until(lambda tab: tab.said)
    await set_status(queued_run, RunStatus.RUNNING)
    await tab.until(lambda tab: len(tab.said) == 2)
    await set_status(second, RunStatus.RUNNING)
    await tab.until(lambda tab: len(tab.said) == 3)

    assert tab.said == [
        {"channel": "queue", "queue": second.id.hex, "place": place}
        for place in ("Queued (position 2)", "Queued (position 1)", "")
    ]


@lost_notifications
async def test_draining_server_is_announced(upstream: Upstream, open_tab: OpenTab) -> None:
    tab = open_tab()
    tab.hello()

    await set_draining(True)
    await tab.until(lambda tab: tab.said)
    await set_draining(False)
    await tab.until(lambda tab: len(tab.said) == 2)

    assert tab.said == [
        {"channel": "queue", "draining": draining} for draining in ([upstream.public_id.hex], [])
    ]


@lost_notifications
async def test_run_stopped_before_claim_ends_on_its_page(
    queued_run: LiveRun, open_tab: OpenTab, alice: User
) -> None:
    tab = open_tab()
    tab.follow(queued_run.id)

    await threads.call(actions_conversation.stop_run, alice, queued_run.row)
    await tab.until_over(queued_run.id)

    assert "topped" in tab.pages[queued_run.id].answer.text()


# --- notifications -------------------------------------------------------------------------


async def until_set(subscription: Subscription) -> None:
    async with asyncio.timeout(SOON_SECONDS):
        await subscription.wait()


async def test_notification_reaches_its_topic_alone() -> None:
    notifier = ChangeNotifier()
    room = room_topic(uuid.uuid4())
    wanted, other = notifier.subscribe(room), notifier.subscribe(QUEUED)

    notifier.start()
    await asyncio.to_thread(notifier.publish, room)
    await until_set(wanted)

    assert not other.is_set()


async def test_absent_redis_loses_only_the_notification(caplog: pytest.LogCaptureFixture) -> None:
    notifier = ChangeNotifier()
    subscription = notifier.subscribe(QUEUED)
    # Nothing listens at port 1.
    channel = LossyChannel("redis://127.0.0.1:1", secret="s")
    notifier.start(channel)

    async with channel:
        notifier.publish(QUEUED)
        await until_set(subscription)
        await until(lambda: "channel.lost direction=send" in caplog.text)


async def test_unsubscribing_leaves_nothing_behind() -> None:
    notifier = ChangeNotifier()
    event = notifier.subscribe(QUEUED)

    notifier.unsubscribe(QUEUED, event)
    notifier.unsubscribe(QUEUED, event)

    assert not notifier._subscriptions


# --- checks that a notification brings forward -----------------------------------------------


@lost_notifications
async def test_notification_brings_the_check_forward(
    open_tab: OpenTab,
    conversation: Conversation,
    upstream: Upstream,
    alice: User,
    checks: Checks,
) -> None:
    tab = open_tab()
    await enter(tab, conversation)
    await until(lambda: checks.rooms and checks.rooms[-1] == {conversation.public_id})
    await checks.stop_polling()

    await threads.call(rename, alice, conversation, upstream)
    assert not any("room" in message for message in tab.said)
    websocket.access_monitor._notifier.dispatch(room_topic(conversation.public_id))

    await tab.until(lambda tab: any("room" in message for message in tab.said))


@lost_notifications
async def test_notification_checks_only_viewers_of_its_room(
    open_tab: OpenTab,
    conversation: Conversation,
    alice: User,
    checks: Checks,
) -> None:
    def make_other() -> Conversation:
        return Conversation.objects.create(
            team=conversation.team, owner=alice, visibility="team", title="Another room"
        )

    other = await threads.call(make_other)
    for room in (conversation, other):
        await enter(open_tab(), room)
    everybody = {conversation.public_id, other.public_id}
    await until(lambda: checks.rooms and checks.rooms[-1] == everybody)
    await checks.stop_polling()

    await checks.until_asked(room_topic(other.public_id), {other.public_id})
    await checks.until_asked(room_topic(conversation.public_id), {conversation.public_id})
    await checks.until_asked(ROOMS, everybody)
