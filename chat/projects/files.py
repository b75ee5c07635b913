"""The files that a project shares with its conversations."""

from __future__ import annotations

from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import QuerySet
from django.utils.translation import gettext, ngettext

from chat import access
from chat.core.errors import ActionRefused, storage_errors
from chat.documents.actions import request_reading
from chat.files.actions import NewFile
from chat.files.storage import check_storage
from chat.models import Attachment, AuditEvent, FileContent, Project, StoredFile, User

# Each composer of the project lists them.
MOST_FILES = 50


def add_file(user: User, project: Project, new: NewFile) -> StoredFile:
    """The same file again is the file that is there already. Raises ``ActionRefused``."""
    _check_writer(user, project)
    with (
        storage_errors(),
        FileContent.objects.writing([new]) as [content],
        transaction.atomic(),
    ):
        # A file that is added at the same moment waits until this one is counted.
        Project.objects.select_for_update(of=("self",)).get(pk=project.pk)
        known = StoredFile.objects.filter(project=project)
        same = known.filter(content_id=new.sha256, name=new.name).first()
        if same is not None:
            return same
        if known.count() >= MOST_FILES:
            words = ngettext(
                "A project can have up to %(count)d file. Remove some.",
                "A project can have up to %(count)d files. Remove some.",
                MOST_FILES,
            )
            raise ActionRefused(words % {"count": MOST_FILES})
        check_storage(user, [new])
        file = StoredFile.objects.store(
            None,
            project=project,
            name=new.name,
            media_type=new.media_type,
            content=content,
            by=user,
        )
        request_reading(user, file)
        _record(user, "project.file_added", project, file)
    return file


def remove_file(user: User, file: StoredFile) -> None:
    """Removes the file from its project. Messages that have it keep it."""
    project = file.project
    assert project is not None
    _check_writer(user, project)
    with storage_errors(), transaction.atomic():
        release_files(StoredFile.objects.filter(pk=file.pk, project=project))
        _record(user, "project.file_removed", project, file)


def release_files(files: QuerySet[StoredFile]) -> None:
    """Takes files from their project: what was sent stays, without a project, as long as a message
    has it, and the rest is deleted. Call it inside a transaction."""
    # A message sent at this moment has attached its file by now, or finds it gone.
    chosen = list(files.select_for_update(of=("self",)).values_list("pk", flat=True))
    sent = Attachment.objects.filter(file__in=chosen).values("file")
    StoredFile.objects.filter(pk__in=chosen).exclude(pk__in=sent).delete()
    StoredFile.objects.filter(pk__in=chosen).update(project=None)


def _check_writer(user: User, project: Project) -> None:
    """A right in a project can end between two requests."""
    if not access.may_write_in_project(user, project):
        raise PermissionDenied(gettext("You have read-only access to this project."))


def _record(user: User, verb: str, project: Project, file: StoredFile) -> None:
    AuditEvent.objects.record(user, verb, target=project.name, file=file.name)
