"""The bytes of files that a person has stored, and their limit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from django.conf import settings
from django.db.models import Q, QuerySet, Sum
from django.utils.translation import gettext

from chat.core.errors import ActionRefused
from chat.models import FileContent, NewContent, StoredFile, User
from chat.rendering.figures import size


def stored_bytes(user: User) -> int:
    """Counts the files that the person has attached or shared, and those that answers made in their
    conversations, also in the trash. Bytes that several of these files have count once."""
    contents = FileContent.objects.filter(pk__in=_files_of(user).values("content"))
    return contents.aggregate(total=Sum("size_bytes"))["total"] or 0


def check_storage(user: User, contents: Sequence[NewContent]) -> None:
    """Raises ``ActionRefused`` if the person has no room for these contents. Bytes that they already have cost nothing; bytes of others do, so that nobody learns
    what others have. Requests at the same moment may together exceed the limit. Files of answers
    count, but are never refused."""
    check_room(user, {each.sha256: len(each.body) for each in contents})


def check_room(user: User, sizes: Mapping[str, int]) -> None:
    """The same for contents by their digest and size. Raises ``ActionRefused``."""
    own = _files_of(user).filter(content__in=list(sizes)).values_list("content_id", flat=True)
    known = set(own)
    added = sum(each for digest, each in sizes.items() if digest not in known)
    limit = settings.STORED_BYTES_PER_PERSON
    if added and stored_bytes(user) + added > limit:
        words = gettext(
            "There is no room for this: your files may take up %(limit)s. Delete conversations with files "
            "that you don’t need, and empty the trash."
        )
        raise ActionRefused(words % {"limit": size(limit)})


def _files_of(user: User) -> QuerySet[StoredFile]:
    made = Q(created_by__isnull=True, conversation__owner=user)
    return StoredFile.objects.filter(made | Q(created_by=user))
