"""Restores a conversation of our own export: every record that it has, under new ids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from django.db.models import Model
from django.utils import timezone

from chat import access, events
from chat.core.text import one_line, without_hidden
from chat.exports import format as form
from chat.imports.budget import Budget
from chat.imports.formats.tributary import Exported, Log
from chat.imports.reading import EARLIEST
from chat.imports.reply_notes import mark_names
from chat.imports.writing import BATCH, Names, Written
from chat.models import (
    AnswerFile,
    Artifact,
    ArtifactVersion,
    Attachment,
    Attempt,
    Conversation,
    Import,
    Message,
    Mockup,
    MockupFile,
    MockupVersion,
    Project,
    Question,
    QuestionKind,
    Run,
    RunSegment,
    SearchKind,
    StoredFile,
    Team,
    Tool,
    User,
)
from chat.runs.outcomes import columns_of
from chat.runs.public_events import response_id_of
from chat.search.sources import index

NAME_LENGTH = 200


def restore(batch: Import, exported: Exported, budget: Budget) -> Written:
    """Stores a private conversation of the importing user. Call this inside a transaction. Raises
    ``ActionRefused`` if there is no room for it."""
    work = _Restoring(batch=batch, exported=exported, budget=budget)
    work.restore()
    shown = exported.document.conversation.visible_turn
    return Written(
        room=work.room,
        leaf=work.messages[shown] if shown else None,
        last_message=max(message.pk for message in work.messages.values()),
        names=work.names,
    )


def project_for(user: User, team: Team, name: str | None) -> Project | None:
    """The project of this team with the name that an export has, if the user may write in it."""
    if not name:
        return None
    projects = access.writable_projects(user).filter(team=team, name=name)
    return projects.order_by("pk").first()


@dataclass(kw_only=True)
class _Restoring:
    """A conversation while its rows are written. The maps lead from ids of the file to what was
    created for them; nothing else is ever referred to."""

    batch: Import
    exported: Exported
    budget: Budget
    now: datetime = field(default_factory=timezone.now)
    messages: dict[UUID, Message] = field(default_factory=dict)
    runs: dict[UUID, Run] = field(default_factory=dict)
    files: dict[UUID, StoredFile] = field(default_factory=dict)
    names: Names = field(default_factory=dict)

    def restore(self) -> None:
        document = self.exported.document
        self.room = self._create_room(document.conversation)
        index(SearchKind.TITLE, self.room)
        self.budget.keep_files(self.exported.contents)
        self.budget.spend(sum(len(turn.text) for turn in document.turns))
        for file in document.files:
            self.files[file.id] = self._create_file(file)
        self._create_messages(document.turns)
        for start in range(0, len(document.turns), BATCH):
            self._create_answers(document.turns[start : start + BATCH])
        for artifact in document.artifacts:
            self._create_artifact(artifact)
        for mockup in document.mockups:
            self._create_mockup(mockup)
        # What a file belongs to decides where a hit in it leads.
        index(SearchKind.FILE, *self.files.values())

    # --- values -------------------------------------------------------------------------------

    def _person(self, person: form.Person | None) -> User | None:
        """The importing user, if they are meant. Nobody else can have something put in their mouth."""
        user = self.batch.user
        is_user = person and person.email and person.email.casefold() == user.email.casefold()
        return user if is_user else None

    def _keep_name(self, kind: str, record: Model, name: str | None) -> None:
        name = one_line(without_hidden(name or ""))[:NAME_LENGTH]
        if name:
            self.names.setdefault(kind, {}).setdefault(name, []).append(record.pk)

    def _keep_person(self, kind: str, record: Model, person: form.Person | None) -> None:
        if person is not None and self._person(person) is None:
            self._keep_name(kind, record, person.name)

    def _at(self, moment: datetime) -> datetime:
        """What is to come has not happened."""
        return max(EARLIEST, min(moment, self.now))

    def _maybe_at(self, moment: datetime | None) -> datetime | None:
        return None if moment is None else self._at(moment)

    # --- the room -----------------------------------------------------------------------------

    def _create_room(self, said: form.Conversation) -> Conversation:
        user, team = self.batch.user, self.batch.team
        servers = access.usable_upstreams(user, without_models=True)
        server = servers.filter(name=said.server).first() if said.server else None
        room = Conversation.objects.create(
            team=team,
            owner=user,
            title=without_hidden(said.title).strip(),
            system_prompt=said.system_prompt,
            upstream=server,
            model=said.model,
            parameters=said.parameters,
            created_at=self._at(said.created_at),
            updated_at=self._at(max(said.created_at, said.updated_at)),
            archived_at=self._maybe_at(said.archived_at),
            # Private also there: nobody gets access by an import.
            project=project_for(user, team, said.project),
        )
        if server is None:
            self._keep_name("room_server", room, said.server)
        wanted = {tool.name: (tool.description, tool.schema) for tool in said.tools}
        tools = Tool.objects.filter(team=team, name__in=list(wanted))
        # Another tool that happens to have the same name is not switched on.
        room.tools.set(t for t in tools if wanted[t.name] == (t.description, t.schema))
        return room

    def _create_file(self, said: form.File) -> StoredFile:
        body = self.exported.contents[said.sha256]
        return StoredFile.objects.store(
            self.room.pk,
            name=said.name,
            media_type=said.media_type,
            body=body,
            sha256=said.sha256,
            by=self._person(said.created_by),
            created_at=self._at(said.created_at),
        )

    # --- turns --------------------------------------------------------------------------------

    def _create_messages(self, turns: Sequence[form.Turn]) -> None:
        """In the order of the file: siblings are shown in the order of their keys."""
        for turn in turns:
            is_person = turn.role == "user"
            self.messages[turn.id] = Message(
                conversation=self.room,
                role=turn.role,
                author=self._person(turn.author) if is_person else None,
                text=turn.text if is_person else "",
                created_at=self._at(turn.created_at),
            )
        Message.objects.bulk_create(self.messages.values())
        for turn in turns:
            message = self.messages[turn.id]
            message.parent = self.messages[turn.parent] if turn.parent else None
            if turn.role == "user":
                self._keep_person("author", message, turn.author)
        Message.objects.bulk_update(self.messages.values(), ["parent"], batch_size=BATCH)
        Attachment.objects.bulk_create(
            Attachment(message=self.messages[turn.id], file=self.files[each], position=position)
            for turn in turns
            for position, each in enumerate(turn.attachments)
        )
        index(SearchKind.MESSAGE, *(self.messages[t.id] for t in turns if t.role == "user"))

    def _create_answers(self, turns: Sequence[form.Turn]) -> None:
        said = [
            (run, self._run(turn, position, run))
            for turn in turns
            for position, run in enumerate(turn.runs)
        ]
        runs = [run for _, run in said]
        Run.objects.bulk_create(runs)
        RunSegment.objects.bulk_create(
            RunSegment(run=run, first_seq=1, last_seq=run.last_seq, body=self._body(run, each.id))
            for each, run in said
            if run.last_seq
        )
        for each, run in said:
            self.runs[each.id] = run
            self._keep_name("server", run, each.server)
            if each.model_label != run.model:
                self._keep_name("model", run, each.model_label)
        index(SearchKind.ANSWER, *runs)
        index(SearchKind.REASONING, *runs)
        self._create_parts(said)

    def _run(self, turn: form.Turn, position: int, said: form.Run) -> Run:
        log = self.exported.logs[said.id]
        run_id = uuid4()
        _rename(log, run_id)
        if position:
            before = turn.runs[position - 1]
            mark_names(
                log,
                said,
                before=before,
                asked=self.exported.logs[before.id],
                is_own=lambda person: self._person(person) is not None,
            )
        end = log.entries[-1] if log.entries else events.ChatEnd(result=log.result)
        kept = {} if log.is_ended_here else self._ending(said)
        return Run(
            public_id=run_id,
            conversation=self.room,
            message=self.messages[turn.id],
            position=position,
            dialect=said.dialect,
            model=said.model,
            system_prompt=said.system_prompt,
            parameters=said.parameters,
            tools=said.tools,
            inputs=said.inputs,
            requested_by=self._person(said.requested_by),
            idempotency_key=uuid4(),
            stop_requested_by=self._person(said.stop_requested_by),
            stop_requested_at=self._maybe_at(said.stop_requested_at),
            queued_at=self._at(said.queued_at),
            claimed_at=self._maybe_at(said.claimed_at),
            request_sent_at=self._maybe_at(said.request_sent_at),
            first_event_at=self._maybe_at(said.first_event_at),
            first_token_at=self._maybe_at(said.first_token_at),
            notes=said.notes,
            # A response id of another server means nothing to any server here.
            **{**columns_of(end), **kept, "response_id": ""},
        )

    def _ending(self, said: form.Run) -> dict[str, Any]:
        return {
            "status": said.status,
            "finished_at": self._maybe_at(said.finished_at),
            "input_tokens": said.input_tokens,
            "output_tokens": said.output_tokens,
            "reasoning_tokens": said.reasoning_tokens,
            "error_kind": said.error_kind,
            "error_message": said.error_message,
        }

    def _body(self, run: Run, source_id: UUID) -> bytes:
        log = self.exported.logs[source_id]
        body = events.join_bodies(events.encode(event) for event in log.entries)
        self.budget.spend(len(body) + len(run.result or ""))
        return body

    def _create_parts(self, said: Sequence[tuple[form.Run, Run]]) -> None:
        Attempt.objects.bulk_create(
            Attempt(
                run=run,
                number=each.number,
                started_at=self._at(each.started_at),
                outcome=each.outcome,
                error_kind=each.error_kind,
                error_message=each.error_message,
                retry_after_seconds=each.retry_after_seconds,
            )
            for source, run in said
            for each in source.attempts
        )
        AnswerFile.objects.bulk_create(
            AnswerFile(
                run=run,
                file=self.files[each.file],
                choice=each.choice,
                item=each.item,
                position=each.position,
                transcript=each.transcript,
            )
            for source, run in said
            for each in source.files
        )
        asked = [
            (each, self._question(run, each)) for source, run in said for each in source.questions
        ]
        Question.objects.bulk_create(question for _, question in asked)
        for each, question in asked:
            self._keep_person("answered_by", question, each.answered_by)
        index(SearchKind.QUESTION, *(q for _, q in asked if q.kind != QuestionKind.TOOL))

    def _question(self, run: Run, said: form.Question) -> Question:
        return Question(
            conversation=self.room,
            run=run,
            position=said.position,
            kind=said.kind,
            ask_id=said.ask_id,
            body=said.body,
            status=said.status,
            claimed_by=self._person(said.claimed_by),
            claimed_at=self._maybe_at(said.claimed_at),
            answered_by=self._person(said.answered_by),
            answered_at=self._maybe_at(said.answered_at),
            answer=said.answer,
            created_at=self._at(said.created_at),
        )

    # --- what answers made --------------------------------------------------------------------

    def _create_artifact(self, said: form.Artifact) -> None:
        artifact = Artifact.objects.create(
            conversation=self.room,
            artifact_id=said.artifact_id,
            created_at=self._at(said.created_at),
        )
        versions = [
            ArtifactVersion(
                artifact=artifact,
                number=each.number,
                run=self.runs[each.run],
                seq=each.seq,
                identifier=each.identifier,
                title=each.title,
                language=each.language,
                content_type=each.content_type,
                content=each.content,
                created_at=self._at(each.created_at),
            )
            for each in said.versions
        ]
        ArtifactVersion.objects.bulk_create(versions)
        index(SearchKind.ARTIFACT, *_latest(versions))

    def _create_mockup(self, said: form.Mockup) -> None:
        mockup = Mockup.objects.create(
            conversation=self.room, bundle_id=said.bundle_id, created_at=self._at(said.created_at)
        )
        self._keep_name("mockup_server", mockup, said.server)
        versions = [
            MockupVersion(
                mockup=mockup,
                number=each.number,
                run=self.runs[each.run],
                seq=each.seq,
                identifier=each.identifier,
                title=each.title,
                entry=each.entry,
                changed=each.changed,
                deleted=each.deleted,
                created_at=self._at(each.created_at),
            )
            for each in said.versions
        ]
        MockupVersion.objects.bulk_create(versions)
        MockupFile.objects.bulk_create(
            MockupFile(
                version=version,
                path=each.path,
                content_type=each.content_type,
                announced_bytes=each.announced_bytes,
                status=each.status,
                file=self.files[each.file] if each.file else None,
                reason=each.reason,
            )
            for source, version in zip(said.versions, versions, strict=True)
            for each in source.files
        )


def _latest(versions: Iterable[ArtifactVersion]) -> list[ArtifactVersion]:
    return sorted(versions, key=lambda version: version.number)[-1:]


def _rename(log: Log, run_id: UUID) -> None:
    """Response ids are ours, and name the run."""
    log.result.response_id = response_id_of(run_id)
    for event in log.entries:
        if isinstance(event, events.MetaUpdate) and "response_id" in event.values:
            event.values["response_id"] = response_id_of(run_id)
