"""Imports the conversations of an export, and undoes an import."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec
from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.translation import gettext

from chat import access, events
from chat.conversations.actions.conversation import delete
from chat.conversations.actions.messages import choose_path
from chat.core import notify
from chat.core.errors import ActionRefused
from chat.core.text import one_line
from chat.files.actions import Picture, check_picture_size, picture_of
from chat.imports.archive import MOST_CONVERSATIONS, Archive, Document, ImportRefused, Item, parse
from chat.imports.conversations import Conversation as Imported
from chat.imports.conversations import File, Part, Text, Unreadable
from chat.imports.formats import FORMATS, Format, detect
from chat.imports.formats.tributary import Exported
from chat.imports.report import Note, Report
from chat.imports.restoring import project_for, restore
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


def import_archive(
    user: User,
    team: Team,
    archive: Archive,
    *,
    format_name: str = "",
    is_dry_run: bool = False,
    progress: Progress | None = None,
    job: Job | None = None,
) -> Report:
    """Creates a private conversation of this user for each one in the export that they have not
    imported into this team before. Each is a transaction: what is interrupted is continued by
    importing the same file again, and for the same ``job`` it is the same import. Raises
    ``ActionRefused``, before anything is written, for a file that is damaged, too large or unknown;
    a single conversation that can't be read is reported."""
    if not access.writable_teams(user).filter(pk=team.pk).exists():
        words = gettext("You have read-only access. Ask a team owner for write access.")
        raise ActionRefused(words)
    found, names, total = _examine(archive, format_name)
    work = _Work.begin(user, team, found, is_dry_run=is_dry_run, job=job)
    try:
        for document in archive.documents():
            for item in document.items if document.name in names else ():
                work.take(item, archive)
                if progress is not None:
                    progress(work.report.found, total)
    finally:
        work.end()
    return work.report


def _examine(archive: Archive, format_name: str) -> tuple[Format, set[str], int]:
    """The format, the JSON files that have conversations, and how many these are. All files are
    read once, so that nothing is written of an export that is damaged."""
    wanted = FORMATS[format_name] if format_name else None
    found: dict[str, Format] = {}
    total = 0
    for document in archive.documents():
        recognized = detect(_values(document)) if document.items else None
        if recognized is not None and wanted in (None, recognized):
            found[document.name] = recognized
            total += len(document.items)
        elif wanted is not None and not document.name:
            found[document.name] = wanted
            total += len(document.items)
    formats = {each.name: each for each in found.values()}
    if not formats:
        labels = ", ".join(each.label for each in FORMATS.values())
        words = gettext("The file contains no conversations in a known format (%(formats)s).")
        raise ImportRefused(words % {"formats": labels})
    if len(formats) > 1:
        labels = ", ".join(each.label for each in formats.values())
        words = gettext(
            "The file contains conversations of several products (%(formats)s). Choose one."
        )
        raise ImportRefused(words % {"formats": labels})
    if total > MOST_CONVERSATIONS:
        words = gettext(
            "The file has %(count)s conversations; at most %(limit)s can be imported at once."
        )
        raise ImportRefused(words % {"count": f"{total:,}", "limit": f"{MOST_CONVERSATIONS:,}"})
    return next(iter(formats.values())), set(found), total


def _values(document: Document) -> Iterator[events.Json]:
    for item in document.items:
        try:
            yield parse(item)
        except Unreadable:
            continue


