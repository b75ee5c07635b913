"""A conversation as JSON (`chat.exports.format`): all branches with everything that is stored of
them."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Literal, TypeVar

import msgspec
from django.db.models import F, Model, Q, QuerySet

from chat import access
from chat import events as canonical
from chat.exports import format as form
from chat.exports.reading import Source, read_turns
from chat.exports.sent_documents import sent_documents
from chat.models import (
    Artifact,
    Attachment,
    ChangeKind,
    Comment,
    Conversation,
    Feedback,
    ImportedNames,
    Message,
    Mockup,
    Question,
    QuestionKind,
    QuestionStatus,
    Run,
    RunInstructions,
    StoredFile,
    ToolCall,
    Upstream,
    User,
)
from chat.models.run import model_label
from chat.questions.card_reading import card_of
from chat.run_details.log_pages import entries_behind
from chat.runs.public_events import public_body, public_result, result_without_settings

R = TypeVar("R", bound=msgspec.Struct)
_encode = msgspec.json.Encoder().encode


def write_json(source: Source, *, with_contents: bool = True) -> Iterator[bytes]:
    """The file in pieces: one for each turn, artifact and file."""
    room = source.conversation
    yield b'{"format":%s,"version":%d,' % (_encode(form.NAME), form.VERSION)
    yield b'"conversation":%s,' % _encode(_conversation(source))
    keys = sorted(position.pk for position in source.order)
    yield from _array(b"turns", map(partial(_turn, source), read_turns(source, keys)))
    yield b","
    yield from _array(b"artifacts", map(_artifact, room.artifacts.order_by("pk")))
    yield b","
    mockups = room.mockups.select_related("upstream").order_by("pk")
    yield from _array(b"mockups", (_mockup(mockup, source.names) for mockup in mockups))
    yield b","
    files = list(_files_of(room))
    yield from _array(b"files", (_record(form.File, file) for file in files))
    yield b","
    yield from _array(b"comments", map(_comment, _comments_of(room)))
    yield b","
    yield from _array(b"feedback", map(_feedback, _feedback_in(room)))
    yield b',"contents":'
    yield from _contents(files) if with_contents else [b"null"]
    yield b"}\n"


def _array(name: bytes, values: Iterable[object]) -> Iterator[bytes]:
    """One value on each line."""
    yield b'"%s":[' % name
    for number, value in enumerate(values):
        yield (b",\n" if number else b"\n") + _encode(value)
    yield b"]"


def _files_of(room: Conversation) -> QuerySet[StoredFile]:
    """The conversation's files, and those of projects that were sent in it. A queued message is no
    turn yet, so its files are left out."""
    sent = Attachment.objects.filter(message__conversation=room)
    own = Q(conversation=room, queued__isnull=True)
    files = StoredFile.objects.filter(own | Q(pk__in=sent.values("file")))
    return files.select_related("created_by").order_by("pk")


def _comments_of(room: Conversation) -> QuerySet[Comment]:
    rows = room.comments.select_related("author", "resolved_by", "message", "thread")
    return rows.order_by("pk")


def _comment(comment: Comment) -> form.Comment:
    return _record(
        form.Comment,
        comment,
        turn=comment.message.public_id,
        thread=comment.thread.public_id if comment.thread else None,
    )


def _feedback_in(room: Conversation) -> QuerySet[Feedback]:
    rows = Feedback.objects.filter(answer__conversation=room)
    return rows.select_related("answer", "person").order_by("pk")


def _feedback(row: Feedback) -> form.Feedback:
    return _record(form.Feedback, row, turn=row.answer.public_id)


def _contents(files: Iterable[StoredFile]) -> Iterator[bytes]:
    """The bytes of the files, each once; one file in memory at a time."""
    yield b"{"
    written: set[str] = set()
    for file in files:
        digest = file.sha256
        if digest in written or file.is_deleted:
            continue
        yield b'%s\n"%s":"%s"' % (
            b"," if written else b"",
            digest.encode(),
            base64.b64encode(file.body),
        )
        written.add(digest)
    yield b"}"


# --- records --------------------------------------------------------------------------------------


def _record(kind: type[R], row: Model, **differing: Any) -> R:
    """A record with the columns that have its members' names. ``differing`` are the members without
    such a column, or with another value. Nothing is validated: an export never fails on stored
    data."""
    same = [name for name in kind.__struct_fields__ if name not in differing]
    return kind(**{name: _member(row, name) for name in same}, **differing)


def _member(row: Model, name: str) -> object:
    value = getattr(row, "public_id" if name == "id" else name)
    return _person(value) if isinstance(value, User) else value


# --- the conversation ---------------------------------------------------------------------------


def _person(user: User | None, imported_name: str = "") -> form.Person | None:
    if user is None:
        return form.Person(name=imported_name, email=None) if imported_name else None
    return form.Person(name=user.name, email=user.email)


def _server(upstream: Upstream | None, imported_name: str | None) -> str | None:
    return upstream.name if upstream else imported_name or None


def _conversation(source: Source) -> form.Conversation:
    room: Conversation = source.conversation
    tail = source.visible[-1].pk if source.visible else None
    return _record(
        form.Conversation,
        room,
        team=room.team.name,
        project=room.project.name if room.project and source.reads(room.project_id) else None,
        server=_server(room.upstream, source.names.get(("room_server", room.pk))),
        participants=_participants(source),
        tools=_tools(source),
        preset=_preset(source),
        skills=_skills(source),
        **_hidden_settings(source),
        visible_turn=Message.objects.get(pk=tail).public_id if tail else None,
        changes=_changes(source),
    )


def _tools(source: Source) -> list[form.Tool]:
    rows = source.conversation.tools.order_by("name", "pk") if source.with_settings else ()
    return [_record(form.Tool, tool) for tool in rows]


def _skills(source: Source) -> list[str]:
    if not source.with_settings:
        return []
    skills = access.visible_skills(source.reader).filter(conversations=source.conversation)
    return list(skills.order_by("name", "pk").values_list("name", flat=True))


def _preset(source: Source) -> str | None:
    version = (
        access.version_in(source.reader, source.conversation) if source.with_settings else None
    )
    return version.preset.name if version else None


def _hidden_settings(source: Source) -> dict[str, object]:
    """Empty members for somebody who may not see the settings of a conversation or a run."""
    return {} if source.with_settings else {"system_prompt": "", "parameters": {}}


def _changes(source: Source) -> list[form.Change]:
    """A guest doesn't learn the names of groups."""
    context = source.conversation.context
    hides_groups = context is not None and context.is_guest
    rows = source.conversation.changes.annotate(of_turn=F("after__public_id"))
    return [
        _record(
            form.Change,
            row,
            turn=row.of_turn,
            name="" if hides_groups and row.kind != ChangeKind.RENAMED else row.name,
        )
        for row in rows.select_related("actor", "person").order_by("pk")
    ]


