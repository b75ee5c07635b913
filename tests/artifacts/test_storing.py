"""Artifacts, mockups and media of an answer become rows when it ends."""

from __future__ import annotations

import base64

import pytest

from chat.artifacts.actions import REPLACED, TOO_LARGE
from chat.artifacts.paths import BAD_PATH, LONG_PATH, path_problem
from chat.events import ArtifactUpdate, JsonObject, MediaUpdate, MessageStart, MockupUpdate
from chat.models import (
    AnswerFile,
    Artifact,
    ArtifactVersion,
    Conversation,
    FetchStatus,
    Mockup,
    MockupFile,
    MockupVersion,
    StoredFile,
)
from tests.support.answers import Answer, png
from tests.support.files import store_file
from tests.support.stored import rolled_back

pytestmark = pytest.mark.django_db


# --- artifacts ---------------------------------------------------------------------------------


def create(artifact_id: str = "a", content: str = "1", **fields: str) -> ArtifactUpdate:
    return ArtifactUpdate(op="created", artifact_id=artifact_id, content=content, **fields)


def update(content: str = "2", **fields: str) -> ArtifactUpdate:
    return ArtifactUpdate(op="updated", artifact_id="a", content=content, **fields)


def versions() -> list[tuple[int, str]]:
    rows = ArtifactVersion.objects.filter(artifact__artifact_id="a").order_by("number")
    return list(rows.values_list("number", "content"))


def test_every_version_of_an_artifact_is_stored(answer: Answer) -> None:
    run = answer(create(title="Calculator", language="python"), update())

    assert versions() == [(1, "1"), (2, "2")]
    newest = ArtifactVersion.objects.get(number=2)
    assert (newest.title, newest.language) == ("Calculator", "python")
    assert (newest.run, newest.seq) == (run, 3)


def test_later_answer_adds_a_version(answer: Answer) -> None:
    first = answer(create(title="Calculator"))
    second = answer(update(), below=first.message)

    assert versions() == [(1, "1"), (2, "2")]
    newest = ArtifactVersion.objects.get(number=2)
    assert (newest.run, newest.title) == (second, "Calculator")


def test_branches_share_the_numbering(answer: Answer) -> None:
    first = answer(create())
    left = answer(update("left"), below=first.message)
    right = answer(update("right"), below=first.message)

    assert versions() == [(1, "1"), (2, "left"), (3, "right")]
    assert [v.run for v in ArtifactVersion.objects.order_by("number")] == [first, left, right]


def test_update_of_an_unknown_artifact_is_its_first_version(answer: Answer) -> None:
    answer(update())

    assert versions() == [(1, "2")]


def test_same_id_in_another_conversation_is_another_artifact(
    answer: Answer, private_conversation: Conversation
) -> None:
    answer(create())
    answer(update(), of=private_conversation)

    assert Artifact.objects.count() == 2
    assert set(ArtifactVersion.objects.values_list("number", flat=True)) == {1}


@pytest.mark.parametrize(
    "fields",
    [
        {"title": "t" * 5000, "language": "l" * 500, "content_type": "c" * 500},
        {"title": "nul\x00", "identifier": "i" * 999},
        {"artifact_id": ""},
        {"artifact_id": "x" * 5000},
    ],
    ids=["too long", "nul", "no id", "long id"],
)
def test_invalid_fields_are_repaired(answer: Answer, fields: dict[str, str]) -> None:
    run = answer(create(**fields))

    assert run.status == "stopped"
    (version,) = ArtifactVersion.objects.all()
    assert version.content == "1"
    assert len(version.title) <= 300
    assert "\x00" not in version.title


def test_long_ids_with_the_same_beginning_stay_apart(answer: Answer) -> None:
    answer(create("x" * 500 + "1"), create("x" * 500 + "2"))

    assert Artifact.objects.count() == 2


def test_number_of_versions_is_bounded(answer: Answer) -> None:
    answer(*[update(str(number)) for number in range(600)])

    assert ArtifactVersion.objects.count() == 500
    assert versions()[-1] == (500, "599")


# --- mockups -----------------------------------------------------------------------------------


