"""Answers that take their time, and what must be true of a run that has ended."""

from collections.abc import Sequence
from functools import partial
from uuid import UUID

from chat.demo.fake import FakeUpstream
from chat.demo.script import AnyStep, Pause, Script, lmstudio_event, lmstudio_run, stream
from chat.events import decode_result
from chat.result import plain_text
from chat.runs.tail import Entry
from tests.processes.test_crashes import assert_ended, text_of
from tests.support.cluster.audience import Audience
from tests.support.cluster.cluster import Cluster

__all__ = ["Story", "assert_ended", "assert_whole", "text_of"]


class Story:
    """An answer of many words, with ``pause_seconds`` between them, and steps in the middle."""

    def __init__(self, title: str, *, words: int = 120, pause_seconds: float = 0.01) -> None:
        self._words = [f"{title}-{number} " for number in range(words)]
        self._pause_seconds = pause_seconds

    @property
    def text(self) -> str:
        return "".join(self._words)

    @property
    def first_half(self) -> str:
        return "".join(self._words[: len(self._words) // 2])

    def script(self, *middle: AnyStep) -> Script:
        """What the fake does: the first half, ``middle``, the rest."""
        events = [lmstudio_event(event) for event in lmstudio_run(*self._words)]
        # chat.start, two of prompt processing, message.start; then the words.
        half = 4 + len(self._words) // 2
        last = events.pop()
        return stream(*self._paced(events[:half]), *middle, *self._paced(events[half:]), last)

    def _paced(self, events: Sequence[bytes]) -> list[bytes | AnyStep]:
        pause = Pause(seconds=self._pause_seconds)
        return [part for event in events for part in (event, pause)]


def assert_whole(cluster: Cluster, run: UUID, story: Story) -> list[Entry]:
    """The log says what the upstream wrote: every word, once, in order."""
    entries = assert_ended(cluster.web, run, "completed")
    assert plain_text(decode_result(cluster.web.run(run)["result"])) == story.text.strip()
    return entries


def begin(
    cluster: Cluster, count: int, *middle: AnyStep, **options: float
) -> list[tuple[UUID, Story]]:
    """Runs that are being answered; each has its own words."""
    begun: list[tuple[UUID, Story]] = []
    for number in range(count):
        story = Story(f"w{number}", **options)  # type: ignore[arg-type]
        posts = cluster.fake.posts
        cluster.fake.script(story.script(*middle))
        run = cluster.webs[number % 2].send(f"Tell story {number}")
        # Scripts are used in the order of the requests.
        cluster.fake.wait_until(partial(_has_posts, posts + 1), timeout=60)
        begun.append((run, story))
    return begun


def _has_posts(count: int, fake: FakeUpstream) -> bool:
    return fake.posts == count


def assert_nothing_lost(
    cluster: Cluster, audience: Audience, begun: Sequence[tuple[UUID, Story]]
) -> None:
    """Every run is complete, was asked for once, and everybody has all of it."""
    for run, story in begun:
        assert_whole(cluster, run, story)
    audience.assert_have_all()
    assert cluster.fake.posts == len(begun)
