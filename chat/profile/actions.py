"""Sets and removes a person's picture."""

from __future__ import annotations

import io
from contextlib import closing

from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.utils.translation import gettext

from chat.core.errors import ActionRefused
from chat.core.isolation.child import Refused
from chat.core.isolation.parent import ChildKilled, Limits, read_in_child
from chat.core.pictures import read_picture
from chat.core.rate_limits import is_within_limit
from chat.models import AuditEvent, FileContent, NewContent, ProfilePicture, User

READER = "chat.profile.picture_reader:encode_square"
# A photo of a phone has 12 to 50 megapixels and up to 15 MB.
UPLOAD_BYTES = 15 * 1024 * 1024
UPLOAD_PIXELS = 50_000_000
SIDE = 192
# The most that the child may return; a photo takes about 8 kB.
PICTURE_BYTES = 100_000
# Four bytes for a pixel, twice, and the interpreter. A child takes a second of a processor.
LIMITS = Limits(
    memory_bytes=768 * 1024 * 1024,
    cpu_seconds=10,
    wait_seconds=30,
    frame_bytes=PICTURE_BYTES,
    output_bytes=PICTURE_BYTES,
)
PER_MINUTE = 10
# No two pictures of a person have the same beginning of this length.
_VERSION_LENGTH = 12


def set_picture(user: User, upload: bytes) -> None:
    """Raises ``ActionRefused`` and ``FilesUnavailable``."""
    if not is_within_limit("picture", user.pk, PER_MINUTE):
        raise ActionRefused(gettext("You’ve uploaded many pictures. Wait a minute."))
    new = NewContent(body=_encoded(upload))
    with FileContent.objects.writing([new]) as [content], transaction.atomic():
        FileContent.objects.keep(content)
        ProfilePicture.objects.update_or_create(user=user, defaults={"content_id": content.sha256})
        User.objects.filter(pk=user.pk).update(picture_version=content.sha256[:_VERSION_LENGTH])
        # Everybody sees pictures, so one that imitates another person must be traceable.
        AuditEvent.objects.record(user, "user.picture_set", subject=user, target=user.email)


def remove_picture(actor: User, user: User) -> None:
    """The bytes are deleted by the periodic task, as those of files. Administrators may remove pictures of
    others."""
    if actor.pk != user.pk and not actor.is_staff:
        raise PermissionDenied
    with transaction.atomic():
        if ProfilePicture.objects.filter(user=user).delete()[0]:
            AuditEvent.objects.record(
                actor, "user.picture_removed", subject=user, target=user.email
            )
        User.objects.filter(pk=user.pk).update(picture_version="")


def _encoded(upload: bytes) -> bytes:
    """A small square WebP of the upload. Raises ``ActionRefused``."""
    facts = read_picture(upload)
    if facts is None:
        raise ActionRefused(gettext("Choose a PNG, JPEG, WebP or GIF picture."))
    if not facts.has_at_most(UPLOAD_PIXELS):
        raise ActionRefused(gettext("This picture has too many pixels. Choose a smaller one."))
    try:
        with closing(read_in_child(READER, io.BytesIO(upload), b"", limits=LIMITS)) as frames:
            body = next(frames, b"")
            for _ in frames:
                pass
    except (Refused, ChildKilled):
        raise ActionRefused(gettext("This picture can’t be read. Choose another one.")) from None
    # The process that made it has read the upload, so its output is not trusted either.
    made = read_picture(body)
    if made is None or (made.media_type, made.width, made.height) != ("image/webp", SIDE, SIDE):
        raise ActionRefused(gettext("This picture can’t be read. Choose another one."))
    return body