def page(path: str = "index.html", size: int = 10) -> JsonObject:
    return {"path": path, "contentType": "text/html", "size": size}


def bundle(*files: JsonObject) -> MockupUpdate:
    return MockupUpdate(
        op="created", bundle_id="b", identifier="shop", entry="index.html", files=list(files)
    )


def change(*changed: str, deleted: list[str] | None = None) -> MockupUpdate:
    return MockupUpdate(op="updated", bundle_id="b", changed=list(changed), deleted=deleted)


def files(number: int) -> dict[str, MockupFile]:
    return {file.path: file for file in MockupFile.objects.filter(version__number=number)}


def statuses(number: int) -> dict[str, str]:
    return {path: file.status for path, file in files(number).items()}


def store_all() -> StoredFile:
    """As if everything that is wanted had been fetched."""
    stored = store_file(body=b"bytes", size_bytes=5)
    wanted = MockupFile.objects.filter(status=FetchStatus.WANTED)
    wanted.update(status=FetchStatus.STORED, file=stored)
    return stored


def test_listed_files_are_wanted(answer: Answer) -> None:
    run = answer(bundle(page(), page("css/style.css", 7)))

    version = MockupVersion.objects.get()
    assert (version.entry, version.run) == ("index.html", run)
    assert version.mockup.upstream == run.upstream
    assert statuses(1) == {"index.html": "wanted", "css/style.css": "wanted"}
    assert files(1)["css/style.css"].announced_bytes == 7


def test_only_changed_files_are_fetched_again(answer: Answer) -> None:
    first = answer(bundle(page(), page("style.css"), page("old.js")))
    stored = store_all()
    answer(change("index.html", "new.js", deleted=["old.js"]), below=first.message)

    second = files(2)
    assert set(second) == {"index.html", "style.css", "new.js"}
    assert (second["style.css"].status, second["style.css"].file_id) == ("stored", stored.pk)
    assert (second["index.html"].status, second["index.html"].file_id) == ("wanted", None)
    assert second["index.html"].content_type == "text/html"
    assert set(files(1)) == {"index.html", "style.css", "old.js"}


def test_replaced_file_is_refused_with_its_reason(answer: Answer) -> None:
    answer(bundle(page(), page("style.css")), change("index.html"))

    assert (files(1)["index.html"].status, files(1)["index.html"].reason) == ("refused", REPLACED)
    assert files(1)["style.css"].status == "wanted"
    assert set(statuses(2).values()) == {"wanted"}


def test_bundle_created_again_is_fetched_whole(answer: Answer) -> None:
    first = answer(bundle(page(), page("style.css")))
    store_all()
    answer(bundle(page()), below=first.message)

    assert statuses(2) == {"index.html": "wanted"}


BAD_PATHS = [
    *("../secret", "a/../../b", "..", ".", "a/./b", "/etc/passwd", "//host/x", "a//b", "a/", ""),
    *("a\\b", "..\\b", "a\x00b", "a\nb", "%2e%2e/b", "%252e%252e%252fb", "a%2f..%2fb", "a%5cb"),
    *("a%00b", "%c0%ae%c0%ae/x", "a/ ../b", "a/.. /b", "http://host/x", "\u202eb", "...%2f"),
    "%2525252525252e",
]


def test_path_tricks_are_refused(answer: Answer, subtests: pytest.Subtests) -> None:
    for path in BAD_PATHS:
        with subtests.test(ascii(path)), rolled_back():
            run = answer(bundle(page(path)))

            assert run.status == "stopped"
            assert path_problem(path) == BAD_PATH
            (file,) = MockupFile.objects.all()
            assert (file.status, file.reason) == ("refused", BAD_PATH)


@pytest.mark.parametrize(
    "path",
    ["index.html", "a/b/c.css", "übersicht/日本.html", "a b.html", "100%.html", "a?b#c", ".x"],
)
def test_ordinary_paths_are_accepted(path: str) -> None:
    assert path_problem(path) == ""


def test_long_paths_and_large_files_are_refused_as_announced(answer: Answer) -> None:
    answer(bundle(page("x" * 501), page("big.bin", 10**12), page("huge", 10**30)))

    assert {file.reason for file in MockupFile.objects.all()} == {LONG_PATH, TOO_LARGE}


