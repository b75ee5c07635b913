"""A conversation as HTML that looks like its page: the file that is exported, the page that is printed,
and the turns that administrators read."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from uuid import uuid4

from django.template.loader import render_to_string
from django.utils.html import format_html
from django.utils.safestring import SafeString

from chat.conversations.tags import words_of
from chat.core.pictures import read_picture
from chat.exports.markdown_form import author_of, moment
from chat.exports.reading import Source, read_turns
from chat.exports.sent_documents import SentDocument, sent_documents
from chat.exports.standalone import Standalone, styles
from chat.live.snapshot import render_unfolded
from chat.models import DocumentKind, Message, Role, Run, StoredFile
from chat.questions.card_reading import card_of
from chat.questions.question_cards import QuestionCard
from chat.rendering.components import safe
from chat.run_details.log_pages import entries_behind
from chat.runs.event_buffer import LogEntry
from chat.web.files import may_be_shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """``source`` is a ``data:`` address; empty if browsers can't show the picture."""

    name: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPart:
    """A run as ``exports/run.html`` shows it. ``html`` is empty without a log."""

    run: Run
    html: SafeString
    questions: Sequence[QuestionCard]


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnPart:
    """A message as ``exports/turn.html`` shows it. ``created`` is its time in words; ``changes`` are the
    sentences about changes below it, each with its time."""

    message: Message
    number: int
    created: SafeString | str
    author: str
    words: SafeString
    pictures: Sequence[Picture]
    runs: Sequence[RunPart]
    changes: Sequence[tuple[str, SafeString | str]] = ()
    documents: Sequence[SentDocument] = ()

    @property
    def is_person(self) -> bool:
        return self.message.role == Role.USER


def write_html(source: Source, *, is_page: bool = False) -> Iterator[bytes]:
    """The document in pieces, one for each turn of the visible branch. With ``is_page`` it is a page of
    this server, which links its styles and opens the browser's print dialog."""
    standalone = Standalone()
    places = [f"[{uuid4()}]" for _ in range(2)]
    context = {
        "conversation": source.conversation,
        "created": moment(source.conversation.created_at),
        "with_settings": source.with_settings,
        "style": "" if is_page else styles(),
        "is_page": is_page,
        "turns_place": places[0],
        "sprite_place": places[1],
    }
    lines = source.lines_below(source.visible)
    begin, _, rest = render_to_string("exports/document.html", context).partition(places[0])
    middle, _, end = rest.partition(places[1])
    yield begin.encode()
    for number, message in enumerate(
        read_turns(source, [position.pk for position in source.visible]), start=1
    ):
        turn = turn_part(
            message,
            number,
            created=_time(message),
            pictures=[
                _picture(each.file)
                for each in message.attachments.all()
                if DocumentKind.of_media_type(each.file.media_type) is None
            ],
            documents=list(sent_documents(message.attachments.all())),
            runs=[run_part(run, entries_behind(run.pk)) for run in message.runs.all()],
            changes=[(line.sentence, moment(line.at)) for line in lines.get(message.pk, ())],
        )
        html = render_to_string("exports/turn.html", {"turn": turn})
        yield standalone.clean(html).encode()
    yield f"{middle}{standalone.sprite()}{end}".encode()


def turn_part(
    message: Message,
    number: int,
    *,
    created: SafeString | str,
    pictures: Sequence[Picture],
    runs: Sequence[RunPart],
    changes: Sequence[tuple[str, SafeString | str]] = (),
    documents: Sequence[SentDocument] = (),
) -> TurnPart:
    """A message that `read_messages` has read. Makes no query, like `run_part`."""
    return TurnPart(
        message=message,
        number=number,
        created=created,
        author=author_of(message),
        words=words_of(message).html if message.role == Role.USER else SafeString(),
        pictures=pictures,
        runs=runs,
        changes=changes,
        documents=documents,
    )


def run_part(run: Run, log: Iterable[LogEntry]) -> RunPart:
    return RunPart(
        run=run,
        html=render_unfolded(run, log),
        questions=[card_of(question) for question in run.questions.all()],
    )


def _time(message: Message) -> SafeString:
    iso = message.created_at.isoformat(timespec="seconds")
    return format_html('<time datetime="{}">{}</time>', iso, moment(message.created_at))


def _picture(file: StoredFile) -> Picture:
    body = file.body
    facts = read_picture(body)
    if facts is None or not may_be_shown(facts):
        return Picture(name=file.name, source="")
    data = base64.b64encode(body).decode()
    return Picture(name=file.name, source=safe(f"data:{facts.media_type};base64,{data}"))
