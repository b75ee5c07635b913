"""What an answer leaves beside its text becomes rows when it ends."""

from __future__ import annotations

import base64

import pytest

from chat.actions.artifacts import BAD_PATH, LONG_PATH, REPLACED, TOO_LARGE, path_problem
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
from tests.files.conftest import Answer, png

pytestmark = pytest.mark.django_db


def made(artifact_id: str = "a", content: str = "1", **members: str) -> ArtifactUpdate:
    return ArtifactUpdate(op="created", artifact_id=artifact_id, content=content, **members)


def again(artifact_id: str = "a", content: str = "2", **members: str) -> ArtifactUpdate:
    return ArtifactUpdate(op="updated", artifact_id=artifact_id, content=content, **members)


def versions(artifact_id: str = "a") -> list[tuple[int, str]]:
    rows = ArtifactVersion.objects.filter(artifact__artifact_id=artifact_id).order_by("number")
    return list(rows.values_list("number", "content"))


# --- artifacts ------------------------------------------------------------------------------


def test_every_version_of_an_artifact_is_kept(answer: Answer) -> None:
    run = answer(made(title="Calculator", language="python"), again())

    assert versions() == [(1, "1"), (2, "2")]
    newest = ArtifactVersion.objects.get(number=2)
    assert (newest.title, newest.language, newest.run, newest.seq) == (
        "Calculator",
        "python",
        run,
        3,
    )


def test_an_update_in_a_later_answer_is_the_next_version(answer: Answer) -> None:
    first = answer(made(title="Calculator"))
    second = answer(again(), below=first.message)

    assert versions() == [(1, "1"), (2, "2")]
    newest = ArtifactVersion.objects.get(number=2)
    assert (newest.run, newest.title) == (second, "Calculator")


def test_branches_number_on_and_keep_their_versions(answer: Answer) -> None:
    first = answer(made())
    left = answer(again(content="left"), below=first.message)
    right = answer(again(content="right"), below=first.message)

    assert versions() == [(1, "1"), (2, "left"), (3, "right")]
    assert [v.run for v in ArtifactVersion.objects.order_by("number")] == [first, left, right]


def test_an_update_of_what_nobody_made_is_a_first_version(answer: Answer) -> None:
    answer(again())

    assert versions() == [(1, "2")]


def test_the_same_id_elsewhere_is_another_artifact(
    answer: Answer, private_conversation: Conversation
) -> None:
    answer(made())
    answer(again(), of=private_conversation)

    assert Artifact.objects.count() == 2
    assert set(ArtifactVersion.objects.values_list("number", flat=True)) == {1}


@pytest.mark.parametrize(
    "odd",
    [
        {"title": "t" * 5000, "language": "l" * 500, "content_type": "c" * 500},
        {"title": "nul\x00", "identifier": "i" * 999},
        {"artifact_id": ""},
        {"artifact_id": "x" * 5000},
    ],
    ids=["too long", "nul", "no id", "long id"],
)
def test_odd_values_are_mended_and_kept(answer: Answer, odd: dict[str, str]) -> None:
    run = answer(made(**odd))

    assert run.status == "stopped"
    (version,) = ArtifactVersion.objects.all()
    assert version.content == "1"
    assert len(version.title) <= 300
    assert "\x00" not in version.title


def test_long_ids_that_begin_alike_stay_apart(answer: Answer) -> None:
    answer(made("x" * 500 + "1"), made("x" * 500 + "2"))

    assert Artifact.objects.count() == 2


def test_a_flood_of_versions_is_bounded_and_ends_with_the_last(answer: Answer) -> None:
    answer(*[again(content=str(number)) for number in range(600)])

    assert ArtifactVersion.objects.count() == 500
    assert versions()[-1] == (500, "599")


# --- mockups --------------------------------------------------------------------------------


def page(path: str = "index.html", size: int = 10) -> JsonObject:
    return {"path": path, "contentType": "text/html", "size": size}


