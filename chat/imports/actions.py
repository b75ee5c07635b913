"""Imports the conversations of an export, and undoes an import."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import BinaryIO, TypeAlias

import msgspec
from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.translation import gettext

from chat import access
from chat.conversations.actions.conversation import delete
from chat.conversations.actions.messages import choose_path
from chat.core import notify
from chat.core.errors import ActionRefused
from chat.core.text import one_line
from chat.files.actions import Picture, check_picture_size, picture_of
from chat.imports.archive import shown
from chat.imports.budget import Budget
from chat.imports.conversations import Conversation as Imported
from chat.imports.conversations import Part, SentFile, Text
from chat.imports.formats import FORMATS, Format
from chat.imports.formats.tributary import Exported
from chat.imports.frames import Found, Read, Restored, Skipped
from chat.imports.report import Note, Report
from chat.imports.restoring import project_for, restore
from chat.imports.source import read_messages
from chat.imports.writing import write
from chat.models import (
    AuditEvent,
    Conversation,
    Import,
    ImportedSource,
    Job,
    Message,
    Team,
    User,
)
from chat.web.files import picture_name

# Called with the numbers of conversations that are done, and of all. What it raises ends the import;
# what was created until then stays, and can be undone.
Progress: TypeAlias = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A conversation that can be written. ``identity`` and ``digest`` are those of what was read.
    ``pictures`` are of turns, by their ids; other files are lines of text. Our own export has its
    files in ``imported``."""

    imported: Imported | Exported
    identity: str
    digest: str
    pictures: dict[str, list[Picture]] = field(default_factory=dict)
    left_out: Sequence[str] = ()


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
) -> Report:
    """Creates a private conversation of this user for each one in the export that they have not
    imported into this team before. Each is a transaction: what is interrupted is continued by
    importing the same file again, and for the same ``job`` it is the same import. ``check`` is called
    twice a second while the file is read. Raises ``ActionRefused``, before anything is written, for a
    file that is damaged, too large or unknown; a single conversation that can't be read is reported."""
    if not access.writable_teams(user).filter(pk=team.pk).exists():
        words = gettext("You have read-only access. Ask a team owner for write access.")
        raise ActionRefused(words)
    messages = read_messages(file, format_name=format_name, known=_known(user, team), check=check)
    with closing(messages):
        found = next(messages)
        assert isinstance(found, Found)
        work = _Work.begin(user, team, FORMATS[found.format], is_dry_run=is_dry_run, job=job)
        work.note_missing(found.missing)
        try:
            for message in messages:
                assert not isinstance(message, Found)
                work.take(message)
                if progress is not None:
                    progress(work.report.found, found.total)
        finally:
            work.end()
    return work.report


def _known(user: User, team: Team) -> dict[str, dict[str, str]]:
    """The digests of what this user has imported into this team, by format and identity."""
    known: dict[str, dict[str, str]] = {}
    sources = ImportedSource.objects.filter(user=user, team=team)
    for name, source_id, digest in sources.values_list("format", "source_id", "digest"):
        known.setdefault(name, {})[source_id] = digest
    return known


