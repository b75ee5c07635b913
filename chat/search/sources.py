"""Searchable records: the text of each kind, and where a hit in it leads.

`KINDS` says for each kind which records it has and how one of them becomes an `Entry`. Actions index
a record in the transaction that stores it; `backfill` indexes those that have no row.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any, TypeAlias, cast

import msgspec
from django.db import IntegrityError, connection, transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from chat.core.errors import FilesUnavailable
from chat.core.prepared import fetch
from chat.events import ReasoningItem, Result
from chat.models import (
    ArtifactVersion,
    Attachment,
    Conversation,
    DocumentKind,
    DocumentPage,
    Message,
    MockupVersion,
    Question,
    QuestionKind,
    Role,
    Run,
    SearchKind,
    SearchRow,
    StoredFile,
)
from chat.models.run import LIVE_STATUSES
from chat.result import plain_text
from chat.result.asks import fields_in, in_words, options_in
from chat.runs.outcomes import EndingRows, OutcomeStep
from chat.search.index import Entry, empty, parts_of, put, put_words, vector_of

_decode = msgspec.json.Decoder(Result).decode
# Bytes of a file, or characters of a document, that are searchable, from its beginning.
FILE_BYTES = 1_000_000
Parts: TypeAlias = Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """``records`` are all that can be found; ``text`` is what is searched in one of them; ``place``
    are the columns of its rows."""

    records: Callable[[], QuerySet[Any]]
    text: Callable[[Any], str]
    place: Callable[[Any], dict[str, Any]]
    # The condition for records in these conversations.
    within: Callable[[Sequence[int]], Q] = lambda rooms: Q(conversation__in=rooms)


def entry_of(kind: str, record: Any, parts: Parts | None = None) -> Entry:
    known = KINDS[kind]
    if parts is None:
        parts = parts_of(known.text(record))
    return Entry(kind=kind, source=record.pk, parts=parts, **known.place(record))


def index(kind: str, *records: Any, are_known: bool = False) -> None:
    """Indexes new records. Call it in the transaction that stores them."""
    put((entry_of(kind, record) for record in records), are_known=are_known)


def index_missing(kind: str, records: Sequence[Any]) -> None:
    """Indexes those of the records that have no row yet."""
    if records:
        rows = SearchRow.objects.filter(kind=kind, source__in=[record.pk for record in records])
        known = set(rows.values_list("source", flat=True))
        # In the order of `backfill`, so that the two never wait for each other.
        lacking = sorted(
            (each for each in records if each.pk not in known), key=lambda each: each.pk
        )
        index(kind, *lacking, are_known=True)


def index_again(kind: str, record: Any, parts: Parts | None = None) -> None:
    """Indexes a record whose text has changed, in the transaction of the change. ``parts`` are those of a long text,
    made before (`parts_of`)."""
    SearchRow.objects.filter(kind=kind, source=record.pk).delete()
    put([entry_of(kind, record, parts)], are_known=True)


# --- the text of each kind ----------------------------------------------------------------------


def answer_text(run: Run) -> str:
    return plain_text(_decode(run.result)) if run.result else ""


def reasoning_text(run: Run) -> str:
    return _reasoning_in(_decode(run.result)) if run.result else ""


def _reasoning_in(result: Result) -> str:
    thoughts = (item.content.strip() for item in result.output if isinstance(item, ReasoningItem))
    return "\n\n".join(thought for thought in thoughts if thought)


def artifact_text(version: ArtifactVersion) -> str:
    return "\n".join([version.title or version.identifier, version.content])


def file_text(file: StoredFile) -> str:
    """The file's name, and its content if it is a document that was read, or a text; other bytes are not
    loaded."""
    kind = DocumentKind.of_media_type(file.media_type)
    if kind is not None:
        pages = DocumentPage.objects.filter(document__sha256=file.sha256, document__kind=kind)
        texts = pages.order_by("number").values_list("name", "text")
        if found := document_text(file.name, texts.iterator()):
            return found
    if not file.media_type.startswith("text/"):
        return file.name
    try:
        body = file.body
    except FilesUnavailable:
        # Until the index is rebuilt, the file is found by its name only.
        return file.name
    return f"{file.name}\n{body[:FILE_BYTES].decode(errors='replace')}"


def document_text(name: str, pages: Iterable[tuple[str, str]]) -> str:
    """The texts that are searched in a file with these pages, each with its name; empty for a document without pages."""
    texts: list[str] = []
    length = 0
    for title, text in pages:
        texts += filter(None, (title, text[: FILE_BYTES - length]))
        length += len(text)
        if length >= FILE_BYTES:
            break
    return "\n".join([name, *texts]) if length else ""


def question_text(question: Question) -> str:
    body, answer = question.body, question.answer
    said = in_words(
        body,
        text=str(answer.get("text") or answer.get("reason") or ""),
        selected=answer.get("selected") or (),
        fields=answer.get("fields") or {},
    )
    options = (option.label for option in options_in(body))
    fields = (each.label for each in fields_in(body))
    return "\n".join(filter(None, [str(body.get("question") or ""), *options, *fields, said]))


# --- where a hit leads --------------------------------------------------------------------------


def _place_of_title(conversation: Conversation) -> dict[str, Any]:
    return {
        "conversation": conversation.pk,
        "author": conversation.owner_id,
        "created_at": conversation.created_at,
    }


def _place_of_message(message: Message) -> dict[str, Any]:
    return {
        "conversation": message.conversation_id,
        "message": message.pk,
        "author": message.author_id,
        "created_at": message.created_at,
    }


def _place_of_run(run: Run) -> dict[str, Any]:
    return {
        "conversation": run.conversation_id,
        "message": run.message_id,
        "upstream": run.upstream_id,
        "model": run.model,
        "created_at": run.queued_at,
    }


def _place_in_run(record: ArtifactVersion | Question) -> dict[str, Any]:
    return {**_place_of_run(record.run), "created_at": record.created_at}


def _place_of_file(file: StoredFile) -> dict[str, Any]:
    """The turn that shows it first: the message to which it is attached, or the answer that made it.
    A shared file is found in that turn's conversation only: rows are unique."""
    made = MockupVersion.objects.filter(files__file=file)
    turns = [
        *file.attachments.values_list("message", "message__conversation"),
        *file.answers.values_list("run__message", "run__conversation"),
        *made.values_list("run__message", "run__conversation"),
    ]
    message, room = min(turns, default=(None, None))
    return {
        "conversation": file.conversation_id or room,
        "message": message,
        "author": file.created_by_id,
        "created_at": file.created_at,
    }


