"""What servers get of each kind of attachment, by their API and their settings."""

from __future__ import annotations

import json
from typing import Any

import pytest

from chat.core.errors import FilesUnavailable
from chat.dialects import DIALECTS
from chat.models import FileUse, Message, Run, StoredFile, Upstream
from chat.runs.prompt import NotReady, prepare
from tests.runs.helpers import retry, send_below
from tests.runs.test_prompt import answered
from tests.support.answers import png
from tests.support.documents import PDF_BYTES, attach_document, attach_file, refuse
from tests.support.run_fixtures import MakeRun
from tests.support.upstream.strict_parts import data_in, newest_content, text_in

pytestmark = pytest.mark.databases(slow=True)

WAV = b"RIFF\x24\x00\x00\x00WAVEfmt "
WORD = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"

# By API: the kinds of bytes that arrive, by default and where files are to be sent. Everything else is text.
PICTURE, SOUND, FILE = png(), WAV, PDF_BYTES
TAKEN: dict[str, tuple[set[bytes], set[bytes]]] = {
    "openai_chat": ({PICTURE, SOUND}, {PICTURE, SOUND, FILE}),
    "openai_responses": ({PICTURE, SOUND}, {PICTURE, SOUND, FILE}),
    "anthropic_messages": ({PICTURE}, {PICTURE, FILE}),
    "xerotier": ({PICTURE, SOUND}, {PICTURE, SOUND}),
    "lmstudio": ({PICTURE}, {PICTURE}),
    "openai_completions": (set(), set()),
    "bitseek": (set(), set()),
}


def attach_each_kind(message: Message) -> None:
    attach_file(message, "a.png", PICTURE, media_type="image/png")
    attach_document(message, "whole.pdf", ["Whole one.", "Whole two."])
    attach_document(message, "part.pdf", ["Part one.", "Part two."], body=b"%PDF-2", pages="2")
    attach_document(message, "letter.docx", ["Dear all."], body=b"PK", media_type=WORD)
    attach_file(message, "said.wav", WAV, media_type="audio/wav")


def question_of(run: Run) -> Message:
    assert run.message.parent is not None
    return run.message.parent


def request_of(run: Run) -> tuple[list[Any], list[str]]:
    """The parts of the newest message in the request of a run, and the notes. Raises ``ValidationError`` for what the API
    would refuse."""
    ready = prepare(run.pk)
    request = ready.dialect.request(ready.prompt)
    return newest_content(ready.dialect.name, json.loads(request.body)), list(request.notes)


def text_for(run: Run) -> str:
    return "\n".join(map(text_in, request_of(run)[0]))


def test_servers_get_what_their_api_documents(make_run: MakeRun, subtests: pytest.Subtests) -> None:
    assert TAKEN.keys() == DIALECTS.keys()
    run = make_run()
    attach_each_kind(question_of(run))
    for dialect, taken in TAKEN.items():
        for sends, expected in zip(("text", "file"), taken, strict=True):
            with subtests.test(msg=f"{dialect} {sends}"):
                Upstream.objects.update(dialect=dialect, options={"documents": sends})

                parts, notes = request_of(run)

                bodies = {data_in(part) for part in parts} - {b""}
                text = "\n".join(map(text_in, parts))
                assert bodies == expected
                assert ("Whole two." in text) == (FILE not in bodies)
                assert "Part two." in text
                assert "Part one." not in text
                assert "Dear all." in text
                left_out = {SOUND: "audio files were left out", PICTURE: "images were left out"}
                for body, words in left_out.items():
                    assert (body not in bodies) == any(words in note for note in notes)


def test_provider_gets_files_only_if_its_api_has_them(make_run: MakeRun) -> None:
    run = make_run(
        dialect="anthropic_messages", options={"documents": "file", "server": "friendli"}
    )
    attach_document(question_of(run))

    parts, _ = request_of(run)

    assert {data_in(part) for part in parts} == {b""}
    assert "The second page." in text_for(run)


