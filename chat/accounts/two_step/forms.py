"""Forms of second factors: allauth's, with codes and passkeys that work once."""

from __future__ import annotations

from typing import Any

from allauth.core import context
from allauth.mfa.adapter import get_adapter
from allauth.mfa.base.forms import AuthenticateForm, ReauthenticateForm
from allauth.mfa.base.internal.flows import check_rate_limit
from allauth.mfa.internal.flows.add import validate_can_add_authenticator
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.forms import ActivateTOTPForm
from allauth.mfa.webauthn.forms import (
    AddWebAuthnForm,
    AuthenticateWebAuthnForm,
    EditWebAuthnForm,
    LoginWebAuthnForm,
    ReauthenticateWebAuthnForm,
)
from django import forms
from django.utils.translation import gettext, gettext_lazy
from fido2.webauthn import AuthenticationResponse

from chat.accounts.two_step import factors
from chat.accounts.two_step.adapter import send_notice

# More than anyone types for a code, and than a passkey's name needs.
CODE_LENGTH = 64
NAME_LENGTH = 60
# Far more than an answer of an authenticator has; a certificate chain is the largest part of it.
CREDENTIAL_LENGTH = 64 * 1024


class _UsesCode:
    """The code works once, and the session is marked."""

    user: Any
    cleaned_data: dict[str, Any]
    authenticator: Authenticator

    def clean_code(self) -> str:
        clear_limit = check_rate_limit(self.user)
        code: str = self.cleaned_data["code"]
        found = None
        if len(code) <= CODE_LENGTH:
            found = factors.use_code(self.user, code)
        if found is None:
            raise get_adapter().validation_error("incorrect_code")
        self.authenticator = found
        clear_limit()
        return code

    def save(self) -> None:
        super().save()  # type: ignore[misc]
        factors.mark_passed(context.request, self.user)


class CodeForm(_UsesCode, AuthenticateForm):  # type: ignore[misc]
    """The second step of signing in."""


class ConfirmCodeForm(_UsesCode, ReauthenticateForm):  # type: ignore[misc]
    """The confirmation before something sensitive."""


class AddAppForm(ActivateTOTPForm):  # type: ignore[misc]
    """Adds an authenticator app. ``counter`` is the time step of the code that proves it."""

    counter: int

    def clean_code(self) -> str:
        validate_can_add_authenticator(self.user)
        clear_limit = check_rate_limit(self.user, error_key="rate_limited")
        code: str = self.cleaned_data["code"]
        counter = factors.matching_counter(self.secret, code) if len(code) <= CODE_LENGTH else None
        if counter is None:
            raise get_adapter().validation_error("incorrect_code")
        self.counter = counter
        clear_limit()
        return code


class _UsesPasskey:
    """A copied passkey is refused, and the session is marked."""

    cleaned_data: dict[str, Any]

    def clean_credential(self) -> Authenticator:
        credential = self.cleaned_data["credential"]
        authenticator: Authenticator = super().clean_credential()  # type: ignore[misc]
        counter = AuthenticationResponse.from_dict(credential).response.authenticator_data.counter
        try:
            factors.use_passkey(authenticator, counter)
        except factors.PasskeyCopied:
            send_notice(authenticator.user, "passkey_copied")
            raise forms.ValidationError(
                gettext(
                    "This passkey seems to have been copied, so it no longer works. Sign in another way, then remove it."
                )
            ) from None
        return authenticator

    def save(self) -> None:
        super().save()  # type: ignore[misc]
        factors.mark_passed(context.request, self.cleaned_data["credential"].user)


class PasskeyForm(_UsesPasskey, AuthenticateWebAuthnForm):  # type: ignore[misc]
    """The second step of signing in."""


class PasskeySignInForm(_UsesPasskey, LoginWebAuthnForm):  # type: ignore[misc]
    """Signs in without a password. The view records it, without ``save``."""


class ConfirmPasskeyForm(_UsesPasskey, ReauthenticateWebAuthnForm):  # type: ignore[misc]
    """The confirmation before something sensitive. The view records it, without ``save``."""


class AddPasskeyForm(AddWebAuthnForm):  # type: ignore[misc]
    """Adds a passkey under a name. Every passkey may sign in without a password, if it can verify the person."""

    name = forms.CharField(label=gettext_lazy("Name"), max_length=NAME_LENGTH, required=False)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields.pop("passwordless", None)


class RenamePasskeyForm(EditWebAuthnForm):  # type: ignore[misc]
    name = forms.CharField(label=gettext_lazy("Name"), max_length=NAME_LENGTH)
