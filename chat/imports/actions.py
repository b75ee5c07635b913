"""Imports the conversations of an export, and undoes an import."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import BinaryIO, TypeAlias

import msgspec
from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.translation import gettext

from chat import access
from chat.conversations.actions.conversation import delete
from chat.conversations.actions.messages import choose_path
from chat.core import notify
from chat.core.errors import ActionRefused, is_database_unavailable, is_storage_full
from chat.core.text import one_line
from chat.files.actions import NewFile, check_file_size, new_picture
from chat.imports.archive import shown
from chat.imports.budget import Budget
from chat.imports.conversations import Conversation as Imported
from chat.imports.conversations import Part, SentFile, Text
from chat.imports.formats import FORMATS, Format
from chat.imports.formats.tributary import Exported
from chat.imports.frames import Found, Read, Restored, Skipped
from chat.imports.report import Note, Report
from chat.imports.restoring import detach_others, project_for, restore
from chat.imports.source import read_messages
from chat.imports.writing import write
from chat.jobs.kinds import JobStopped
from chat.models import (
    AuditEvent,
    Conversation,
    FileContent,
    Import,
    ImportedSource,
    Job,
    Message,
    NewContent,
    Team,
    User,
)
from chat.web.files import file_name

# Called with the numbers of finished and of all conversations. An exception ends the import; the
# conversations created so far stay and can be undone.
Progress: TypeAlias = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A conversation that can be written. ``identity`` and ``digest`` are those of its source.
    ``files`` are by ids of turns; other files are lines of text. Our own export has its files in
    ``imported``."""

    imported: Imported | Exported
    identity: str
    digest: str
    files: dict[str, list[NewFile]] = field(default_factory=dict)
    left_out: Sequence[str] = ()

    @property
    def contents(self) -> list[NewContent]:
        if isinstance(self.imported, Exported):
            bodies = self.imported.contents
            return [NewContent(body=body, sha256=digest) for digest, body in bodies.items()]
        return [each for few in self.files.values() for each in few]


def import_file(
    user: User,
    team: Team,
    file: BinaryIO,
    *,
    format_name: str = "",
    is_dry_run: bool = False,
    progress: Progress | None = None,
    check: Callable[[], None] | None = None,
    job: Job | None = None,
    keep: Callable[[], None] = lambda: None,
) -> Report:
    """Creates a private conversation of this user for each one in the export that they have not
    imported into this team before.

    Each conversation is a transaction: importing the same file again continues an interrupted
    import, and for the same ``job`` it is the same import. ``check`` is called twice a second while
    the file is read, ``keep`` at the end of each transaction (`chat.jobs.actions.keep`). Raises
    ``ActionRefused``, before anything is written, for a file that is damaged, too large or unknown;
    a single unreadable conversation is reported.
    """
    if not access.writable_teams(user).filter(pk=team.pk).exists():
        raise ActionRefused(access.without_team_text(user))
    messages = read_messages(file, format_name=format_name, known=_known(user, team), check=check)
    with closing(messages):
        found = next(messages)
        assert isinstance(found, Found)
        kind = FORMATS[found.format]
        work = _Work(user, team, kind, is_dry_run=is_dry_run, job=job, keep=keep)
        work.note_missing(found.missing)
        try:
            for message in messages:
                assert not isinstance(message, Found)
                work.add_message(message)
                if progress is not None:
                    progress(work.report.found, found.total)
        except BaseException as error:
            # Only the last of several attempts stores the result of the import.
            if not _is_repeated(error):
                work.end_import()
            raise
        work.end_import()
    return work.report


def _is_repeated(error: BaseException) -> bool:
    if isinstance(error, JobStopped):
        return error.reason != "canceled"
    if not isinstance(error, Exception) or is_storage_full(error):
        return False
    return is_database_unavailable(error)


def _known(user: User, team: Team) -> dict[str, dict[str, str]]:
    """The digests of what this user has imported into this team, by format and identity."""
    known: dict[str, dict[str, str]] = {}
    sources = ImportedSource.objects.filter(user=user, team=team)
    for name, source_id, digest in sources.values_list("format", "source_id", "digest"):
        known.setdefault(name, {})[source_id] = digest
    return known


