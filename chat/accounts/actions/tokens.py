"""Access tokens: credentials for programs, created and revoked by users."""

from __future__ import annotations

import hashlib
import secrets
from contextlib import suppress
from datetime import timedelta

from django.db import OperationalError, transaction
from django.utils import timezone
from django.utils.translation import gettext

from chat import access
from chat.core import notify
from chat.core.errors import ActionRefused, storage_errors
from chat.models import AccessToken, AuditEvent, Team, User

# Scanners of code and logs recognise a secret by its prefix; `project.logs` does so, too.
PREFIX = "trib_"
# Nobody guesses 256 bits, so a fast hash without salt is sufficient.
SECRET_BYTES = 32
HINT_LENGTH = 4
# Tokens of one person. A script that creates one for each of its runs is stopped here.
MOST_TOKENS = 50
# Characters of a presented token that are hashed, more than any token has.
LONGEST_PRESENTED = 256
USED_EVERY = timedelta(minutes=1)


def create_token(user: User, team: Team, *, name: str, days: int | None) -> tuple[AccessToken, str]:
    """Creates a token. Returns it with its text, which is shown once, because only its hash is
    stored. ``days`` until it expires; ``None`` is never. Raises ``ActionRefused``."""
    text = PREFIX + secrets.token_urlsafe(SECRET_BYTES)
    with storage_errors(), transaction.atomic():
        if not access.writable_teams(user).filter(pk=team.pk).exists():
            raise ActionRefused(
                gettext(
                    "You have read-only access to this team. Ask a team owner for write access."
                )
            )
        if AccessToken.objects.not_ended().filter(user=user).count() >= MOST_TOKENS:
            text = gettext(
                "You’ve reached the limit of %(count)d tokens. Revoke one you don’t need."
            )
            raise ActionRefused(text % {"count": MOST_TOKENS})
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
    """Ends a token, also in the middle of a stream. Returns whether it was valid before."""
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
    """The valid token with this text, with its user and team. It always takes one hash and one
    query, so the time of a response does not tell what was wrong."""
    found = (
        access.usable_tokens()
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
        # A full disk must not prevent reading.
        with suppress(OperationalError):
            AccessToken.objects.filter(pk=token.pk).update(last_used_at=now)
