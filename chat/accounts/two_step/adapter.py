"""How allauth's second factors are used here: secrets are encrypted, mail goes to the account's address."""

from __future__ import annotations

from typing import Any

from allauth.account.adapter import get_adapter as get_account_adapter
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.mfa.models import Authenticator
from django.conf import settings
from django.utils import timezone
from django.utils.translation import gettext, gettext_lazy

from chat.access import needs_factor
from chat.core import encryption
from chat.models import User

# allauth encrypts secrets before their row exists, so the row cannot be part of the context.
CONTEXT = "mfa_authenticator.data"
# Sentences by the name of allauth's message.
MAIL = {
    "totp_activated": gettext_lazy("An authenticator app was added to your Tributary account."),
    "totp_deactivated": gettext_lazy(
        "The authenticator app was removed from your Tributary account."
    ),
    "recovery_codes_generated": gettext_lazy(
        "New recovery codes were created for your Tributary account. The old ones no longer work."
    ),
    "webauthn_added": gettext_lazy("A passkey was added to your Tributary account."),
    "webauthn_removed": gettext_lazy("A passkey was removed from your Tributary account."),
    "factors_reset": gettext_lazy(
        "An administrator turned off two-step verification for your Tributary account and signed you out everywhere."
    ),
    "passkey_copied": gettext_lazy(
        "A passkey of your Tributary account seems to have been copied. It no longer works. Remove it and add a new one."
    ),
}


class TwoStepAdapter(DefaultMFAAdapter):
    error_messages = DefaultMFAAdapter.error_messages | {
        "cannot_delete_authenticator": gettext_lazy(
            "Two-step verification is required for your account. Add another method before you remove this one."
        ),
        "incorrect_code": gettext_lazy("This code is incorrect or was already used. Try again."),
    }

    def encrypt(self, text: str) -> str:
        return encryption.encrypt(text, context=CONTEXT)

    def decrypt(self, encrypted_text: str) -> str:
        return encryption.decrypt(encrypted_text, context=CONTEXT)

    def get_totp_issuer(self) -> str:
        return "Tributary"

    def _get_site_name(self) -> str:
        return "Tributary"

    def can_delete_authenticator(self, authenticator: Authenticator) -> bool:
        """The last factor stays where the policy requires one."""
        user: User = authenticator.user
        if not needs_factor(user):
            return True
        others = Authenticator.objects.filter(user=user).exclude(
            type=Authenticator.Type.RECOVERY_CODES
        )
        return others.exclude(pk=authenticator.pk).exists()

    def generate_authenticator_name(self, user: Any, type: Authenticator.Type) -> str:
        count = Authenticator.objects.filter(user_id=user.pk, type=type).count()
        if not count:
            return gettext("Passkey")
        return gettext("Passkey %(number)d") % {"number": count + 1}

    def send_notification_mail(self, template_prefix: str, user: User, **_: Any) -> None:
        send_notice(user, template_prefix.rpartition("/")[2])


def send_notice(user: User, name: str) -> None:
    """Tells the person by mail, where mail is set up."""
    if not settings.EMAIL_HOST:
        return
    context = {"user": user, "what": MAIL[name], "at": timezone.now()}
    get_account_adapter().send_mail("account/email/two_step_changed", user.email, context)
