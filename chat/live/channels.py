"""Live channels: messages to a tab beside its live answers.

A channel belongs to the feature that renders it. `chat.apps` registers its class, and a tab
subscribes by its name. The engine has the connection, checks access, and reads the database once a
second.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol
from uuid import UUID

import msgspec

from chat.live.messages import encode

if TYPE_CHECKING:
    from chat.live.access_monitor import Room

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """The person of a tab. ``zone`` is the name of their time zone, if it is known."""

    person: int
    zone: str = ""
    csrf_token: str = ""


class FollowedRun(Protocol):
    """A live answer on the tab's page, up to ``seq``."""

    seq: int


class Tab(Protocol):
    """The connection of a tab, as its channels see it. ``room``: the conversation that it shows,
    which its person may read. ``is_two_way``: the tab can send more than its first message, unlike
    over an event stream."""

    viewer_id: str
    reader: Reader
    room: UUID | None
    is_two_way: bool

    @property
    def followed(self) -> Mapping[UUID, FollowedRun]: ...

    def send_text(self, message: str, *, is_news: bool = True) -> None:
        """Queues a message for the page. A long poll does not end for one with ``is_news=False``."""
        ...


class Look(Protocol):
    """The part of a channel in the monitor's look at the database. One object serves all tabs of a process."""

    def read(self, asked: Sequence[Any]) -> Mapping[Any, Any]:
        """Returns the data by the ``asks`` of the subscribed tabs. Called in the monitor's thread,
        together with the check of access, so it must be quick: one statement for all tabs."""
        ...


class Channel:
    """The subscription of one tab. Its methods are called on the event loop and must not block; one that fails ends
    the subscription and nothing else."""

    # The name in messages of the tab and to it.
    name: ClassVar[str]
    # Makes the channel's look; a channel without one only gets the conversation.
    look: ClassVar[Callable[[], Look] | None] = None
    # The look is also made when a notification says that the tab's conversation has changed
    # (`chat.core.notify.room_topic`), and not only once a second.
    is_prompt: ClassVar[bool] = False

    def __init__(self, tab: Tab) -> None:
        self.tab = tab
        # The data that the next look reads for this tab, if any.
        self.asks: Hashable | None = None

    def start(self, said: msgspec.Raw) -> None:
        """Handles the subscription, with the tab's state in JSON. Raises ``msgspec.MsgspecError``
        for unreadable JSON."""

    def receive(self, said: msgspec.Raw) -> None:
        """Handles a further message, like the first one unless the channel distinguishes them."""
        self.start(said)

    def check(self, rooms: Sequence[Room], found: Any) -> None:
        """``rooms``: the conversations of the connection at this moment. ``found``: the look's
        result for ``asks``, or ``None``."""

    def close(self) -> None:
        """The connection has ended."""

    def send(self, message: Mapping[str, object], *, is_news: bool = True) -> None:
        text = encode({"channel": self.name, **message})
        self.tab.send_text(text, is_news=is_news)


_registered: dict[str, type[Channel]] = {}


def register_channels(*channels: type[Channel]) -> None:
    """Registers channels for tabs."""
    _registered.update({channel.name: channel for channel in channels})


def make_look(name: str) -> Look | None:
    make = _registered[name].look if name in _registered else None
    return make() if make is not None else None


class Subscriptions:
    """The channels of one connection. ``all`` is replaced and never changed."""

    def __init__(self, *channels: Channel) -> None:
        self.all = channels

    def receive(self, tab: Tab, said: Mapping[str, msgspec.Raw]) -> None:
        """Handles a message to each channel; the first one subscribes. Unknown names, such as from
        a tab of another version, are ignored."""
        for name, words in said.items():
            channel = next((channel for channel in self.all if channel.name == name), None)
            if channel is not None:
                self._guard(channel, channel.receive, words)
            elif name in _registered:
                channel = _registered[name](tab)
                self.all = (*self.all, channel)
                self._guard(channel, channel.start, words)

    def check(self, rooms: Sequence[Room], found: Mapping[str, Mapping[Any, Any]]) -> None:
        for channel in self.all:
            own = found.get(channel.name)
            try:
                channel.check(rooms, own and own.get(channel.asks))
            except Exception:
                self._drop(channel)

    def _guard(self, channel: Channel, call: Callable[..., None], *arguments: object) -> None:
        try:
            call(*arguments)
        except (msgspec.MsgspecError, RecursionError):
            logger.info("channel.unreadable channel=%s", channel.name)
        except Exception:
            self._drop(channel)

    def _drop(self, channel: Channel) -> None:
        """Removes a channel that failed. Call it in an exception handler."""
        logger.exception("channel.failed channel=%s", channel.name)
        self.all = tuple(other for other in self.all if other is not channel)

    def close(self) -> None:
        """Closes all channels; further calls do nothing."""
        channels, self.all = self.all, ()
        for channel in channels:
            self._guard(channel, channel.close)


NO_CHANNELS = Subscriptions()


def asked_of(
    connections: Collection[Subscriptions], *, is_everything: bool
) -> dict[str, list[Hashable]]:
    """The data that the looks read for these connections, by channel."""
    asked: dict[str, list[Hashable]] = {}
    for subscriptions in connections:
        for channel in subscriptions.all:
            if channel.asks is not None and (is_everything or channel.is_prompt):
                asked.setdefault(channel.name, []).append(channel.asks)
    return asked