def bundle(*files: JsonObject) -> MockupUpdate:
    return MockupUpdate(
        op="created", bundle_id="b", identifier="shop", entry="index.html", files=list(files)
    )


def change(changed: list[str] | None = None, deleted: list[str] | None = None) -> MockupUpdate:
    return MockupUpdate(op="updated", bundle_id="b", changed=changed, deleted=deleted)


def files(number: int) -> dict[str, MockupFile]:
    rows = MockupFile.objects.filter(version__number=number)
    return {file.path: file for file in rows}


def store_all() -> StoredFile:
    """As if everything that is wanted had been fetched."""
    stored = StoredFile.objects.create(body=b"bytes", size_bytes=5)
    MockupFile.objects.filter(status=FetchStatus.WANTED).update(
        status=FetchStatus.STORED, file=stored
    )
    return stored


def test_listed_files_are_wanted(answer: Answer) -> None:
    run = answer(bundle(page(), page("css/style.css", 7)))

    version = MockupVersion.objects.get()
    assert (version.entry, version.run, version.mockup.upstream) == (
        "index.html",
        run,
        run.upstream,
    )
    assert {path: file.status for path, file in files(1).items()} == {
        "index.html": "wanted",
        "css/style.css": "wanted",
    }
    assert files(1)["css/style.css"].announced_bytes == 7


def test_unchanged_files_share_bytes_and_changed_ones_are_fetched_again(answer: Answer) -> None:
    first = answer(bundle(page(), page("style.css"), page("old.js")))
    stored = store_all()
    answer(change(["index.html", "new.js"], ["old.js"]), below=first.message)

    second = files(2)
    assert set(second) == {"index.html", "style.css", "new.js"}
    assert (second["style.css"].status, second["style.css"].file_id) == ("stored", stored.pk)
    assert (second["index.html"].status, second["index.html"].file_id) == ("wanted", None)
    assert second["index.html"].content_type == "text/html"
    assert set(files(1)) == {"index.html", "style.css", "old.js"}


def test_a_version_that_was_replaced_at_once_says_so(answer: Answer) -> None:
    answer(bundle(page(), page("style.css")), change(["index.html"]))

    assert (files(1)["index.html"].status, files(1)["index.html"].reason) == ("refused", REPLACED)
    assert files(1)["style.css"].status == "wanted"
    assert {file.status for file in files(2).values()} == {"wanted"}


def test_a_bundle_made_again_is_fetched_whole(answer: Answer) -> None:
    first = answer(bundle(page(), page("style.css")))
    store_all()
    answer(bundle(page()), below=first.message)

    assert {path: file.status for path, file in files(2).items()} == {"index.html": "wanted"}


@pytest.mark.parametrize(
    "path",
    [
        *(
            "../secret",
            "a/../../b",
            "..",
            ".",
            "a/./b",
            "/etc/passwd",
            "//host/x",
            "a//b",
            "a/",
            "",
        ),
        *("a\\b", "..\\b", "a\x00b", "a\nb", "%2e%2e/b", "%252e%252e%252fb", "a%2f..%2fb", "a%5cb"),
        *("a%00b", "%c0%ae%c0%ae/x", "a/ ../b", "a/.. /b", "http://host/x", "\u202eb", "...%2f"),
        "%2525252525252e",
    ],
)
def test_path_tricks_are_never_asked_for(answer: Answer, path: str) -> None:
    run = answer(bundle(page(path)))

    assert run.status == "stopped"
    assert path_problem(path) == BAD_PATH
    (file,) = MockupFile.objects.all()
    assert (file.status, file.reason) == ("refused", BAD_PATH)


@pytest.mark.parametrize(
    "path",
    ["index.html", "a/b/c.css", "übersicht/日本.html", "a b.html", "100%.html", "a?b#c", ".x"],
)
def test_ordinary_paths_are(path: str) -> None:
    assert path_problem(path) == ""