@pytest.mark.parametrize("limit", ["FILES_BYTES", "FILES_PAGES"])
def test_file_that_is_too_large_for_servers_is_sent_as_text(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(f"chat.documents.parts.{limit}", 1)
    run = make_run(dialect="openai_chat", options={"documents": "file"})
    attach_document(question_of(run))

    parts, notes = request_of(run)

    assert {data_in(part) for part in parts} == {b""}
    assert "The second page." in text_for(run)
    assert any("report.pdf” was sent: the file is too large" in note for note in notes)


def test_pages_of_all_files_count(make_run: MakeRun) -> None:
    run = make_run(dialect="openai_chat", options={"documents": "file"})
    for name, body in (("first.pdf", b"%PDF-1"), ("second.pdf", b"%PDF-2")):
        attach_document(question_of(run), name, [f"{name} {page}." for page in range(60)], body)

    parts, notes = request_of(run)

    assert {data_in(part) for part in parts} - {b""} == {b"%PDF-1"}
    assert "second.pdf 59." in text_for(run)
    assert notes == ["The text of “second.pdf” was sent: the file is too large to be sent."]


def test_text_of_a_file_that_is_gone_is_still_sent(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(file: StoredFile) -> bytes:
        raise FilesUnavailable

    monkeypatch.setattr(StoredFile, "body", property(gone))
    run = make_run(dialect="openai_chat", options={"documents": "file"})
    attach_document(question_of(run))

    _, notes = request_of(run)

    assert "The second page." in text_for(run)
    assert any("can’t be read any more" in note for note in notes)


def test_retries_and_later_messages_send_the_same(make_run: MakeRun) -> None:
    first = make_run("What is it?", dialect="openai_chat")
    attach_document(question_of(first), pages="2")
    expected = text_for(first)
    answered(first, "A page.")

    again = retry(first)
    later = send_below(first, "And why?")

    assert "The second page." in expected
    assert "The first page." not in expected
    assert text_for(again) == expected
    assert [turn.text for turn in prepare(later.pk).prompt.turns if hasattr(turn, "text")] == [
        expected,
        "And why?",
    ]


def test_only_the_message_that_is_answered_must_be_readable(make_run: MakeRun) -> None:
    first = make_run("What is it?", dialect="openai_chat")
    refuse(attach_file(question_of(first), "\u202esecret.pdf").file, "The file is encrypted.")

    with pytest.raises(NotReady) as refused:
        prepare(first.pk)
    later = send_below(answered(first, "I don’t know."), "Never mind.")

    assert refused.value.info.code == "document_refused"
    assert "“secret.pdf” can’t be read: The file is encrypted." in refused.value.info.message
    assert request_of(later)[1] == ["“secret.pdf” was left out: its text can’t be read."]


def test_file_that_is_no_document_is_named_as_left_out(make_run: MakeRun) -> None:
    run = make_run(dialect="openai_chat")
    attach_file(question_of(run), "a.zip", b"PK", media_type="application/zip")

    parts, notes = request_of(run)

    assert parts == ["Hello"]
    assert notes == ["“a.zip” was left out: it can’t be read as a document."]


def test_documents_without_attachments_cost_nothing(
    make_run: MakeRun, django_assert_num_queries: Any
) -> None:
    run = make_run(dialect="openai_chat")
    attach_document(question_of(run))

    # The attachments, their documents, and the text of one.
    with django_assert_num_queries(2 + 3):
        prepare(run.pk)


def test_model_that_is_to_read_by_itself_gets_tools(make_run: MakeRun) -> None:
    run = make_run(dialect="openai_chat")
    attach_document(question_of(run), "long.pdf", use=FileUse.TOOLS)

    prompt = prepare(run.pk).prompt

    assert [tool.name for tool in prompt.tools] == ["list_files", "search_file", "read_file"]
    assert "The first page." not in text_for(run)
    assert "[File: long.pdf, 2 pages, about 8 tokens. Its text is not in this message" in text_for(
        run
    )
    run.refresh_from_db()
    assert [tool["feature"] for tool in run.tools] == ["files"] * 3


def test_model_without_tools_gets_the_text(make_run: MakeRun) -> None:
    run = make_run(dialect="openai_completions")
    attach_document(question_of(run), use=FileUse.TOOLS)

    _, notes = request_of(run)

    assert "The second page." in text_for(run)
    assert any("the model can’t use tools" in note for note in notes)
    run.refresh_from_db()
    assert run.tools == []
