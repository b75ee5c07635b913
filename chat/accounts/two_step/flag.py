"""The flag of people with a second factor, which follows allauth's records of factors."""

from __future__ import annotations

from typing import Any

from allauth.mfa.models import Authenticator

from chat.models import User


def note_factors(sender: object, instance: Authenticator, **_: Any) -> None:
    """Keeps ``User.has_second_factor`` as the factors are: called when one is saved or deleted, in its transaction.

    Recovery codes alone are none: they replace a factor that was lost.
    """
    has_factor = (
        Authenticator.objects.filter(user_id=instance.user_id)
        .exclude(type=Authenticator.Type.RECOVERY_CODES)
        .exists()
    )
    User.objects.filter(pk=instance.user_id).exclude(has_second_factor=has_factor).update(
        has_second_factor=has_factor
    )