# --- the records of each kind -------------------------------------------------------------------


def _ended_runs() -> QuerySet[Run]:
    return Run.objects.exclude(status__in=LIVE_STATUSES)


def _latest_versions() -> QuerySet[ArtifactVersion]:
    newer = ArtifactVersion.objects.filter(
        artifact=OuterRef("artifact"), number__gt=OuterRef("number")
    )
    return ArtifactVersion.objects.filter(~Exists(newer)).select_related("run")


def _files() -> QuerySet[StoredFile]:
    """All files of conversations, and the files of projects that were sent. Those of queued messages
    are not sent yet."""
    sent = Attachment.objects.filter(file=OuterRef("pk"))
    own = Q(conversation__isnull=False, queued__isnull=True)
    return StoredFile.objects.filter(own | Exists(sent))


def _files_within(rooms: Sequence[int]) -> Q:
    sent = Attachment.objects.filter(message__conversation__in=rooms)
    return Q(conversation__in=rooms) | Q(pk__in=sent.values("file"))


KINDS: dict[str, Kind] = {
    SearchKind.TITLE: Kind(
        records=Conversation.objects.all,
        text=lambda room: room.title,
        place=_place_of_title,
        within=lambda rooms: Q(pk__in=rooms),
    ),
    SearchKind.MESSAGE: Kind(
        records=lambda: Message.objects.filter(role=Role.USER),
        text=lambda message: message.text,
        place=_place_of_message,
    ),
    SearchKind.ANSWER: Kind(records=_ended_runs, text=answer_text, place=_place_of_run),
    SearchKind.REASONING: Kind(records=_ended_runs, text=reasoning_text, place=_place_of_run),
    SearchKind.ARTIFACT: Kind(
        records=_latest_versions,
        text=artifact_text,
        place=_place_in_run,
        within=lambda rooms: Q(run__conversation__in=rooms),
    ),
    SearchKind.FILE: Kind(
        records=_files,
        text=file_text,
        place=_place_of_file,
        within=_files_within,
    ),
    # Results of tools are left out: they are for the person who ran the tool.
    SearchKind.QUESTION: Kind(
        records=lambda: Question.objects.exclude(kind=QuestionKind.TOOL).select_related("run"),
        text=question_text,
        place=_place_in_run,
    ),
}


# --- an answer that ends ------------------------------------------------------------------------


_Parts = list[tuple[str, int, Sequence[str]]]


def _prepare(result: Result) -> _Parts:
    texts = {SearchKind.ANSWER: plain_text(result), SearchKind.REASONING: _reasoning_in(result)}
    return [
        (str(kind), number, tokens)
        for kind, text in texts.items()
        for number, tokens in enumerate(parts_of(text))
    ]


