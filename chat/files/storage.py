"""The bytes of files that a person has stored, and their limit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from django.conf import settings
from django.db.models import Q, QuerySet, Sum
from django.utils.translation import gettext

from chat.core.errors import ActionRefused
from chat.models import FileContent, NewContent, SkillContent, StoredFile, User
from chat.rendering.figures import size


def stored_bytes(user: User) -> int:
    """Counts the files that the person has attached or shared, those that answers made in their conversations, also in
    the trash, and those of their own skills. Bytes that several of these files have count once."""
    return _contents_of(user).aggregate(total=Sum("size_bytes"))["total"] or 0


def check_storage(user: User, contents: Sequence[NewContent]) -> None:
    """Raises ``ActionRefused`` if the person has no room for these contents. Bytes that they already have cost nothing; bytes of others do, so that nobody learns
    what others have. Requests at the same moment may together exceed the limit. Files of answers
    count, but are never refused."""
    check_room(user, {each.sha256: len(each.body) for each in contents})


def check_room(user: User, sizes: Mapping[str, int]) -> None:
    """The same for contents by their digest and size. Raises ``ActionRefused``."""
    known = set(_contents_of(user).filter(pk__in=list(sizes)).values_list("pk", flat=True))
    added = sum(each for digest, each in sizes.items() if digest not in known)
    limit = settings.STORED_BYTES_PER_PERSON
    if added and stored_bytes(user) + added > limit:
        words = gettext(
            "There is no room for this: your files may take up %(limit)s. Delete skills, and conversations with "
            "files, that you don’t need, and empty the trash."
        )
        raise ActionRefused(words % {"limit": size(limit)})


def _contents_of(user: User) -> QuerySet[FileContent]:
    made = Q(created_by__isnull=True, conversation__owner=user)
    files = StoredFile.objects.filter(made | Q(created_by=user))
    of_skills = SkillContent.objects.filter(skill__owner=user)
    return FileContent.objects.filter(
        Q(pk__in=files.values("content")) | Q(pk__in=of_skills.values("content"))
    )