def test_overlong_and_oversized_files_are_refused_by_what_is_announced(answer: Answer) -> None:
    answer(bundle(page("x" * 501), page("big.bin", 10**12), page("huge", 10**30)))

    by_reason = {file.reason for file in MockupFile.objects.all()}
    assert by_reason == {LONG_PATH, TOO_LARGE}


def test_more_files_than_a_bundle_may_have_are_left_out(answer: Answer) -> None:
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
def test_odd_lists_do_not_stop_the_answer(answer: Answer, listed: list[JsonObject]) -> None:
    run = answer(bundle(*listed))

    assert run.status == "stopped"
    assert MockupVersion.objects.count() == 1


def test_what_failed_or_was_only_announced_has_no_rows(answer: Answer) -> None:
    answer(
        MockupUpdate(op="calling", identifier="shop"),
        MockupUpdate(op="error", code="too_big", message="Too big"),
    )

    assert Mockup.objects.count() == 0


def test_a_flood_of_updates_is_bounded(answer: Answer) -> None:
    answer(bundle(page()), *[change(["index.html"]) for _ in range(100)])

    assert MockupVersion.objects.count() == 50


def test_a_flood_of_paths_is_bounded_and_keeps_no_answer_from_ending(
    answer: Answer, settings: object
) -> None:
    settings.MOCKUP_FILES = 3
    answer(bundle(page()), change(["index.html", *(f"p{number}" for number in range(300_000))]))

    version = MockupVersion.objects.get(number=2)
    assert version.changed == ["index.html", "p0", "p1"]
    assert version.files.count() == 3


# --- media ------------------------------------------------------------------------------------


def medium(body: bytes | str, item: int = 1, **members: object) -> MediaUpdate:
    data = body if isinstance(body, str) else base64.b64encode(body).decode()
    fields: dict[str, object] = {"media_id": "m", "media_type": "image/png", **members}
    return MediaUpdate(item=item, data=data, **fields)


def test_bytes_of_an_answer_are_kept_under_the_name_in_its_result(answer: Answer) -> None:
    run = answer(MessageStart(item=0), medium(png()))

    (kept,) = AnswerFile.objects.select_related("file")
    assert (kept.run, kept.item, kept.file.name) == (run, 1, "picture-2.png")
    assert bytes(kept.file.body) == png()
    assert '"file":"picture-2.png"' in run.result


def test_only_the_last_of_several_pictures_of_one_medium_is_kept(answer: Answer) -> None:
    answer(
        medium(b"blurred", state="partial"), medium(b"sharper", state="partial"), medium(b"sharp")
    )

    assert bytes(StoredFile.objects.get().body) == b"sharp"


def test_pieces_of_a_sound_are_put_together(answer: Answer) -> None:
    pieces = [
        medium(each, media_type="audio/wav", state="partial", transcript=word)
        for each, word in ((b"one, ", "One "), (b"two", "two"))
    ]
    answer(*pieces)

    kept = AnswerFile.objects.get()
    assert bytes(kept.file.body) == b"one, two"
    assert (kept.file.name, kept.transcript) == ("sound-2.wav", "One two")


def test_words_of_a_sound_may_come_before_the_sound(answer: Answer) -> None:
    answer(
        *(
            medium(each, media_type="audio/wav", state="partial", transcript=word)
            for each, word in ((b"", "One "), (b"two", "two"))
        )
    )

    assert AnswerFile.objects.get().transcript == "One two"


def test_two_media_of_one_item_are_two_files(answer: Answer) -> None:
    answer(medium(b"1", media_id="m"), medium(b"2", media_id="n"))

    names = StoredFile.objects.order_by("pk").values_list("name", flat=True)
    assert list(names) == ["picture-2.png", "picture-2-2.png"]


@pytest.mark.parametrize("data", ["not base64!", "AAA", "\u202e", "data:image/png;base64,AA=="])
def test_text_that_is_no_base64_makes_no_file(answer: Answer, data: str) -> None:
    run = answer(medium(data))

    assert run.status == "stopped"
    assert AnswerFile.objects.count() == 0
