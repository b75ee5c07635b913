"""Access tokens: what programs sign in with, made and revoked by people."""

from __future__ import annotations

import hashlib
import secrets
from contextlib import suppress
from datetime import timedelta

from django.db import OperationalError, transaction
from django.utils import timezone

from chat import access
from chat.core import notify
from chat.core.errors import ActionRefused, storage_errors
from chat.models import AccessToken, AuditEvent, Team, User

# Scanners of code and logs know a secret by its beginning; `project.logs` does, too.
PREFIX = "trib_"
# 256 bits: nobody guesses one, so a plain fast hash of it is enough.
SECRET_BYTES = 32
HINT_LENGTH = 4
# Nobody looks through more; whoever makes one for each run of a program has made a mistake.
MOST_TOKENS = 50
# Longer than any token: whatever a client sends, the same little is hashed.
LONGEST_PRESENTED = 256
USED_EVERY = timedelta(minutes=1)


def create_token(user: User, team: Team, *, name: str, days: int | None) -> tuple[AccessToken, str]:
    """A token and its text, which is shown once: only its hash is kept.

    ``days`` until it expires, or ``None``: never. Raises ``ActionRefused``.
    """
    text = PREFIX + secrets.token_urlsafe(SECRET_BYTES)
    with storage_errors(), transaction.atomic():
        if not access.writable_teams(user).filter(pk=team.pk).exists():
            raise ActionRefused("You may not write in this team.")
        if AccessToken.objects.not_ended().filter(user=user).count() >= MOST_TOKENS:
            raise ActionRefused(f"You have {MOST_TOKENS} tokens. Revoke one that you do not need.")
        token = AccessToken.objects.create(
            user=user,
            team=team,
            name=name,
            token_hash=hash_of(text),
            hint=text[-HINT_LENGTH:],
            expires_at=timezone.now() + timedelta(days=days) if days else None,
        )
        AuditEvent.objects.record(
            user, "token.created", subject=user, target=team.name, token=name, hint=token.hint
        )
    return token, text


def revoke_token(actor: User, token: AccessToken) -> bool:
    """Ends a token, also in the middle of a stream. Returns whether it had not been before."""
    with storage_errors(), transaction.atomic():
        revoked = AccessToken.objects.filter(pk=token.pk, revoked_at__isnull=True).update(
            revoked_at=timezone.now()
        )
        if not revoked:
            return False
        AuditEvent.objects.record(
            actor,
            "token.revoked",
            subject=token.user,
            target=token.team.name,
            token=token.name,
            hint=token.hint,
        )
        notify.publish_after_commit(notify.ROOMS)
    return True


def find_token(presented: str) -> AccessToken | None:
    """The token that this is the text of, if it counts now, with its person and team.

    One hash and one query, whatever is wrong with it: no answer is faster than another.
    """
    found = (
        AccessToken.objects.usable()
        .select_related("user", "team")
        .filter(token_hash=hash_of(presented))
        .first()
    )
    if found is not None:
        _mark_used(found)
    return found


def hash_of(text: str) -> str:
    return hashlib.sha256(text[:LONGEST_PRESENTED].encode("utf-8", "surrogatepass")).hexdigest()


def _mark_used(token: AccessToken) -> None:
    now = timezone.now()
    if token.last_used_at is None or token.last_used_at < now - USED_EVERY:
        # A full disk keeps nobody from reading.
        with suppress(OperationalError):
            AccessToken.objects.filter(pk=token.pk).update(last_used_at=now)