def _participants(source: Source) -> list[form.Participant]:
    """For managers, who see them all in the Share dialog."""
    room = source.conversation
    if not access.managed_conversations(source.reader).filter(pk=room.pk).exists():
        return []
    rows = room.participants.select_related("person", "group").order_by("pk")
    return [
        _record(form.Participant, row, group=row.group.name if row.group else None) for row in rows
    ]


# --- turns --------------------------------------------------------------------------------------


def _turn(source: Source, message: Any) -> form.Turn:
    return _record(
        form.Turn,
        message,
        parent=message.of_parent,
        author=_person(message.author, message.imported_author),
        attachments=[each.file.public_id for each in message.attachments.all()],
        documents=[
            _record(form.Document, sent.attachment, file=sent.file.public_id, text=sent.text)
            for sent in sent_documents(message.attachments.all())
        ],
        context_start=_context_start(source, message),
        compared=_compared(message),
        runs=[_run(source, run) for run in message.runs.all()],
    )


def _context_start(source: Source, message: Message) -> form.ContextStart | None:
    number = source.starts.get(message.pk)
    if number is None:
        return None
    return _record(form.ContextStart, message.context_start, number=number)


def _compared(message: Message) -> Literal["open", "chosen", "other"] | None:
    if not hasattr(message, "compared"):
        return None
    chosen = message.compared.comparison.chosen_id
    if chosen is None:
        return "open"
    return "chosen" if chosen == message.pk else "other"


