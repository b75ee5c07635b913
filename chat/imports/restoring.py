"""Restores a conversation of our own export: all its records, under new ids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID, uuid4

from django.db.models import Field, Model
from django.utils import timezone
from django.utils.translation import gettext
from msgspec import Struct

from chat import access, events
from chat.core.text import one_line, without_hidden
from chat.documents.actions import expect
from chat.documents.kinds import HEAD_BYTES, media_type_of
from chat.exports import format as form
from chat.imports.archive import shown
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
    ComparedAnswer,
    Comparison,
    ContextStart,
    Conversation,
    DocumentKind,
    Import,
    Message,
    Mockup,
    MockupFile,
    MockupVersion,
    NewContent,
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
    Visibility,
)
from chat.models.comparison import MOST_COMPARED
from chat.runs.outcomes import columns_of
from chat.runs.public_events import response_id_of
from chat.search.sources import index
from chat.tools.outcome import ask_again

NAME_LENGTH = 200
M = TypeVar("M", bound=Model)


def restore(batch: Import, exported: Exported, budget: Budget) -> Written:
    """Stores a private conversation of the importing user. Call this inside a transaction that has
    kept its files (`Budget.keep_files`)."""
    work = _Restoring(batch=batch, exported=exported, budget=budget)
    work.restore()
    shown = exported.document.conversation.visible_turn
    return Written(
        room=work.room,
        leaf=work.messages[shown] if shown else None,
        last_message=max(message.pk for message in work.messages.values()),
        names=work.names,
    )


def detach_others(exported: Exported) -> list[str]:
    """Removes attachments that are neither pictures nor sounds nor documents, and says which; the others get the media
    type of their bytes."""
    files = {file.id: file for file in exported.document.files}
    left_out = []
    for turn in exported.document.turns:
        for each in list(turn.attachments):
            file = files[each]
            if file.media_type.startswith("image/"):
                # The reader has looked at it.
                continue
            found = media_type_of(file.name, exported.contents[file.sha256][:HEAD_BYTES])
            if found.startswith("audio/") or DocumentKind.of_media_type(found) is not None:
                file.media_type = found
            else:
                turn.attachments.remove(each)
                words = gettext("“%(name)s” isn’t an image, a sound, or a document with text.")
                left_out.append(words % {"name": shown(file.name)})
    return left_out


def project_for(user: User, team: Team, name: str | None) -> Project | None:
    """The project of this team with the name in an export, if the user may write in it."""
    if not name:
        return None
    projects = access.writable_projects(user).filter(team=team, name=name)
    return projects.order_by("pk").first()


@dataclass(kw_only=True)
class _Restoring:
    """A conversation while its rows are written. The maps lead from ids of the file to the records
    created for them; nothing else is ever referred to."""

    batch: Import
    exported: Exported
    budget: Budget
    now: datetime = field(default_factory=timezone.now)
    messages: dict[UUID, Message] = field(default_factory=dict)
    runs: dict[UUID, Run] = field(default_factory=dict)
    files: dict[UUID, StoredFile] = field(default_factory=dict)
    names: Names = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._created: dict[Any, Mapping[UUID, Model]] = {Run: self.runs, StoredFile: self.files}

    def restore(self) -> None:
        document = self.exported.document
        self.room = self._create_room(document.conversation)
        index(SearchKind.TITLE, self.room)
        self.budget.spend_on_texts(turn.text for turn in document.turns)
        for file in document.files:
            self.files[file.id] = self._create_file(file)
        self._create_messages(document.turns)
        attached = {each for turn in document.turns for each in turn.attachments}
        expect(self.files[each] for each in attached)
        for start in range(0, len(document.turns), BATCH):
            self._create_answers(document.turns[start : start + BATCH])
        for artifact in document.artifacts:
            self._create_artifact(artifact)
        for mockup in document.mockups:
            self._create_mockup(mockup)
        # A hit in a file leads to the record that has the file, so files are indexed last.
        index(SearchKind.FILE, *self.files.values())

    # --- values -------------------------------------------------------------------------------

    def _person(self, person: form.Person | None) -> User | None:
        """The importing user, if they are meant. No text is attributed to anybody else."""
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
        """The moment, but none in the future."""
        return max(EARLIEST, min(moment, self.now))

    # --- records ------------------------------------------------------------------------------

    def _row(self, model: type[M], said: Struct, **differing: Any) -> M:
        """A row with the members of a record that have columns, made safe by their types.
        ``differing`` are the columns without such a member, or with another value."""
        titles = form.titles_of(type(said))
        columns = {
            column.name: self._safe(column, getattr(said, column.name), column.name in titles)
            for column in model._meta.concrete_fields
            if column.name in said.__struct_fields__ and column.name not in {"id", *differing}
        }
        return model(**columns, **differing)

    def _safe(self, column: Field[Any, Any], value: object, is_title: bool) -> object:
        match value:
            case datetime():
                return self._at(value)
            case form.Person():
                return self._person(value)
            case UUID():
                # References only lead to records that this import has created.
                return self._created[column.related_model][value]
            case str() if is_title:
                return without_hidden(value).strip()
        return value

    # --- the conversation ---------------------------------------------------------------------

    def _create_room(self, said: form.Conversation) -> Conversation:
        user, team = self.batch.user, self.batch.team
        servers = access.usable_upstreams(user, [team], without_models=True)
        server = servers.filter(name=said.server).first() if said.server else None
        room = self._row(
            Conversation,
            said,
            team=team,
            owner=user,
            upstream=server,
            updated_at=self._at(max(said.created_at, said.updated_at)),
            # Conversations are private also in a project: nobody gets access by an import.
            visibility=Visibility.PRIVATE,
            project=project_for(user, team, said.project),
        )
        room.save(force_insert=True)
        if server is None:
            self._keep_name("room_server", room, said.server)
        wanted = {tool.name: (tool.description, tool.schema) for tool in said.tools}
        tools = Tool.objects.filter(team=team, name__in=list(wanted))
        # Another tool that happens to have the same name is not enabled.
        room.tools.set(t for t in tools if wanted[t.name] == (t.description, t.schema))
        return room

    def _create_file(self, said: form.File) -> StoredFile:
        content = NewContent(body=self.exported.contents[said.sha256], sha256=said.sha256)
        return StoredFile.objects.store(
            self.room.pk,
            name=said.name,
            media_type=said.media_type,
            content=content,
            by=self._person(said.created_by),
            created_at=self._at(said.created_at),
        )

    # --- turns --------------------------------------------------------------------------------

    def _create_messages(self, turns: Sequence[form.Turn]) -> None:
        """Creates the messages in the order of the file: siblings are shown in the order of their
        keys."""
        for turn in turns:
            is_person = turn.role == "user"
            self.messages[turn.id] = self._row(
                Message,
                turn,
                conversation=self.room,
                # Parents are set below, when all messages have keys.
                parent=None,
                author=self._person(turn.author) if is_person else None,
                text=turn.text if is_person else "",
            )
        Message.objects.bulk_create(self.messages.values())
        for turn in turns:
            message = self.messages[turn.id]
            message.parent = self.messages[turn.parent] if turn.parent else None
            if turn.role == "user":
                self._keep_person("author", message, turn.author)
        Message.objects.bulk_update(self.messages.values(), ["parent"], batch_size=BATCH)
        Attachment.objects.bulk_create(
            Attachment(
                message=self.messages[turn.id],
                file=self.files[each],
                position=position,
                **_choice_of(turn, each),
            )
            for turn in turns
            for position, each in enumerate(turn.attachments)
        )
        self._create_comparisons(turns)
        index(SearchKind.MESSAGE, *(self.messages[t.id] for t in turns if t.role == "user"))
        self._create_context_starts(turns)

    def _create_context_starts(self, turns: Sequence[form.Turn]) -> None:
        """In the order in which they were chosen, because the newest choice is in effect."""
        chosen = [
            (turn.context_start.number, turn.id, turn.context_start)
            for turn in turns
            if turn.context_start is not None and turn.role == "user"
        ]
        for _, identity, said in sorted(chosen, key=lambda each: each[0]):
            self._row(ContextStart, said, message=self.messages[identity]).save(force_insert=True)

    def _create_comparisons(self, turns: Sequence[form.Turn]) -> None:
        """A file that names a single answer, or too many, has no comparison there."""
        compared: dict[UUID, list[form.Turn]] = {}
        for turn in turns:
            if turn.compared and turn.parent and turn.role == "assistant":
                compared.setdefault(turn.parent, []).append(turn)
        for question, answers in compared.items():
            if not 2 <= len(answers) <= MOST_COMPARED:
                continue
            chosen = [self.messages[each.id] for each in answers if each.compared == "chosen"]
            comparison = Comparison.objects.create(
                question=self.messages[question],
                conversation=self.room,
                created_at=self._at(answers[0].created_at),
                chosen=chosen[0] if chosen else None,
            )
            ComparedAnswer.objects.bulk_create(
                ComparedAnswer(
                    answer=self.messages[each.id], comparison=comparison, position=position
                )
                for position, each in enumerate(answers)
            )

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
        ended = columns_of(end)
        if not log.is_ended_here:
            ended = {name: ended[name] for name in ("last_seq", "result")}
        return self._row(
            Run,
            said,
            conversation=self.room,
            message=self.messages[turn.id],
            position=position,
            idempotency_key=uuid4(),
            # A response id of another server means nothing to any server here.
            **{**ended, "public_id": run_id, "response_id": ""},
        )

    def _body(self, run: Run, source_id: UUID) -> bytes:
        log = self.exported.logs[source_id]
        body = events.join_bodies(events.encode(event) for event in log.entries)
        self.budget.spend(len(body) + len(run.result or ""))
        return body

    def _create_parts(self, said: Sequence[tuple[form.Run, Run]]) -> None:
        Attempt.objects.bulk_create(
            self._row(Attempt, each, run=run) for source, run in said for each in source.attempts
        )
        AnswerFile.objects.bulk_create(
            self._row(AnswerFile, each, run=run) for source, run in said for each in source.files
        )
        asked = [
            (each, self._row(Question, each, conversation=self.room, run=run))
            for source, run in said
            for each in source.questions
        ]
        Question.objects.bulk_create(question for _, question in asked)
        ask_again(question for _, question in asked)
        for each, question in asked:
            self._keep_person("answered_by", question, each.answered_by)
        index(SearchKind.QUESTION, *(q for _, q in asked if q.kind != QuestionKind.TOOL))

    # --- artifacts and mockups ----------------------------------------------------------------

    def _create_artifact(self, said: form.Artifact) -> None:
        artifact = self._row(Artifact, said, conversation=self.room)
        artifact.save(force_insert=True)
        versions = [self._row(ArtifactVersion, each, artifact=artifact) for each in said.versions]
        self.budget.spend_on_texts(version.content for version in versions)
        ArtifactVersion.objects.bulk_create(versions)
        index(SearchKind.ARTIFACT, *_latest(versions))

    def _create_mockup(self, said: form.Mockup) -> None:
        mockup = self._row(Mockup, said, conversation=self.room)
        mockup.save(force_insert=True)
        self._keep_name("mockup_server", mockup, said.server)
        versions = [self._row(MockupVersion, each, mockup=mockup) for each in said.versions]
        MockupVersion.objects.bulk_create(versions)
        MockupFile.objects.bulk_create(
            self._row(MockupFile, each, version=version)
            for source, version in zip(said.versions, versions, strict=True)
            for each in source.files
        )


def _latest(versions: Iterable[ArtifactVersion]) -> list[ArtifactVersion]:
    return sorted(versions, key=lambda version: version.number)[-1:]


def _rename(log: Log, run_id: UUID) -> None:
    """Replaces the ids of responses with that of the run."""
    log.result.response_id = response_id_of(run_id)
    for event in log.entries:
        if isinstance(event, events.MetaUpdate) and "response_id" in event.values:
            event.values["response_id"] = response_id_of(run_id)


def _choice_of(turn: form.Turn, file: UUID) -> dict[str, str]:
    """The part of an attached document that was sent. Its text is that of the file, once somebody sends it again."""
    sent = next((each for each in turn.documents if each.file == file), None)
    return {"pages": sent.pages, "use": sent.use} if sent else {}