_ENDED = "SELECT id, conversation_id, message_id, upstream_id, model, queued_at FROM chat_run WHERE id = %s"
_ROWS_IN_POSTGRES = """
    INSERT INTO chat_searchrow (
        kind, source, part, conversation_id, message_id, upstream_id, model, created_at, vector
    )
    SELECT word.kind, ended.id, word.part, ended.conversation_id, ended.message_id,
        ended.upstream_id, ended.model, ended.queued_at, word.vector::tsvector
    FROM ended, unnest(%s::text[], %s::int[], %s::text[]) AS word (kind, part, vector)
"""
_STORE_IN_POSTGRES = f"WITH ended AS ({_ENDED}) {_ROWS_IN_POSTGRES}"
_STORE_IN_SQLITE = f"""
    INSERT INTO chat_searchrow (
        kind, source, part, conversation_id, message_id, upstream_id, model, created_at
    )
    SELECT json_extract(word.value, '$[0]'), ended.id, json_extract(word.value, '$[1]'),
        ended.conversation_id, ended.message_id, ended.upstream_id, ended.model, ended.queued_at
    FROM ({_ENDED}) AS ended, json_each(%s) AS word
    RETURNING id, kind, part
"""  # noqa: S608


def _columns(prepared: object) -> list[object]:
    parts = cast(_Parts, prepared)
    return [
        [kind for kind, _, _ in parts],
        [part for _, part, _ in parts],
        [vector_of(tokens) for *_, tokens in parts],
    ]


def _store(run_pk: int, prepared: object) -> None:
    if connection.vendor == "postgresql":
        fetch(_STORE_IN_POSTGRES, [run_pk, *_columns(prepared)])
        return
    parts = {(kind, part): tokens for kind, part, tokens in cast(_Parts, prepared)}
    rows = fetch(_STORE_IN_SQLITE, [run_pk, json.dumps(list(parts))])
    put_words((key, parts[kind, part]) for key, kind, part in rows)


INDEX_ANSWER = EndingRows(
    name="indexed",
    prepare=_prepare,
    clause=_ROWS_IN_POSTGRES,
    values=_columns,
    store=_store,
)


def _index_more(run: Run, result: Result, prepared: object = None) -> None:
    if result.ext.artifacts:
        _index_artifacts(run)
    index(
        SearchKind.QUESTION,
        *run.questions.exclude(kind=QuestionKind.TOOL).select_related("run"),
    )


def _index_artifacts(run: Run) -> None:
    """Indexes the latest version of each artifact, whichever answer made it."""
    latest = _latest_versions().filter(run=run)
    of_same = ArtifactVersion.objects.filter(artifact__in=latest.values("artifact"))
    SearchRow.objects.filter(kind=SearchKind.ARTIFACT, source__in=of_same.values("pk")).delete()
    index(SearchKind.ARTIFACT, *latest)


def _has_more(result: Result, prepared: object = None) -> bool:
    return bool(result.ext.artifacts or result.ext.asks)


# Runs after the steps that store artifacts and questions.
INDEX_MORE = OutcomeStep(name="index", applies=_has_more, store=_index_more)


# --- installations that had no index, and checks ------------------------------------------------

ROOMS_AT_ONCE = 50
RECORDS_AT_ONCE = 200


def missing(kind: str) -> QuerySet[Any]:
    """Records of a kind that have no row, oldest first. A run without reasoning and the like has a row
    without words."""
    rows = SearchRow.objects.filter(kind=kind, source=OuterRef("pk"))
    return KINDS[kind].records().filter(~Exists(rows)).order_by("pk")


def backfill() -> Iterator[tuple[int, Counter[str]]]:
    """Indexes the records that have no row, in transactions of a few hundred, the conversations that
    changed last at the end: searches for frequent words find the newest rows first. Yields how many
    conversations are done, and what they lacked. May be interrupted, run again, and run beside a
    server."""
    rooms = list(Conversation.objects.order_by("updated_at", "pk").values_list("pk", flat=True))
    for start in range(0, len(rooms), ROOMS_AT_ONCE):
        some = rooms[start : start + ROOMS_AT_ONCE]
        yield start + len(some), Counter({str(kind): _backfill(kind, some) for kind in KINDS})


def _backfill(kind: str, rooms: Sequence[int]) -> int:
    lacking = missing(kind).filter(KINDS[kind].within(rooms))
    count = after = 0
    while records := list(lacking.filter(pk__gt=after)[:RECORDS_AT_ONCE]):
        try:
            with transaction.atomic():
                index(kind, *records)
        except IntegrityError:
            # A server has indexed one of them meanwhile.
            continue
        after = records[-1].pk
        count += len(records)
    return count


def outdated() -> QuerySet[SearchRow]:
    """Rows whose record is gone, or is found elsewhere: of an artifact that has a newer version."""
    orphans = [
        Q(kind=kind) & ~Exists(known.records().filter(pk=OuterRef("source")))
        for kind, known in KINDS.items()
    ]
    return SearchRow.objects.filter(reduce(or_, orphans))


def wait_for_writers() -> None:
    """Waits for the transactions that have written to the index while it was filled: one of them may have
    made an entry outdated. SQLite has none."""
    if connection.vendor == "postgresql":
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("LOCK TABLE chat_searchrow IN SHARE MODE")


def clear() -> None:
    """Removes the whole index, to build it anew."""
    with transaction.atomic():
        SearchRow.objects.all().delete()
        empty()
