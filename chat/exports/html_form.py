"""A conversation as one HTML file that looks like its page, and as the page that is printed."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from uuid import uuid4

from django.template.loader import render_to_string
from django.utils.safestring import SafeString

from chat.conversations.tags import words_of
from chat.core.pictures import read_picture
from chat.exports.markdown_form import author_of, moment
from chat.exports.reading import Source, read_turns
from chat.exports.standalone import Standalone, styles
from chat.live.snapshot import render_unfolded
from chat.models import Message, Role, Run, StoredFile
from chat.questions.question_cards import QuestionCard
from chat.rendering.components import safe
from chat.run_details.log_pages import entries_behind
from chat.web.files import may_be_shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """``source`` is a ``data:`` address; empty for what no browser can show."""

    name: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPart:
    html: SafeString
    questions: list[QuestionCard]


def write_html(source: Source, *, is_page: bool = False) -> Iterator[bytes]:
    """The document in pieces, one for each turn of the visible branch. With ``is_page`` it is a page of
    this server, which links its styles and opens the browser's print dialog."""
    standalone = Standalone()
    places = [f"[{uuid4()}]" for _ in range(2)]
    context = {
        "conversation": source.conversation,
        "created": moment(source.conversation.created_at),
        "style": "" if is_page else styles(),
        "is_page": is_page,
        "turns_place": places[0],
        "sprite_place": places[1],
    }
    begin, _, rest = render_to_string("exports/document.html", context).partition(places[0])
    middle, _, end = rest.partition(places[1])
    yield begin.encode()
    for number, message in enumerate(
        read_turns(source, [position.pk for position in source.visible]), start=1
    ):
        yield standalone.clean(_turn(message, number)).encode()
    yield f"{middle}{standalone.sprite()}{end}".encode()


def _turn(message: Message, number: int) -> str:
    is_person = message.role == Role.USER
    return render_to_string(
        "exports/turn.html",
        {
            "message": message,
            "number": number,
            "is_person": is_person,
            "author": author_of(message),
            "at": moment(message.created_at),
            "iso": message.created_at.isoformat(timespec="seconds"),
            "words": words_of(message).html if is_person else "",
            "pictures": [_picture(each.file) for each in message.attachments.all()],
            "runs": [_run(run) for run in message.runs.all()],
        },
    )


def _run(run: Run) -> RunPart:
    return RunPart(
        html=render_unfolded(run, entries_behind(run.pk)),
        questions=[QuestionCard(question=question) for question in run.questions.all()],
    )


def _picture(file: StoredFile) -> Picture:
    body = file.body
    facts = read_picture(body)
    if facts is None or not may_be_shown(facts):
        return Picture(name=file.name, source="")
    data = base64.b64encode(body).decode()
    return Picture(name=file.name, source=safe(f"data:{facts.media_type};base64,{data}"))
