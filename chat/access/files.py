"""Files of conversations, and those that projects share."""

from __future__ import annotations

from uuid import UUID

from django.db.models import Exists, OuterRef, QuerySet
from django.http import Http404

from chat.access.conversations import get_conversation, visible_conversations
from chat.access.not_here import NOT_HERE
from chat.access.projects import get_project, visible_projects
from chat.models import Attachment, Conversation, StoredFile, User


def get_file(user: User, public_id: UUID) -> StoredFile:
    """A file of a conversation that the user may see, or a shared one: of a project that they may
    read, or sent in a conversation that they may see. Any other file belongs to nobody."""
    file = StoredFile.objects.filter(public_id=public_id).select_related("conversation").first()
    if file is None:
        raise Http404(NOT_HERE)
    if file.conversation is not None:
        file.conversation = get_conversation(user, file.conversation.public_id)
    elif not (_shares(user, file) or conversations_with(user, file).exists()):
        raise Http404(NOT_HERE)
    return file


def _shares(user: User, file: StoredFile) -> bool:
    return file.project_id is not None and (
        visible_projects(user).filter(pk=file.project_id).exists()
    )


def conversations_with(user: User, file: StoredFile) -> QuerySet[Conversation]:
    """The conversations that the user may see in which a shared file was sent."""
    sent = Attachment.objects.filter(file=file, message__conversation=OuterRef("pk"))
    return visible_conversations(user).filter(Exists(sent)).order_by("pk")


def shared_files(user: User, project_pk: int) -> QuerySet[StoredFile]:
    """The files of a project, without their bytes; none for those who don't read the project."""
    readable = visible_projects(user).filter(pk=project_pk)
    return StoredFile.objects.filter(project__in=readable.values("pk")).order_by("name", "pk")


def get_shared_file(user: User, public_id: UUID, *, for_write: bool = False) -> StoredFile:
    """A file of a project. Raises as ``get_project`` does."""
    file = StoredFile.objects.filter(public_id=public_id).select_related("project").first()
    if file is None or file.project is None:
        raise Http404(NOT_HERE)
    file.project = get_project(user, file.project.public_id, for_write=for_write)
    return file