def _run(source: Source, run: Run) -> form.Run:
    attempts = sorted(run.attempts.all(), key=lambda attempt: attempt.number)
    # Notes name parameters that were changed or left out.
    hidden: dict[str, object] = {} if source.with_settings else {"tools": [], "notes": []}
    log = entries_behind(run.pk)
    return _record(
        form.Run,
        run,
        server=_server(run.upstream, run.imported_server),
        model_label=model_label(run),
        instructions=_instructions(source, run),
        attempts=[_record(form.Attempt, attempt) for attempt in attempts],
        questions=[_question(source, question) for question in run.questions.all()],
        files=[
            _record(form.AnswerFile, made, file=made.file.public_id) for made in run.files.all()
        ],
        result=_result(run, with_settings=source.with_settings),
        # Events stay encoded: decoding a long log only to encode it again takes seconds.
        events=[
            msgspec.Raw(public_body(entry, run.public_id, with_settings=source.with_settings))
            for entry in log
        ],
        **_hidden_settings(source),
        **hidden,
    )


def _instructions(source: Source, run: Run) -> str:
    sent: RunInstructions | None = getattr(run, "project_instructions", None)
    return sent.text if sent is not None and source.reads(sent.project_id) else ""


def _result(run: Run, *, with_settings: bool) -> Any:
    if not run.result:
        return None
    result = public_result(canonical.decode_result(run.result), run.public_id)
    if not with_settings:
        result = result_without_settings(result)
    return msgspec.Raw(canonical.encode(result))


def _question(source: Source, question: Question) -> form.Question:
    answer = question.answer
    is_running = question.status == QuestionStatus.RUNNING
    if question.kind == QuestionKind.TOOL:
        # A result belongs to the person who ran the tool until it is given to the model as an
        # input.
        answer = {
            name: value
            for name, value in answer.items()
            if name not in ("output", "structured", "sources")
        }
    return _record(
        form.Question,
        question,
        answered_by=_person(question.answered_by, question.imported_answerer),
        answer=answer,
        # A call that runs is no part of the copy, where people are asked about it.
        status=QuestionStatus.OPEN if is_running else question.status,
        tool_call=_tool_call(source, card_of(question).tool_call),
    )


def _tool_call(source: Source, call: ToolCall | None) -> form.ToolCall | None:
    if call is None:
        return None
    hidden: dict[str, str] = {}
    if not source.with_settings:
        hidden = {"server_name": "", "rule": "", "definition_digest": ""}
    return _record(form.ToolCall, call, **hidden)


# --- artifacts and mockups ----------------------------------------------------------------------


def _artifact(artifact: Artifact) -> form.Artifact:
    versions = artifact.versions.annotate(of_run=F("run__public_id")).order_by("number")
    return _record(
        form.Artifact,
        artifact,
        versions=[_record(form.ArtifactVersion, each, run=each.of_run) for each in versions],
    )


def _mockup(mockup: Mockup, names: ImportedNames) -> form.Mockup:
    versions = mockup.versions.annotate(of_run=F("run__public_id")).order_by("number")
    return _record(
        form.Mockup,
        mockup,
        server=_server(mockup.upstream, names.get(("mockup_server", mockup.pk))),
        versions=[_mockup_version(version) for version in versions],
    )


def _mockup_version(version: Any) -> form.MockupVersion:
    files = version.files.annotate(of_file=F("file__public_id")).order_by("path")
    return _record(
        form.MockupVersion,
        version,
        run=version.of_run,
        files=[_record(form.MockupFile, each, file=each.of_file) for each in files],
    )