class _Work:
    """An import in progress. `known` has the digests of earlier imports by source id; `written` the
    ids of what this import had created when it was interrupted."""

    def __init__(
        self,
        user: User,
        team: Team,
        found: Format,
        *,
        is_dry_run: bool,
        job: Job | None = None,
        keep: Callable[[], None] = lambda: None,
    ) -> None:
        self.user, self.team, self.keep = user, team, keep
        sources = ImportedSource.objects.filter(user=user, team=team, format=found.name)
        self.known: dict[str, str] = dict(sources.values_list("source_id", "digest"))
        self.written: set[str] = set()
        self.report = Report(format=found.name, is_dry_run=is_dry_run)
        self.budget = Budget(user=user)
        self.batch: Import | None = None
        if is_dry_run:
            return
        with transaction.atomic():
            before = Import.objects.filter(job=job).first() if job is not None else None
            self.batch = batch = before or Import.objects.create(
                user=user, team=team, format=found.name, job=job
            )
            keep()
        self.budget.written_bytes = batch.written_bytes
        self.written.update(batch.sources.values_list("source_id", flat=True))
        self.report.import_id = str(batch.public_id)

    def note_missing(self, names: Sequence[str]) -> None:
        words = gettext("The export says that it has this file, and lacks it. Download it again.")
        for name in names:
            self.report.add_notes(self.report.left_out, shown(name), "", [words])

    def add_message(self, message: Skipped | Read | Restored) -> None:
        report = self.report
        report.found += 1
        if isinstance(message, Skipped) and message.reason:
            report.unread += 1
            report.add_notes(
                report.not_understood, message.source_id, message.title, [message.reason]
            )
        elif isinstance(message, Skipped) and not message.identity:
            report.empty += 1
        else:
            self._accept(message)

    def _accept(self, message: Skipped | Read | Restored) -> None:
        report = self.report
        identity, digest = message.identity, message.digest
        if identity in self.written:
            self.written.remove(identity)
            report.created += 1
            return
        before = self.known.get(identity)
        if before is not None or isinstance(message, Skipped):
            report.skipped += 1
            if isinstance(message, Skipped) and before not in (None, digest):
                report.changed.append(Note(source_id=message.source_id, title=message.title))
            return
        self.known[identity] = digest
        prepared = self._prepared(message)
        if self.batch is not None and not _written(self.batch, prepared, self.budget, self.keep):
            report.skipped += 1
            return
        report.created += 1
        imported = prepared.imported
        source_id, title = message.source_id, imported.title
        report.add_notes(report.not_understood, source_id, title, imported.problems)
        report.add_notes(
            report.left_out, source_id, title, [*imported.left_out, *prepared.left_out]
        )

    def _prepared(self, message: Read | Restored) -> Prepared:
        if isinstance(message, Read):
            return _with_files(message)
        name = message.exported.document.conversation.project
        left_out = []
        if name and project_for(self.user, self.team, name) is None:
            words = gettext(
                "The team has no project %(project)s that you can write in. The conversation is in no "
                "project."
            )
            left_out.append(words % {"project": one_line(name)[:80]})
        left_out += detach_others(message.exported)
        return Prepared(
            imported=message.exported,
            identity=message.identity,
            digest=message.digest,
            left_out=left_out,
        )

    def end_import(self) -> None:
        if self.batch is None:
            return
        report = self.report
        with transaction.atomic():
            Import.objects.filter(pk=self.batch.pk).update(
                found=report.found,
                created=report.created,
                skipped=report.skipped,
                changed=len(report.changed),
                not_understood=report.unread,
                finished_at=timezone.now(),
            )
            AuditEvent.objects.record(
                self.user, "import.created", target=self.team.name, count=report.created
            )
            self.keep()


# --- files to attach --------------------------------------------------------------------------------


