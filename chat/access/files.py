"""Files of conversations, those that projects share, and those that people haven't sent yet."""

from __future__ import annotations

from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.http import Http404
from django.utils.translation import gettext

from chat.access.conversations import get_conversation, may_remove, visible_conversations
from chat.access.not_here import NOT_HERE, existing
from chat.access.projects import get_project, visible_projects
from chat.core.text import as_uuid
from chat.models import Attachment, Conversation, Project, StoredFile, UnsentFile, User

# The place of a message in a new conversation, and the beginning of that of one in a project.
NEW = "new"
NEW_IN_PROJECT = "new-"


def get_file(user: User, public_id: UUID) -> StoredFile:
    """A file of a conversation that the user may see, or a shared one: of a project that they may
    read, or sent in a conversation that they may see; or one that they have uploaded and not sent yet.
    Any other file belongs to nobody."""
    file = existing(
        StoredFile.objects.filter(public_id=public_id).select_related("conversation").first()
    )
    if file.conversation is not None:
        file.conversation = get_conversation(user, file.conversation.public_id)
    elif not (
        _shares(user, file) or _is_unsent(user, file) or conversations_with(user, file).exists()
    ):
        raise Http404(NOT_HERE)
    return file


def get_removable_file(user: User, public_id: UUID) -> StoredFile:
    """A file that is attached in a conversation, for people who may delete its bytes. Raises ``Http404`` and
    ``PermissionDenied``."""
    file = get_file(user, public_id)
    if not may_remove_file(user, file):
        raise PermissionDenied(
            gettext(
                "Only the person who attached this file and managers of this conversation can delete it."
            )
        )
    return file


def may_remove_file(user: User, file: StoredFile) -> bool:
    """Returns whether this user, who may see the file, may delete its bytes. Files of projects are removed there, and
    those of answers belong to the answers."""
    room = file.conversation
    if room is None or file.is_deleted or not file.attachments.exists():
        return False
    return may_remove(user, room, author_pk=file.created_by_id)


def _shares(user: User, file: StoredFile) -> bool:
    return file.project_id is not None and (
        visible_projects(user).filter(pk=file.project_id).exists()
    )


def _is_unsent(user: User, file: StoredFile) -> bool:
    return UnsentFile.objects.filter(_is_own(user), user=user, file=file).exists()


def _is_own(user: User) -> Q:
    """A file of a draft that its author has uploaded for it."""
    return Q(file__project__isnull=True, file__created_by=user)


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


def get_draft_place(user: User, place: str) -> Project | None:
    """Checks that the user may write a message at this place (`UnsentFile.place`), and returns the project whose files it
    may have, if there is one. Raises as ``get_conversation`` and ``get_project`` do."""
    if place == NEW:
        return None
    public_id = existing(as_uuid(place.removeprefix(NEW_IN_PROJECT)))
    if place.startswith(NEW_IN_PROJECT):
        return get_project(user, public_id, for_write=True)
    return get_conversation(user, public_id, for_write=True).project


def get_unsent_file(user: User, place: str, public_id: UUID) -> UnsentFile:
    """A file of the user's message at this place, by the id of the file."""
    return existing(unsent_files(user, place).filter(file__public_id=public_id).first())


def unsent_files(user: User, place: str) -> QuerySet[UnsentFile]:
    """The files of the user's message at this place, in their order: their own, and those of projects that they
    may read."""
    shared = Q(file__project__in=visible_projects(user).values("pk"))
    rows = UnsentFile.objects.filter(_is_own(user) | shared, user=user, place=place)
    return rows.select_related("file").order_by("pk")