@dataclass(slots=True, kw_only=True)
class _Work:
    """An import under way. ``known``: the digest of what was imported before, by its source id;
    ``written``: the ids of what this import had created when it was interrupted."""

    user: User
    team: Team
    format: Format
    report: Report
    batch: Import | None
    known: dict[str, str] = field(default_factory=dict)
    written: set[str] = field(default_factory=set)

    @classmethod
    def begin(
        cls, user: User, team: Team, found: Format, *, is_dry_run: bool, job: Job | None = None
    ) -> _Work:
        sources = ImportedSource.objects.filter(user=user, team=team, format=found.name)
        report = Report(format=found.name, is_dry_run=is_dry_run)
        work = cls(user=user, team=team, format=found, report=report, batch=None)
        work.known = dict(sources.values_list("source_id", "digest"))
        if not is_dry_run:
            before = Import.objects.filter(job=job).first() if job is not None else None
            work.batch = batch = before or Import.objects.create(
                user=user, team=team, format=found.name, job=job
            )
            work.written = set(batch.sources.values_list("source_id", flat=True))
            report.import_id = str(batch.public_id)
        return work

    def take(self, item: Item, archive: Archive) -> None:
        report = self.report
        report.found += 1
        source_id, title = f"#{report.found}", ""
        try:
            value = parse(item)
            if not isinstance(value, dict):
                raise Unreadable(gettext("Not a conversation."))
            named, title = self.format.name_of(value)
            source_id = named or source_id
            imported = self.format.read(value, archive.member)
        except Unreadable as error:
            report.unread += 1
            report.note(report.not_understood, source_id, title, [str(error)])
            return
        if imported.turns:
            self._accept(imported, source_id, archive)
        else:
            report.empty += 1

    def _accept(self, imported: Imported | Exported, source_id: str, archive: Archive) -> None:
        report = self.report
        digest, title = imported.digest, imported.title
        identity = imported.source_id or f"content:{digest}"
        before = self.known.get(identity)
        if identity in self.written:
            self.written.remove(identity)
            report.created += 1
            return
        if before is not None:
            report.skipped += 1
            if before != digest:
                report.changed.append(Note(source_id=source_id, title=title))
            return
        self.known[identity] = digest
        prepared = self._prepared(imported, archive, identity=identity, digest=digest)
        if self.batch is not None and not _written(self.batch, prepared):
            report.skipped += 1
            return
        report.created += 1
        report.note(report.not_understood, source_id, title, imported.problems)
        report.note(report.left_out, source_id, title, [*imported.left_out, *prepared.left_out])

    def _prepared(
        self, imported: Imported | Exported, archive: Archive, *, identity: str, digest: str
    ) -> Prepared:
        if not isinstance(imported, Exported):
            return _with_pictures(imported, archive, identity=identity, digest=digest)
        name = imported.document.conversation.project
        left_out = []
        if name and project_for(self.user, self.team, name) is None:
            words = gettext(
                "The team has no project %(project)s that you can write in. The conversation is in no "
                "project."
            )
            left_out.append(words % {"project": one_line(name)[:80]})
        return Prepared(imported=imported, identity=identity, digest=digest, left_out=left_out)

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


def _with_pictures(imported: Imported, archive: Archive, *, identity: str, digest: str) -> Prepared:
    pictures: dict[str, list[Picture]] = {}
    left_out: list[str] = []
    turns = []
    for turn in imported.turns:
        parts: list[Part] = []
        for part in turn.parts:
            if not isinstance(part, File):
                parts.append(part)
                continue
            try:
                picture = _picture(part, archive)
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
        identity=identity,
        digest=digest,
        pictures=pictures,
        left_out=left_out,
    )


def _picture(file: File, archive: Archive) -> Picture | None:
    """Raises ``ActionRefused`` if it is no picture, or too large."""
    name = picture_name(file.name)
    if file.member:
        check_picture_size(name, archive.size_of(file.member))
        return picture_of(name, archive.read(file.member))
    if not file.data:
        return None
    try:
        body = base64.b64decode(file.data, validate=True)
    except (binascii.Error, ValueError):
        body = b""
    return picture_of(name, body)


# --- writing --------------------------------------------------------------------------------------


def _written(batch: Import, prepared: Prepared) -> bool:
    """Stores one conversation in one transaction, unless another import of this user just has."""
    try:
        with transaction.atomic():
            _write(batch, prepared)
    except IntegrityError:
        sources = ImportedSource.objects.filter(user=batch.user, team=batch.team)
        if not sources.filter(format=batch.format, source_id=prepared.identity).exists():
            raise
        return False
    return True


def _write(batch: Import, prepared: Prepared) -> None:
    """Stores one conversation. Call this inside a transaction."""
    imported = prepared.imported
    written = (
        restore(batch, imported)
        if isinstance(imported, Exported)
        else write(batch, imported, prepared.pictures)
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
