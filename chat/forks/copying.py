"""Copies the rows of a path of a conversation into a new one.

The copies show what the originals show: texts, reasoning, tool calls, artifacts and files, by the same
people and at the same times. Files refer to the same bytes. What servers sent, byte for byte, is not
copied, and neither are the ids by which they continue an answer from what they have stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar
from uuid import uuid4

from django.db.models import Model

from chat import events
from chat.models import (
    UNSETTLED_STATUSES,
    AnswerFile,
    Artifact,
    ArtifactVersion,
    Attachment,
    Attempt,
    ComparedAnswer,
    Comparison,
    ContextStart,
    Conversation,
    ImportedNames,
    Message,
    Mockup,
    MockupFile,
    MockupVersion,
    Question,
    QuestionKind,
    QuestionStatus,
    Role,
    Run,
    RunInstructions,
    RunPersonalInstructions,
    RunSegment,
    SearchKind,
    SentContext,
    StoredFile,
    User,
)
from chat.models.run import LIVE_STATUSES
from chat.result import Fold
from chat.runs.event_buffer import LogEntry
from chat.runs.outcomes import columns_of
from chat.runs.public_events import body_without_settings, result_without_settings
from chat.runs.segments import read_entries
from chat.search.sources import index
from chat.tools.outcome import ask_again

# Events of a run that become one row, and are in memory together.
CHUNK_BYTES = 1024 * 1024
M = TypeVar("M", bound=Model)


class NotEnded(Exception):
    """An answer of the path is live."""


@dataclass(kw_only=True)
class PathCopy:
    """The copy of ``messages``, parents first, into ``room``. The maps lead from keys of
    originals to their copies. ``with_settings``: the owner of the copy may see the settings of the
    original; ``names`` are those of an imported original, ``projects`` the keys of the projects whose
    instructions they may read."""

    room: Conversation
    owner: User
    messages: Sequence[Message]
    with_settings: bool
    names: ImportedNames
    projects: frozenset[int]
    copied_names: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    copied_messages: dict[int, Message] = field(default_factory=dict)
    runs: dict[int, Run] = field(default_factory=dict)
    files: dict[int, StoredFile] = field(default_factory=dict)

    def copy(self) -> None:
        """Call this in the transaction that has created the room. Raises ``NotEnded``."""
        index(SearchKind.TITLE, self.room)
        self._copy_messages()
        self._copy_runs()
        self._copy_context()
        self._copy_files()
        self._copy_parts()
        self._copy_artifacts()
        self._copy_mockups()
        # A hit in a file leads to the record that has the file, so files are indexed last.
        index(SearchKind.FILE, *self.files.values())
        self._answer_last_message()

    # --- turns --------------------------------------------------------------------------------

    def _copy_messages(self) -> None:
        copies = [
            _copied(
                each,
                public_id=uuid4(),
                conversation=self.room,
                parent=None,
                revision=1,
                # Feedback is about the original, and of people who may not read the copy.
                feedback_revision=0,
            )
            for each in self.messages
        ]
        Message.objects.bulk_create(copies)
        for original, copy in zip(self.messages, copies, strict=True):
            self.copied_messages[original.pk] = copy
            copy.parent = self.copied_messages.get(original.parent_id)
            self._keep_name("author", original, copy)
        Message.objects.bulk_update(copies, ["parent"], batch_size=400)
        self._copy_comparisons()
        index(SearchKind.MESSAGE, *(each for each in copies if each.role == Role.USER))

    def _copy_comparisons(self) -> None:
        """The comparison at the end of the path. Of an earlier one only the answer is copied that people went on with."""
        rows = Comparison.objects.filter(question__in=self.copied_messages, chosen__isnull=True)
        for original in rows.prefetch_related("answers"):
            answers = original.answers.all()
            if all(each.answer_id in self.copied_messages for each in answers):
                comparison = Comparison.objects.create(
                    question=self.copied_messages[original.question_id],
                    conversation=self.room,
                    created_by=original.created_by,
                    created_at=original.created_at,
                )
                ComparedAnswer.objects.bulk_create(
                    ComparedAnswer(
                        answer=self.copied_messages[each.answer_id],
                        comparison=comparison,
                        position=each.position,
                    )
                    for each in answers
                )

    def _copy_runs(self) -> None:
        originals = Run.objects.filter(message__in=self.copied_messages).order_by("pk")
        for original in originals:
            if original.is_live:
                # It has continued since the path was read; a runner would take the copy for a request.
                raise NotEnded
            run = _copied(
                original,
                public_id=uuid4(),
                conversation=self.room,
                message=self.copied_messages[original.message_id],
                idempotency_key=uuid4(),
                request_digest=None,
                # With it, a server would add what only it has stored: the settings of the original.
                response_id="",
                runner=None,
                **self._settings_of(original),
            )
            run.save(force_insert=True)
            RunSegment.objects.bulk_create(self._log_of(original, run))
            self.runs[original.pk] = run
            for kind in ("server", "model"):
                self._keep_name(kind, original, run)
        index(SearchKind.ANSWER, *self.runs.values())
        index(SearchKind.REASONING, *self.runs.values())

    def _copy_context(self) -> None:
        """The turns with which it starts are chosen in the same order, because the newest choice is in effect."""
        starts = ContextStart.objects.filter(message__in=self.copied_messages).order_by("pk")
        for start in starts.select_related("person"):
            _copied(start, message=self.copied_messages[start.message_id]).save(force_insert=True)
        SentContext.objects.bulk_create(
            SentContext(
                run=self.runs[each.run_id],
                start=self.copied_messages[each.start_id],
                left_out=each.left_out,
            )
            for each in SentContext.objects.filter(run__in=self.runs)
            if each.start_id in self.copied_messages
        )

    def _settings_of(self, run: Run) -> dict[str, object]:
        if self.with_settings:
            return {}
        result = run.result
        if result:
            decoded = result_without_settings(events.decode_result(result))
            result = events.encode(decoded).decode()
        # Notes name parameters that were changed or left out.
        return {
            "system_prompt": "",
            "parameters": {},
            "tools": [],
            "notes": [],
            "preset_version": None,
            "result": result,
        }

    def _log_of(self, original: Run, run: Run) -> Iterator[RunSegment]:
        after = 0
        while entries := read_entries(original.pk, after, limit_bytes=CHUNK_BYTES):
            body = events.join_bodies(map(self._body, entries))
            first, after = entries[0].seq, entries[-1].seq
            yield RunSegment(run=run, first_seq=first, last_seq=after, body=body)

    def _body(self, entry: LogEntry) -> bytes:
        return entry.body if self.with_settings else body_without_settings(entry)

    def _answer_last_message(self) -> None:
        """Below a message of a person stands an empty answer, which can be tried again: the next message
        continues from an answer."""
        last = list(self.copied_messages.values())[-1]
        if last.role != Role.USER:
            return
        answer = Message.objects.create(
            conversation=self.room, parent=last, role=Role.ASSISTANT, created_at=last.created_at
        )
        ending = events.Ending(status="stopped", stop=events.Stop(reason="stopped"))
        end = events.ChatEnd(seq=1, result=Fold().result(ending))
        run = Run.objects.create(
            conversation=self.room,
            message=answer,
            upstream=self.room.upstream,
            model=self.room.model,
            requested_by=self.owner,
            idempotency_key=uuid4(),
            **columns_of(end),
        )
        body = events.join_bodies([events.encode(end)])
        RunSegment.objects.create(run=run, first_seq=1, last_seq=1, body=body)

    # --- what belongs to turns ----------------------------------------------------------------

    def _copy_files(self) -> None:
        """Rows of this conversation for the same bytes. What people attached now counts for the owner of
        the copy."""
        for original in files_of(self.copied_messages, self.runs):
            attached = original.created_by_id is not None
            self.files[original.pk] = _copied(
                original,
                public_id=uuid4(),
                conversation=self.room,
                project=None,
                created_by=self.owner if attached else None,
            )
        StoredFile.objects.bulk_create(self.files.values())

    def _copy_parts(self) -> None:
        attachments = Attachment.objects.filter(message__in=self.copied_messages)
        Attachment.objects.bulk_create(
            _copied(
                each,
                message=self.copied_messages[each.message_id],
                file=self.files[each.file_id],
            )
            for each in attachments.order_by("pk")
        )
        AnswerFile.objects.bulk_create(
            _copied(each, run=self.runs[each.run_id], file=self.files[each.file_id])
            for each in AnswerFile.objects.filter(run__in=self.runs).order_by("pk")
        )
        Attempt.objects.bulk_create(
            _copied(each, run=self.runs[each.run_id])
            for each in Attempt.objects.filter(run__in=self.runs).order_by("pk")
        )
        instructions = RunInstructions.objects.filter(run__in=self.runs, project__in=self.projects)
        RunInstructions.objects.bulk_create(
            RunInstructions(run=self.runs[each.run_id], project_id=each.project_id, text=each.text)
            for each in instructions
        )
        personal = RunPersonalInstructions.objects.filter(run__in=self.runs, user=self.owner)
        RunPersonalInstructions.objects.bulk_create(
            RunPersonalInstructions(run=self.runs[each.run_id], user=each.user, text=each.text)
            for each in personal.select_related("user")
        )
        self._copy_questions()

    def _copy_questions(self) -> None:
        originals = list(Question.objects.filter(run__in=self.runs).order_by("pk"))
        copies = [self._question(each) for each in originals]
        Question.objects.bulk_create(copies)
        ask_again(copies)
        for original, copy in zip(originals, copies, strict=True):
            self._keep_name("answered_by", original, copy)
        index(SearchKind.QUESTION, *(q for q in copies if q.kind != QuestionKind.TOOL))

    def _question(self, question: Question) -> Question:
        differing: dict[str, object] = {}
        if question.status in UNSETTLED_STATUSES:
            # Nobody answers it here yet, and a call that runs there is asked about again.
            differing = {"status": QuestionStatus.OPEN, "claimed_by": None, "claimed_at": None}
        return _copied(
            question,
            public_id=uuid4(),
            conversation=self.room,
            run=self.runs[question.run_id],
            **differing,
        )

    # --- artifacts and mockups ----------------------------------------------------------------

    def _copy_artifacts(self) -> None:
        versions = ArtifactVersion.objects.filter(run__in=self.runs).order_by("number")
        made: dict[int, list[ArtifactVersion]] = {}
        for version in versions:
            made.setdefault(version.artifact_id, []).append(version)
        for original in Artifact.objects.filter(pk__in=made).order_by("pk"):
            artifact = _copied(original, public_id=uuid4(), conversation=self.room)
            artifact.save(force_insert=True)
            copies = [
                _copied(each, artifact=artifact, run=self.runs[each.run_id])
                for each in made[original.pk]
            ]
            ArtifactVersion.objects.bulk_create(copies)
            index(SearchKind.ARTIFACT, copies[-1])

    def _copy_mockups(self) -> None:
        versions = MockupVersion.objects.filter(run__in=self.runs).order_by("number")
        mockups: dict[int, Mockup] = {}
        copies: dict[int, MockupVersion] = {}
        for version in versions.select_related("mockup"):
            if version.mockup_id not in mockups:
                mockup = _copied(version.mockup, public_id=uuid4(), conversation=self.room)
                mockup.save(force_insert=True)
                mockups[version.mockup_id] = mockup
                self._keep_name("mockup_server", version.mockup, mockup)
            copies[version.pk] = _copied(
                version, mockup=mockups[version.mockup_id], run=self.runs[version.run_id]
            )
            copies[version.pk].save(force_insert=True)
        MockupFile.objects.bulk_create(
            _copied(
                each,
                version=copies[each.version_id],
                file=self.files[each.file_id] if each.file_id else None,
            )
            for each in MockupFile.objects.filter(version__in=copies).order_by("pk")
        )

    def _keep_name(self, kind: str, original: Model, copy: Model) -> None:
        name = self.names.get((kind, original.pk))
        if name:
            self.copied_names.setdefault(kind, {}).setdefault(name, []).append(copy.pk)


def has_ended(messages: Iterable[Message]) -> bool:
    """Returns whether no answer among these messages is live."""
    keys = [each.pk for each in messages]
    return not Run.objects.filter(message__in=keys, status__in=LIVE_STATUSES).exists()


def files_of(messages: Iterable[int], runs: Iterable[int]) -> list[StoredFile]:
    """The files of these messages, and of the answers of these runs."""
    messages, runs = list(messages), list(runs)
    keys = {
        *Attachment.objects.filter(message__in=messages).values_list("file", flat=True),
        *AnswerFile.objects.filter(run__in=runs).values_list("file", flat=True),
        *MockupFile.objects.filter(version__run__in=runs, file__isnull=False).values_list(
            "file", flat=True
        ),
    }
    return list(StoredFile.objects.filter(pk__in=keys).order_by("pk"))


def _copied(row: M, **differing: Any) -> M:
    """A new row with the columns of this one, but for its key and ``differing``."""
    fields = [each for each in row._meta.concrete_fields if not each.primary_key]
    columns = {
        each.attname: getattr(row, each.attname) for each in fields if each.name not in differing
    }
    return type(row)(**columns, **differing)