def _with_files(message: Read) -> Prepared:
    imported = message.conversation
    files: dict[str, list[NewFile]] = {}
    left_out: list[str] = []
    turns = []
    for turn in imported.turns:
        parts: list[Part] = []
        for part in turn.parts:
            if not isinstance(part, SentFile):
                parts.append(part)
                continue
            try:
                file = _new_file(part, message.contents)
            except ActionRefused as refusal:
                left_out.append(str(refusal))
                file = None
            if file is None:
                parts.append(Text(f"📎 {part.name}"))
            else:
                files.setdefault(turn.source_id, []).append(file)
        turns.append(msgspec.structs.replace(turn, parts=tuple(parts)))
    return Prepared(
        imported=msgspec.structs.replace(imported, turns=tuple(turns)),
        identity=message.identity,
        digest=message.digest,
        files=files,
        left_out=left_out,
    )


def _new_file(file: SentFile, contents: Mapping[str, bytes]) -> NewFile | None:
    """The file to attach, if its bytes are known. Raises ``ActionRefused`` if it is no image,
    or too large."""
    name = file_name(file.name)
    if file.too_large:
        check_file_size(name, None, settings.PICTURE_BYTES)
    return new_picture(name, contents[file.digest]) if file.digest else None


# --- writing --------------------------------------------------------------------------------------


def _written(batch: Import, prepared: Prepared, budget: Budget, keep: Callable[[], None]) -> bool:
    """Stores one conversation in one transaction, unless another import of this user just has."""
    before = budget.written_bytes
    try:
        with (
            FileContent.objects.writing(prepared.contents) as contents,
            transaction.atomic(),
        ):
            budget.keep_files(contents)
            _write(batch, prepared, budget)
            keep()
    except IntegrityError:
        budget.written_bytes = before
        sources = ImportedSource.objects.filter(user=batch.user, team=batch.team)
        if not sources.filter(format=batch.format, source_id=prepared.identity).exists():
            raise
        return False
    return True


def _write(batch: Import, prepared: Prepared, budget: Budget) -> None:
    """Stores one conversation. Call this inside a transaction."""
    imported = prepared.imported
    written = (
        restore(batch, imported, budget)
        if isinstance(imported, Exported)
        else write(batch, imported, prepared.files, budget)
    )
    if written.leaf is not None:
        choose_path(batch.user, written.leaf)
    room = written.room
    ImportedSource.objects.create(
        batch=batch,
        team=batch.team,
        user=batch.user,
        format=batch.format,
        source_id=prepared.identity,
        digest=prepared.digest,
        conversation=room,
        last_message=written.last_message,
        names=written.names,
    )
    # The count is stored with the conversation, so that a repeated import continues it.
    Import.objects.filter(pk=batch.pk).update(written_bytes=budget.written_bytes)
    notify.publish_after_commit(notify.room_topic(room.public_id))


# --- undoing --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Undone:
    """The number of deleted conversations, and those that stay because they were continued."""

    deleted: int
    kept: Sequence[Conversation]


def undo(
    user: User,
    batch: Import,
    *,
    progress: Progress | None = None,
    keep: Callable[[], None] = lambda: None,
) -> Undone:
    """Deletes the conversations of an import that nobody has continued. They can be imported again.
    The caller has loaded the import through `access.get_import`. Can be interrupted and
    repeated."""
    deleted = 0
    kept = []
    total = batch.sources.count()
    sources = batch.sources.select_related("conversation").order_by("pk")
    for number, source in enumerate(sources):
        if progress is not None:
            progress(number, total)
        room = source.conversation
        with transaction.atomic():
            is_here = room is not None and room.deleted_at is None
            if room is not None and is_here and _is_continued(source, room):
                kept.append(room)
                continue
            if room is not None and is_here:
                delete(user, room)
                deleted += 1
            source.delete()
            keep()
    with transaction.atomic():
        Import.objects.filter(pk=batch.pk).update(undone_at=timezone.now())
        AuditEvent.objects.record(user, "import.undone", target=batch.team.name, count=deleted)
        keep()
    return Undone(deleted=deleted, kept=kept)


def _is_continued(source: ImportedSource, room: Conversation) -> bool:
    return Message.objects.filter(conversation=room, pk__gt=source.last_message).exists()
