"""Uses of second factors: each code and each state of a passkey works once, also if two requests race."""

from __future__ import annotations

import logging

from allauth.account.internal.flows.login import record_authentication
from allauth.core.internal.cryptokit import compare_user_code
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal import auth as totp
from allauth.mfa.utils import decrypt
from django.db import transaction
from django.http import HttpRequest

from chat.access import PASSED_KEY
from chat.core.encryption import DecryptionError
from chat.models import AuditEvent, User

logger = logging.getLogger(__name__)


class PasskeyCopied(Exception):
    """The counter of a passkey did not rise, so two devices have its private key."""


def mark_passed(request: HttpRequest, user: User) -> None:
    """Records in the session that this person has shown a second factor."""
    request.session[PASSED_KEY] = user.pk


def mark_added(request: HttpRequest, user: User, authenticator: Authenticator) -> None:
    """Adding a factor proves it, so this session need not ask for it."""
    record_authentication(request, user, "mfa", id=authenticator.pk, type=authenticator.type)
    mark_passed(request, user)


def matching_counter(secret: str, code: str) -> int | None:
    """The time step that the code of an authenticator app is for, if it is valid now."""
    for counter in totp.yield_hotp_counters_from_time():
        expected = totp.format_hotp_value(totp.hotp_value(secret, counter))
        if compare_user_code(actual=code, expected=expected):
            return counter
    return None


def use_code(user: User, code: str) -> Authenticator | None:
    """The factor whose code this is, which is used up by that. A code of an app is refused if it, or one of a later
    time step, was used before."""
    with transaction.atomic():
        rows = Authenticator.objects.select_for_update().filter(
            user=user, type__in=(Authenticator.Type.TOTP, Authenticator.Type.RECOVERY_CODES)
        )
        for row in rows.order_by("pk"):
            try:
                is_valid = _USES[row.type](row, code)
            except DecryptionError:
                # The key is lost; another factor may still work.
                logger.error("second_factor.unreadable kind=%s", row.type)
                continue
            if is_valid:
                row.user = user
                return row
    return None


def _use_app_code(row: Authenticator, code: str) -> bool:
    counter = matching_counter(decrypt(row.data["secret"]), code)
    if counter is None or counter <= row.data.get("last_counter", -1):
        return False
    row.data["last_counter"] = counter
    row.save(update_fields=["data"])
    return True


def _use_recovery_code(row: Authenticator, code: str) -> bool:
    is_valid: bool = row.wrap().validate_code(code)
    if is_valid:
        # allauth has changed a copy of the row.
        row.refresh_from_db()
    return is_valid


_USES = {
    Authenticator.Type.TOTP: _use_app_code,
    Authenticator.Type.RECOVERY_CODES: _use_recovery_code,
}


def use_passkey(authenticator: Authenticator, counter: int) -> None:
    """Records the counter that a passkey has sent. Raises ``PasskeyCopied`` if it did not rise (WebAuthn, 6.1.1), or if
    that has happened before. Passkeys without a counter, such as synchronized ones, always send 0."""
    with transaction.atomic():
        row = Authenticator.objects.select_for_update().get(pk=authenticator.pk)
        latest = row.data.get("sign_count", row.wrap().authenticator_data.counter)
        is_copied = row.data.get("is_copied", False)
        if not is_copied and (latest or counter) and counter <= latest:
            is_copied = row.data["is_copied"] = True
            AuditEvent.objects.record(
                row.user, "second_factor.copied", subject=row.user, target=str(row)
            )
        else:
            row.data["sign_count"] = max(latest, counter)
        row.save(update_fields=["data"])
        authenticator.data = row.data
    if is_copied:
        raise PasskeyCopied
