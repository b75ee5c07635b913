"""A channel that the engine knows nothing of: who has the same conversation open."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID

import msgspec
import pytest

from chat.core.notify import room_topic
from chat.live import channels, websocket
from chat.live.access_monitor import Room
from chat.live.channels import Channel, register_channels
from chat.live.viewer import CLOSE_ACCESS
from chat.models import Conversation, Membership, User
from tests.live.conftest import Checks, OpenStream, OpenTab, threads
from tests.live.connection import StreamTab, Tab, until

Place = tuple[UUID | None, int]


class PresenceLook:
    def read(self, asked: Sequence[Place]) -> Mapping[Place, list[str]]:
        people = User.objects.in_bulk([person for _, person in asked])
        return {
            place: sorted({people[person].name for room, person in asked if room == place[0]})
            for place in asked
        }


class Presence(Channel):
    name = "presence"
    look = PresenceLook
    is_prompt = True
    open_tabs = 0

    def start(self, said: msgspec.Raw) -> None:
        self.asks = self.tab.room, self.tab.reader.person
        self.here: Sequence[str] | None = None
        Presence.open_tabs += 1

    def receive(self, said: msgspec.Raw) -> None:
        self.send(msgspec.json.decode(said, type=dict[str, bool]))

    def check(self, rooms: Sequence[Room], found: Sequence[str] | None) -> None:
        if found is not None and found != self.here:
            self.here = found
            self.send({"here": found})

    def close(self) -> None:
        Presence.open_tabs -= 1


class BrokenLook:
    def read(self, asked: Sequence[bool]) -> Mapping[bool, str]:
        raise KeyError("what was asked for")


class BrokenWithoutLook(Channel):
    name = "broken"

    def check(self, rooms: Sequence[Room], found: object) -> None:
        raise KeyError("what was found")


class Broken(BrokenWithoutLook):
    name = "broken-look"
    look = BrokenLook

    def start(self, said: msgspec.Raw) -> None:
        self.asks = True


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(channels, "_registered", dict(channels._registered))
    register_channels(Presence, Broken, BrokenWithoutLook)
    yield
    assert Presence.open_tabs == 0


def heard(tab: Tab | StreamTab) -> list[dict[str, Any]]:
    said = tab.said_on("presence")
    return [{key: message[key] for key in message if key != "channel"} for message in said]


async def until_here(tab: Tab | StreamTab, *names: str) -> None:
    await tab.until(lambda tab: heard(tab)[-1:] == [{"here": list(names)}])


@pytest.mark.usefixtures("lost_notifications")
async def test_tabs_subscribe_over_websocket_and_event_stream(
    open_tab: OpenTab, open_stream: OpenStream, conversation: Conversation, alices_session: str
) -> None:
    room, subscribed = conversation.public_id, {"presence": {}}
    bobs = open_stream(room=room, channels=subscribed)
    await until_here(bobs, "Bob")

    alices = open_tab(session=alices_session)
    alices.hello(room, **subscribed)
    for tab in (alices, bobs):
        await until_here(tab, "Alice", "Bob")
    await alices.close()

    await until_here(bobs, "Bob")


async def test_tab_says_something_later(open_tab: OpenTab, conversation: Conversation) -> None:
    tab = open_tab()
    tab.hello(conversation.public_id, presence={})
    await until_here(tab, "Bob")

    # What is no JSON of the channel, or for none, is ignored.
    for words in (7, {"typing": "yes"}, {"typing": True}):
        tab.say_to(presence=words, unheard_of=words)

    await tab.until(lambda tab: heard(tab)[1:] == [{"typing": True}])


@pytest.mark.usefixtures("lost_notifications")
async def test_notification_of_the_room_wakes_a_prompt_channel(
    open_tab: OpenTab,
    conversation: Conversation,
    bob: User,
    checks: Checks,
) -> None:
    tab = open_tab()
    tab.hello(conversation.public_id, presence={})
    await until_here(tab, "Bob")
    await checks.stop_polling()

    await threads.call(lambda: User.objects.filter(pk=bob.pk).update(name="Robert"))
    websocket.access_monitor._notifier.dispatch(room_topic(conversation.public_id))

    await until_here(tab, "Robert")
    assert len(heard(tab)) == 2


@pytest.mark.usefixtures("lost_notifications")
async def test_broken_channel_ends_itself_alone(
    open_tab: OpenTab, conversation: Conversation, alice: User, caplog: pytest.LogCaptureFixture
) -> None:
    broken, tab = open_tab(), open_tab()
    broken.hello(conversation.public_id, **{"broken": {}, "broken-look": {}, "presence": {}})
    failures = {"channel.failed channel=broken", "channel.failed channel=broken-look"}
    await until(lambda: failures <= {*caplog.messages})
    tab.hello(conversation.public_id, presence={})

    for each in (broken, tab):
        await until_here(each, "Bob")
    await threads.call(lambda: User.objects.update(name="Robert"))

    await until_here(broken, "Robert")
    assert caplog.messages.count("channel.failed channel=broken") == 1


async def test_nothing_is_told_after_access_ended(
    open_tab: OpenTab, conversation: Conversation, bob: User
) -> None:
    tab = open_tab()
    tab.hello(conversation.public_id, presence={})
    await until_here(tab, "Bob")

    await threads.call(lambda: Membership.objects.filter(user=bob).delete())
    await tab.until_closed()
    tab.say_to(presence={"typing": True})
    await tab.close()

    assert tab.close_code == CLOSE_ACCESS
    assert heard(tab) == [{"here": ["Bob"]}]
