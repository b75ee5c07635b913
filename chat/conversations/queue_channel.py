"""Live channel of the queue: the positions of the page's queued answers, and the servers that start no new ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

import msgspec

from chat.live.access_monitor import Room
from chat.live.channels import Channel, FollowedRun, Tab
from chat.runs.queue import QueuePositions, read_queue_once_a_second


class _Shown(msgspec.Struct):
    """The servers that the page marks as being drained."""

    draining: list[UUID] = []


_decoder = msgspec.json.Decoder(_Shown)


class QueueLook:
    """The whole queue, for everybody the same."""

    def read(self, asked: Sequence[bool]) -> Mapping[bool, QueuePositions]:
        return {True: read_queue_once_a_second()}


class QueueChannel(Channel):
    name = "queue"
    look = QueueLook

    def __init__(self, tab: Tab) -> None:
        super().__init__(tab)
        self.asks = True
        self._draining: frozenset[UUID] = frozenset()
        self._places: dict[FollowedRun, str] = {}

    def start(self, said: msgspec.Raw) -> None:
        self._draining = frozenset(_decoder.decode(said).draining)

    def check(self, rooms: Sequence[Room], found: QueuePositions | None) -> None:
        if found is None:
            return
        known, self._places = self._places, {}
        for run_id, followed in self.tab.followed.items():
            place = self._places[followed] = found.places.get(run_id, "")
            # The page may show the position at the time of rendering. A run that has started is
            # updated by its frames.
            if place != known.get(followed, "?" if followed.seq == 0 else ""):
                self.send({"queue": run_id.hex, "place": place}, is_news=False)
        if found.draining != self._draining:
            self._draining = found.draining
            draining = sorted(server.hex for server in found.draining)
            self.send({"draining": draining}, is_news=False)