@dataclass(slots=True, kw_only=True)
class _Work:
    """An import under way. ``known``: the digest of what was imported before, by its source id;
    ``written``: the ids of what this import had created when it was interrupted."""

    user: User
    team: Team
    format: Format
    report: Report
    budget: Budget
    batch: Import | None
    known: dict[str, str] = field(default_factory=dict)
    written: set[str] = field(default_factory=set)

    @classmethod
    def begin(
        cls, user: User, team: Team, found: Format, *, is_dry_run: bool, job: Job | None = None
    ) -> _Work:
        sources = ImportedSource.objects.filter(user=user, team=team, format=found.name)
        report = Report(format=found.name, is_dry_run=is_dry_run)
        budget = Budget(user=user)
        work = cls(user=user, team=team, format=found, report=report, budget=budget, batch=None)
        work.known = dict(sources.values_list("source_id", "digest"))
        if not is_dry_run:
            before = Import.objects.filter(job=job).first() if job is not None else None
            work.batch = batch = before or Import.objects.create(
                user=user, team=team, format=found.name, job=job
            )
            budget.written_bytes = batch.written_bytes
            work.written = set(batch.sources.values_list("source_id", flat=True))
            report.import_id = str(batch.public_id)
        return work

    def note_missing(self, names: Sequence[str]) -> None:
        words = gettext("The export says that it has this file, and lacks it. Download it again.")
        for name in names:
            self.report.note(self.report.left_out, shown(name), "", [words])

    def take(self, message: Skipped | Read | Restored) -> None:
        report = self.report
        report.found += 1
        if isinstance(message, Skipped) and message.reason:
            report.unread += 1
            report.note(report.not_understood, message.source_id, message.title, [message.reason])
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
        if self.batch is not None and not _written(self.batch, prepared, self.budget):
            report.skipped += 1
            return
        report.created += 1
        imported = prepared.imported
        source_id, title = message.source_id, imported.title
        report.note(report.not_understood, source_id, title, imported.problems)
        report.note(report.left_out, source_id, title, [*imported.left_out, *prepared.left_out])

    def _prepared(self, message: Read | Restored) -> Prepared:
        if isinstance(message, Read):
            return _with_pictures(message)
        name = message.exported.document.conversation.project
        left_out = []
        if name and project_for(self.user, self.team, name) is None:
            words = gettext(
                "The team has no project %(project)s that you can write in. The conversation is in no "
                "project."
            )
            left_out.append(words % {"project": one_line(name)[:80]})
        return Prepared(
            imported=message.exported,
            identity=message.identity,
            digest=message.digest,
            left_out=left_out,
        )

    def end(self) -> None:
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


# --- pictures -------------------------------------------------------------------------------------


def _with_pictures(message: Read) -> Prepared:
    imported = message.conversation
    pictures: dict[str, list[Picture]] = {}
    left_out: list[str] = []
    turns = []
    for turn in imported.turns:
        parts: list[Part] = []
        for part in turn.parts:
            if not isinstance(part, SentFile):
                parts.append(part)
                continue
            try:
                picture = _picture(part, message.contents)
            except ActionRefused as refusal:
                left_out.append(str(refusal))
                picture = None
            if picture is None:
                parts.append(Text(f"📎 {part.name}"))
            else:
                pictures.setdefault(turn.source_id, []).append(picture)
        turns.append(msgspec.structs.replace(turn, parts=tuple(parts)))
    return Prepared(
        imported=msgspec.structs.replace(imported, turns=tuple(turns)),
        identity=message.identity,
        digest=message.digest,
        pictures=pictures,
        left_out=left_out,
    )


def _picture(file: SentFile, contents: Mapping[str, bytes]) -> Picture | None:
    """Raises ``ActionRefused`` if it is no picture, or too large."""
    name = picture_name(file.name)
    if file.too_large:
        check_picture_size(name, None)
    return picture_of(name, contents[file.digest]) if file.digest else None


# --- writing --------------------------------------------------------------------------------------


def _written(batch: Import, prepared: Prepared, budget: Budget) -> bool:
    """Stores one conversation in one transaction, unless another import of this user just has."""
    try:
        with transaction.atomic():
            _write(batch, prepared, budget)
    except IntegrityError:
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
        else write(batch, imported, prepared.pictures, budget)
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
    # With the conversation, so that an import that is begun again goes on counting.
    Import.objects.filter(pk=batch.pk).update(written_bytes=budget.written_bytes)
    notify.publish_after_commit(notify.room_topic(room.public_id))


# --- undoing --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Undone:
    """How many conversations were deleted, and those that stay because they were continued."""

    deleted: int
    kept: Sequence[Conversation]


def undo(user: User, batch: Import, *, progress: Progress | None = None) -> Undone:
    """Deletes the conversations of an import that nobody has continued. They can be imported again.
    May be interrupted and repeated. The caller has loaded the import through `access.get_import`."""
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
    with transaction.atomic():
        Import.objects.filter(pk=batch.pk).update(undone_at=timezone.now())
        AuditEvent.objects.record(user, "import.undone", target=batch.team.name, count=deleted)
    return Undone(deleted=deleted, kept=kept)


def _is_continued(source: ImportedSource, room: Conversation) -> bool:
    return Message.objects.filter(conversation=room, pk__gt=source.last_message).exists()
