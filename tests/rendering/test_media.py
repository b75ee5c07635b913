"""Pictures, sounds and files of an answer, and the artifacts and mockups that it made."""

import base64
import re
from typing import Literal
from uuid import UUID

import pytest
from django.urls import reverse

from chat import events
from chat.events import Event
from chat.rendering.patches import Answer
from tests.rendering.shown import page_of, text_of
from tests.rendering.stories import RUN, answer_of, end, message

PNG = "iVBORw0KGgo="
WAVE = base64.b64encode(b"RIFF\x10\n\x00\x00WAVEfmt ").decode()


def sound(data: str | None = None, transcript: str | None = None) -> events.MediaUpdate:
    """A piece of a sound that goes on."""
    return events.MediaUpdate(
        item=0,
        media_id="s",
        media_type="audio/*",
        state="partial",
        data=data,
        transcript=transcript,
    )


def test_picture_keeps_its_media_type() -> None:
    page = page_of(
        events.MediaUpdate(item=0, media_id="m", media_type="image/png", data=PNG),
        events.MediaUpdate(item=0, media_id="m", media_type="text/html", state="final"),
    )

    (image,) = page.find_all("img")
    assert image.attributes["src"] == f"data:image/png;base64,{PNG}"


def test_sound_that_cannot_be_played_says_so() -> None:
    unplayable = events.MediaUpdate(item=0, media_id="s", media_type="audio/mp3", data="AAAA")
    empty = events.MediaUpdate(item=0, media_id="s", media_type="audio/*")

    assert "Audio MP3 3 bytes Preview isn’t available. Download it" in text_of(unplayable)
    assert "Audio Preview isn’t available for this file type." in text_of(empty)


def test_sound_can_be_played_when_the_answer_has_ended() -> None:
    live = [
        events.MediaUpdate(item=4, media_id="p", media_type="image/png", data="iVBORw0KGgoAAA=="),
        events.MediaUpdate(
            item=4,
            media_id="s",
            media_type="audio/*",
            state="partial",
            data=WAVE,
            transcript="Drip",
        ),
        events.MediaUpdate(
            item=4, media_id="s", media_type="audio/*", state="partial", data="AAAA"
        ),
    ]

    assert "You can play it when the answer is complete." in text_of(*live)
    assert page_of(*live).find_all("audio") == []
    (player,) = page_of(*live, end()).find_all("audio")
    # The last number is its place among the media that came as bytes, as the file is stored.
    assert re.fullmatch(r"/r/[0-9a-f-]{36}/media/0/4/1/", player.attributes["src"])
    assert player.attributes["aria-label"] == "Audio: sound-5-2.wav"
    assert "Audio sound-5-2.wav" not in text_of(*live)


@pytest.mark.parametrize("data", ["AAAA", "no base64", "", "UklGRgAAAABBVkkg"])
def test_invalid_sound_has_no_player(data: str) -> None:
    made = events.MediaUpdate(item=0, media_id="s", media_type="audio/wav", data=data)

    assert page_of(made, end()).find_all("audio") == []


def test_pieces_of_a_sound_are_joined() -> None:
    pieces = (sound(transcript="The water "), sound("AAAA"), sound("AA==", "murmurs."))

    assert "Audio in progress 4 bytes The water murmurs." in text_of(*pieces)


@pytest.mark.parametrize(
    ("status", "words"),
    [("completed", "Audio 3 bytes Hush."), ("failed", "Audio incomplete 3 bytes Hush.")],
)
def test_sound_is_not_in_progress_after_the_end(status: str, words: str) -> None:
    text = text_of(sound("AAAA", "Hush."), end(status))

    assert words in text
    assert "Download it" in text


def test_file_is_shown_by_its_name() -> None:
    url = "https://example.org/readings.csv"
    file = events.MediaUpdate(
        item=0, media_id="f", media_type="application/csv", url=url, transcript="readings.csv"
    )

    assert text_of(file) == "readings.csv application/csv example.org"


# --- artifacts and mockups ----------------------------------------------------------------------


def artifact(content: str | None, op: Literal["created", "updated"] = "updated") -> Event:
    return events.ArtifactUpdate(op=op, artifact_id="a", title="Calc <b>", content=content)


def test_artifact_shows_its_version_and_changes() -> None:
    created = artifact("1\n2\n", "created")
    first, second = text_of(created), text_of(created, artifact("1\n3\n4\n"))
    # An artifact of an earlier run, whose versions this run does not know.
    earlier = text_of(artifact("1\n"))

    assert "Calc <b> v1 " in first
    assert "Lines added" not in first
    assert "v2 Lines added: +2 Lines removed: −1" in second
    assert "Calc <b> updated" in earlier


def test_link_to_an_artifact_comes_with_the_end() -> None:
    answer = Answer(RUN)
    for event in (artifact("1", "created"), *message("text")):
        answer.apply(event)
    seq = answer.seq
    assert "card-open" not in answer.snapshot()

    answer.apply(end())

    patches = answer.patches_since(seq)
    assert f'hx-target="#r{RUN}-a1-way"' in patches
    assert "a1-told" not in patches
    assert f'href="{reverse("artifact_made", args=[UUID(RUN), 1])}"' in answer.snapshot()


def test_announced_mockup_has_no_link() -> None:
    answer = answer_of(events.MockupUpdate(op="calling", identifier="m"), end())

    assert "card-open" not in answer.snapshot()
    assert "Nothing received" in answer.snapshot()
    assert "spin" not in answer.snapshot()


def test_mockup_lists_its_files() -> None:
    text = text_of(
        events.MockupUpdate(
            op="created",
            bundle_id="b",
            title="Shop",
            entry="index.html",
            files=[{"path": "index.html", "contentType": "text/html", "size": 2048}, {"path": "x"}],
        ),
        events.MockupUpdate(op="updated", bundle_id="b", changed=["a.css"], deleted=["x"]),
    )

    assert "2 files" in text
    assert "index.html text/html 2.0 KB start page" in text


def test_update_of_an_earlier_mockup_counts_its_changes() -> None:
    made = events.MockupUpdate(op="created", bundle_id="b", files=[{"path": "x"}, {"path": "y"}])
    change = events.MockupUpdate(op="updated", bundle_id="b", changed=["x"])

    assert "2 files" in text_of(made, change)
    assert "1 file changed" in text_of(change)
