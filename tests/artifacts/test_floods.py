"""What a hostile answer repeats without end costs no more than what it sent."""

from __future__ import annotations

from typing import ClassVar

import msgspec
import pytest

from chat import result as folding
from chat.artifacts import actions
from chat.events import ArtifactUpdate, Event, MediaItem, MediaUpdate
from chat.files.answer_files import read_media
from chat.models import ArtifactVersion
from chat.result import Fold
from tests.support.answers import Answer

LONG = "x" * 100_000


def folded(*events: Event) -> Fold:
    fold = Fold()
    for seq, event in enumerate(events, start=1):
        event.seq = seq
        fold.add(event)
    return fold


def renamed(times: int) -> list[Event]:
    """A long artifact, and updates without its content."""
    made = ArtifactUpdate(op="created", artifact_id="a", content=LONG)
    return [
        made,
        *(ArtifactUpdate(op="updated", artifact_id="a", title=str(n)) for n in range(times)),
    ]


def test_updates_without_content_do_not_multiply_it() -> None:
    result = folded(*renamed(1000)).result()

    (artifact,) = result.ext.artifacts
    assert len(artifact["versions"]) == 1001
    assert artifact["versions"][1]["content"] == LONG
    assert artifact["versions"][1000]["title"] == "999"
    assert len(msgspec.json.encode(result)) < 2 * folding.MOST_REPEATED_CHARACTERS


@pytest.mark.django_db
def test_every_version_is_stored_with_its_content(
    answer: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folding, "MOST_REPEATED_CHARACTERS", 2 * len(LONG))
    answer(*renamed(5))

    contents = ArtifactVersion.objects.order_by("number").values_list("content", flat=True)
    assert list(contents) == [LONG] * 6


@pytest.mark.django_db
def test_stored_content_of_many_updates_is_bounded(
    answer: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actions, "MOST_CHARACTERS", 3 * len(LONG))
    first = answer(ArtifactUpdate(op="created", artifact_id="a", content=LONG))
    answer(*renamed(400)[1:], below=first.message)

    rows = list(ArtifactVersion.objects.order_by("number"))
    assert [row.number for row in rows] == [1, 2, 3, 4]
    assert [row.title for row in rows] == ["", "397", "398", "399"]
    assert [row.content for row in rows] == [LONG] * 4


class CountedId(str):
    """Counts how often it is compared."""

    comparisons: ClassVar[int] = 0

    def __eq__(self, other: object) -> bool:
        CountedId.comparisons += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_media_of_one_item_are_not_compared_with_each_other() -> None:
    media: list[Event] = [
        MediaUpdate(item=0, media_type="audio/wav", media_id=CountedId(number), data="AAAA")
        for number in range(1000)
    ]
    result = folded(*media).result()

    (medium,) = result.output
    assert isinstance(medium, MediaItem)
    assert medium.file == "sound-1-1000.wav"
    assert CountedId.comparisons < 10 * len(media)


def test_pieces_of_a_sound_are_appended_without_a_copy() -> None:
    pieces = [
        MediaUpdate(
            item=0, media_id="m", media_type="audio/wav", state="partial", data="AA", transcript="a"
        )
        for _ in range(3)
    ]
    (medium,) = read_media(pieces[:1])
    data, words = medium.pieces, medium.transcripts
    for piece in pieces[1:]:
        medium.add(piece)

    assert (medium.pieces is data, medium.transcripts is words) == (True, True)
    assert (len(data), len(words)) == (3, 3)
