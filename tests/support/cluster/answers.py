"""Answers that arrive word by word, and what must be true when their runs have ended."""

from collections.abc import Sequence
from functools import partial
from uuid import UUID

from chat.runs.event_buffer import LogEntry
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.viewers import Viewers
from tests.support.processes.runs import assert_ended, text_of
from tests.support.processes.site import SOON_SECONDS
from tests.support.upstream.fake import FakeUpstream
from tests.support.upstream.script import (
    AnyStep,
    Pause,
    Script,
    lmstudio_event,
    lmstudio_run,
    stream,
)


class Words:
    """An answer of many words, with ``pause_seconds`` between them, and steps among them."""

    def __init__(self, prefix: str, *, count: int = 60, pause_seconds: float = 0.01) -> None:
        self._words = [f"{prefix}-{number} " for number in range(count)]
        self._pause_seconds = pause_seconds

    @property
    def text(self) -> str:
        return "".join(self._words)

    @property
    def last(self) -> str:
        return self._words[-1].strip()

    def script(self, *steps: AnyStep) -> Script:
        """The words in equal parts, with one of the steps between each two."""
        *events, last = [lmstudio_event(event) for event in lmstudio_run(*self._words)]
        # chat.start, two of prompt processing, message.start; then the words.
        parts: list[bytes | AnyStep] = self._paced(events[:4])
        words, size = events[4:], len(self._words) // (len(steps) + 1)
        for number, step in enumerate(steps):
            parts += [*self._paced(words[number * size : (number + 1) * size]), step]
        return stream(*parts, *self._paced(words[len(steps) * size :]), last)

    def _paced(self, events: Sequence[bytes]) -> list[bytes | AnyStep]:
        pause = Pause(seconds=self._pause_seconds)
        return [part for event in events for part in (event, pause)]


def begin(
    cluster: Cluster, count: int, *steps: AnyStep, pause_seconds: float = 0.01
) -> list[tuple[UUID, Words]]:
    """Runs that are being answered; each has its own words."""
    begun: list[tuple[UUID, Words]] = []
    for number in range(count):
        words = Words(f"w{number}", pause_seconds=pause_seconds)
        posts = cluster.fake.posts
        cluster.fake.script(words.script(*steps))
        run = cluster.webs[number % 2].send(f"Tell story {number}")
        # Scripts are used in the order of the requests.
        cluster.fake.wait_until(partial(_has_posts, posts + 1), timeout=SOON_SECONDS)
        begun.append((run, words))
    return begun


def _has_posts(count: int, fake: FakeUpstream) -> bool:
    return fake.posts == count


def assert_whole(cluster: Cluster, run: UUID, words: Words) -> list[LogEntry]:
    """The log has what the upstream wrote: every word, once, in order."""
    entries = assert_ended(cluster.web, run, "completed")
    assert text_of(cluster.web, run) == words.text.strip()
    return entries


def assert_nothing_lost(
    cluster: Cluster, viewers: Viewers, begun: Sequence[tuple[UUID, Words]]
) -> None:
    """Every run is complete, was asked for once, and everybody has all of it."""
    for run, words in begun:
        assert_whole(cluster, run, words)
    viewers.assert_complete()
    assert cluster.fake.posts == len(begun)
