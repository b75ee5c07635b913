"""Keeps the pictures from elsewhere that somebody wanted to see: one file for a run and an address."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import unquote, urlsplit
from uuid import UUID, uuid5

from django.conf import settings
from django.core.cache import cache
from django.db import IntegrityError, transaction
from django.utils import timezone

from chat.actions import files
from chat.actions.errors import ActionRefused
from chat.models import Run, StoredFile, User

# More than any answer shows; a hostile one can name more than a statement takes.
LOOKED_UP_AT_ONCE = 10_000


def id_of(run: Run, address: str) -> UUID:
    """The same for everybody and at any time, so that no table has to say which is which. Whether
    somebody may have the file is asked as of any other."""
    return uuid5(run.public_id, address)


def kept(run: Run, addresses: Iterable[str]) -> dict[str, UUID]:
    """Which of these pictures are here."""
    ids = {address: id_of(run, address) for address in addresses}
    rows = StoredFile.objects.filter(conversation=run.conversation_id)
    wanted = list(ids.values())
    present: set[UUID] = set()
    for start in range(0, len(wanted), LOOKED_UP_AT_ONCE):
        batch = rows.filter(public_id__in=wanted[start : start + LOOKED_UP_AT_ONCE])
        present.update(batch.values_list("public_id", flat=True))
    return {address: id for address, id in ids.items() if id in present}


def may_ask(user: User) -> bool:
    """Counts what a person has fetched this minute, and whether it is too much."""
    minute = int(timezone.now().timestamp()) // 60
    key = f"pictures:{user.pk}:{minute}"
    cache.add(key, 0, timeout=120)
    return cache.incr(key) <= settings.PICTURES_PER_MINUTE


def keep(run: Run, address: str, body: bytes, *, by: User) -> UUID:
    """Raises ``ActionRefused`` for what is no picture, and where the conversation was removed while
    it came. Of two who keep it at once, one does."""
    last = unquote(urlsplit(address).path).rpartition("/")[2]
    picture = files.picture_of(files.picture_name(last), body)
    id = id_of(run, address)
    try:
        with transaction.atomic():
            files.store(
                run.conversation_id,
                name=picture.name,
                media_type=picture.media_type,
                body=picture.body,
                sha256=picture.sha256,
                by=by,
                public_id=id,
            )
    except IntegrityError as error:
        if not StoredFile.objects.filter(public_id=id).exists():
            raise ActionRefused("The conversation is not there any more.") from error
    return id