def test_number_of_files_is_bounded(answer: Answer) -> None:
    answer(bundle(*[page(f"{number}.html") for number in range(300)]))

    assert MockupFile.objects.count() == 200


@pytest.mark.parametrize(
    "listed",
    [
        [{"path": 7}, {"path": None}, {}, {"path": ["x"]}],
        [page(), page(), page("index.html", -3)],
        [{"path": "a", "size": "big", "contentType": 9}, {"path": "b", "size": True}],
    ],
    ids=["no paths", "duplicates", "wrong types"],
)
def test_invalid_file_list_does_not_stop_the_answer(
    answer: Answer, listed: list[JsonObject]
) -> None:
    run = answer(bundle(*listed))

    assert run.status == "stopped"
    assert MockupVersion.objects.count() == 1


def test_failed_and_announced_mockups_have_no_rows(answer: Answer) -> None:
    answer(
        MockupUpdate(op="calling", identifier="shop"),
        MockupUpdate(op="error", code="too_big", message="Too big"),
    )

    assert Mockup.objects.count() == 0


def test_number_of_updates_is_bounded(answer: Answer) -> None:
    answer(bundle(page()), *[change("index.html") for _ in range(100)])

    assert MockupVersion.objects.count() == 50


def test_number_of_changed_paths_is_bounded(answer: Answer, settings: object) -> None:
    settings.MOCKUP_FILES = 3
    answer(bundle(page()), change("index.html", *(f"p{number}" for number in range(300_000))))

    version = MockupVersion.objects.get(number=2)
    assert version.changed == ["index.html", "p0", "p1"]
    assert version.files.count() == 3


# --- media -------------------------------------------------------------------------------------


def medium(body: bytes | str, **fields: object) -> MediaUpdate:
    data = body if isinstance(body, str) else base64.b64encode(body).decode()
    defaults: dict[str, object] = {"item": 1, "media_id": "m", "media_type": "image/png"}
    return MediaUpdate(data=data, **{**defaults, **fields})


def sound(*pieces: tuple[bytes, str]) -> list[MediaUpdate]:
    return [
        medium(body, media_type="audio/wav", state="partial", transcript=word)
        for body, word in pieces
    ]


def test_picture_is_stored_under_the_name_in_its_result(answer: Answer) -> None:
    run = answer(MessageStart(item=0), medium(png()))

    (stored,) = AnswerFile.objects.select_related("file")
    assert (stored.run, stored.item, stored.file.name) == (run, 1, "picture-2.png")
    assert bytes(stored.file.body) == png()
    assert '"file":"picture-2.png"' in run.result


def test_last_version_of_a_picture_is_stored(answer: Answer) -> None:
    answer(
        medium(b"blurred", state="partial"), medium(b"sharper", state="partial"), medium(b"sharp")
    )

    assert bytes(StoredFile.objects.get().body) == b"sharp"


def test_pieces_of_a_sound_are_joined(answer: Answer) -> None:
    answer(*sound((b"one, ", "One "), (b"two", "two")))

    stored = AnswerFile.objects.get()
    assert bytes(stored.file.body) == b"one, two"
    assert (stored.file.name, stored.transcript) == ("sound-2.wav", "One two")


def test_transcript_may_come_before_the_sound(answer: Answer) -> None:
    answer(*sound((b"", "One "), (b"two", "two")))

    assert AnswerFile.objects.get().transcript == "One two"


def test_two_media_of_one_item_are_two_files(answer: Answer) -> None:
    answer(medium(b"1", media_id="m"), medium(b"2", media_id="n"))

    names = StoredFile.objects.order_by("pk").values_list("name", flat=True)
    assert list(names) == ["picture-2.png", "picture-2-2.png"]


@pytest.mark.parametrize("data", ["not base64!", "AAA", "\u202e", "data:image/png;base64,AA=="])
def test_invalid_base64_makes_no_file(answer: Answer, data: str) -> None:
    run = answer(medium(data))

    assert run.status == "stopped"
    assert AnswerFile.objects.count() == 0
