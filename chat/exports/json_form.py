"""A conversation as JSON: all branches with everything that is stored of them, as `chat.exports.format`
describes it."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, cast

import msgspec
from django.db.models import F, Q, QuerySet

from chat import events as canonical
from chat.exports import format as form
from chat.exports.reading import Source, read_turns
from chat.models import (
    Artifact,
    Attachment,
    Conversation,
    ImportedNames,
    Message,
    Mockup,
    Question,
    QuestionKind,
    Run,
    RunInstructions,
    StoredFile,
    Upstream,
    User,
)
from chat.models.run import model_label
from chat.run_details.log_pages import entries_behind
from chat.runs.public_events import public_body, public_result

_encode = msgspec.json.Encoder(order="deterministic").encode


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
    yield from _array(b"files", map(_file, files))
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
    """Its own, and those of projects that were sent in it."""
    sent = Attachment.objects.filter(message__conversation=room)
    files = StoredFile.objects.filter(Q(conversation=room) | Q(pk__in=sent.values("file")))
    return files.select_related("created_by").order_by("pk")


def _contents(files: Iterable[StoredFile]) -> Iterator[bytes]:
    """The bytes of the files, each once; one file in memory at a time."""
    yield b"{"
    written: set[str] = set()
    for file in files:
        digest = file.sha256
        if digest in written:
            continue
        yield b'%s\n"%s":"%s"' % (
            b"," if written else b"",
            digest.encode(),
            base64.b64encode(file.body),
        )
        written.add(digest)
    yield b"}"


# --- the room -----------------------------------------------------------------------------------


def _person(user: User | None, imported_name: str = "") -> form.Person | None:
    if user is None:
        return form.Person(name=imported_name, email=None) if imported_name else None
    return form.Person(name=user.name, email=user.email)


def _server(upstream: Upstream | None, imported_name: str | None) -> str | None:
    return upstream.name if upstream else imported_name or None


def _conversation(source: Source) -> form.Conversation:
    room: Conversation = source.conversation
    tail = source.visible[-1].pk if source.visible else None
    tools = room.tools.order_by("name", "pk")
    return form.Conversation(
        id=room.public_id,
        title=room.title,
        team=room.team.name,
        owner=form.Person(name=room.owner.name, email=room.owner.email),
        visibility=cast(Any, room.visibility),
        project=room.project.name if room.project and source.reads(room.project_id) else None,
        system_prompt=room.system_prompt,
        server=_server(room.upstream, source.names.get(("room_server", room.pk))),
        model=room.model,
        parameters=room.parameters,
        tools=[
            form.Tool(name=tool.name, description=tool.description, schema=tool.schema)
            for tool in tools
        ],
        created_at=room.created_at,
        updated_at=room.updated_at,
        archived_at=room.archived_at,
        visible_turn=Message.objects.get(pk=tail).public_id if tail else None,
    )


# --- turns --------------------------------------------------------------------------------------


def _turn(source: Source, message: Any) -> form.Turn:
    return form.Turn(
        id=message.public_id,
        parent=message.of_parent,
        role=cast(Any, message.role),
        author=_person(message.author, message.imported_author),
        text=message.text,
        created_at=message.created_at,
        attachments=[each.file.public_id for each in message.attachments.all()],
        runs=[_run(source, run) for run in message.runs.all()],
    )


def _run(source: Source, run: Run) -> form.Run:
    return form.Run(
        id=run.public_id,
        status=cast(Any, run.status),
        server=_server(run.upstream, run.imported_server),
        dialect=run.dialect,
        model=run.model,
        model_label=model_label(run),
        instructions=_instructions(source, run),
        system_prompt=run.system_prompt,
        parameters=run.parameters,
        tools=run.tools,
        inputs=run.inputs,
        requested_by=_person(run.requested_by),
        stop_requested_by=_person(run.stop_requested_by),
        stop_requested_at=run.stop_requested_at,
        queued_at=run.queued_at,
        claimed_at=run.claimed_at,
        request_sent_at=run.request_sent_at,
        first_event_at=run.first_event_at,
        first_token_at=run.first_token_at,
        finished_at=run.finished_at,
        input_tokens=run.input_tokens,
        output_tokens=run.output_tokens,
        reasoning_tokens=run.reasoning_tokens,
        error_kind=run.error_kind,
        error_message=run.error_message,
        notes=run.notes,
        attempts=[
            form.Attempt(
                number=attempt.number,
                started_at=attempt.started_at,
                outcome=attempt.outcome,
                error_kind=attempt.error_kind,
                error_message=attempt.error_message,
                retry_after_seconds=attempt.retry_after_seconds,
            )
            for attempt in sorted(run.attempts.all(), key=lambda attempt: attempt.number)
        ],
        questions=[_question(question) for question in run.questions.all()],
        files=[
            form.AnswerFile(
                choice=made.choice,
                item=made.item,
                position=made.position,
                file=made.file.public_id,
                transcript=made.transcript,
            )
            for made in run.files.all()
        ],
        result=_result(run),
        # Encoded as they are stored: decoding a long log only to encode it again takes seconds.
        events=cast(
            Any,
            [msgspec.Raw(public_body(entry, run.public_id)) for entry in entries_behind(run.pk)],
        ),
    )


def _instructions(source: Source, run: Run) -> str:
    sent: RunInstructions | None = getattr(run, "project_instructions", None)
    return sent.text if sent is not None and source.reads(sent.project_id) else ""


def _result(run: Run) -> Any:
    if not run.result:
        return None
    result = public_result(canonical.decode_result(run.result), run.public_id)
    return msgspec.Raw(canonical.encode(result))


def _question(question: Question) -> form.Question:
    answer = question.answer
    if question.kind == QuestionKind.TOOL:
        # A result is whose who ran the tool, until it is given to the model: then it is an input.
        answer = {name: value for name, value in answer.items() if name != "output"}
    return form.Question(
        id=question.public_id,
        kind=cast(Any, question.kind),
        position=question.position,
        ask_id=question.ask_id,
        body=question.body,
        status=cast(Any, question.status),
        claimed_by=_person(question.claimed_by),
        claimed_at=question.claimed_at,
        answered_by=_person(question.answered_by, question.imported_answerer),
        answered_at=question.answered_at,
        answer=answer,
        created_at=question.created_at,
    )


# --- what answers made --------------------------------------------------------------------------


def _artifact(artifact: Artifact) -> form.Artifact:
    versions = artifact.versions.annotate(of_run=F("run__public_id")).order_by("number")
    return form.Artifact(
        id=artifact.public_id,
        artifact_id=artifact.artifact_id,
        created_at=artifact.created_at,
        versions=[_artifact_version(version) for version in versions],
    )


def _artifact_version(version: Any) -> form.ArtifactVersion:
    return form.ArtifactVersion(
        number=version.number,
        run=version.of_run,
        seq=version.seq,
        identifier=version.identifier,
        title=version.title,
        language=version.language,
        content_type=version.content_type,
        content=version.content,
        created_at=version.created_at,
    )


def _mockup(mockup: Mockup, names: ImportedNames) -> form.Mockup:
    versions = mockup.versions.annotate(of_run=F("run__public_id")).order_by("number")
    return form.Mockup(
        id=mockup.public_id,
        bundle_id=mockup.bundle_id,
        server=_server(mockup.upstream, names.get(("mockup_server", mockup.pk))),
        created_at=mockup.created_at,
        versions=[_mockup_version(version) for version in versions],
    )


def _mockup_version(version: Any) -> form.MockupVersion:
    return form.MockupVersion(
        number=version.number,
        run=version.of_run,
        seq=version.seq,
        identifier=version.identifier,
        title=version.title,
        entry=version.entry,
        changed=version.changed,
        deleted=version.deleted,
        created_at=version.created_at,
        files=[
            form.MockupFile(
                path=each.path,
                content_type=each.content_type,
                announced_bytes=each.announced_bytes,
                status=each.status,
                file=each.of_file,
                reason=each.reason,
            )
            for each in version.files.annotate(of_file=F("file__public_id")).order_by("path")
        ],
    )


def _file(file: StoredFile) -> form.File:
    return form.File(
        id=file.public_id,
        name=file.name,
        media_type=file.media_type,
        size_bytes=file.size_bytes,
        sha256=file.sha256,
        created_by=_person(file.created_by),
        created_at=file.created_at,
    )
