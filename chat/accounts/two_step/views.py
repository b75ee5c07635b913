"""Settings, two-step verification; and the second step of signing in. allauth's views, with our pages."""

from __future__ import annotations

import json
from typing import Any

from allauth.account import views as account_views
from allauth.account.models import Login
from allauth.account.utils import get_next_redirect_url
from allauth.mfa.adapter import get_adapter
from allauth.mfa.base import views as base_views
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes import views as recovery_views
from allauth.mfa.totp import views as totp_views
from allauth.mfa.webauthn import views as webauthn_views
from allauth.mfa.webauthn.internal.flows import perform_passwordless_login
from django.contrib import messages
from django.core.serializers.json import DjangoJSONEncoder
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse_lazy
from django.utils.translation import gettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from chat import access
from chat.accounts.two_step import actions, factors
from chat.models import AuditEvent, User
from chat.web.confirmation import after_confirmation, confirmed_recently
from chat.web.decorators import login_required, post_action, refuse_with_message
from chat.web.second_factor import lacks_second_factor


@never_cache
def login(request: HttpRequest) -> HttpResponse:
    """The sign-in page. Who is signed in but for a factor that they have to add first is sent there."""
    if lacks_second_factor(request):
        return redirect("mfa_index")
    return account_views.login(request)


@login_required
@require_GET
def two_step(request: HttpRequest) -> HttpResponse:
    """The methods of the person. Who has to add one first gets a page without anything else."""
    is_missing = lacks_second_factor(request)
    template = "accounts/two_step_required.html" if is_missing else "accounts/two_step.html"
    return render(request, template, methods_of(request.user))


def methods_of(user: User) -> dict[str, Any]:
    rows = list(Authenticator.objects.filter(user=user).order_by("pk"))
    by_type: dict[str, list[Authenticator]] = {}
    for row in rows:
        by_type.setdefault(row.type, []).append(row)
    app = next(iter(by_type.get(Authenticator.Type.TOTP, [])), None)
    codes = next(iter(by_type.get(Authenticator.Type.RECOVERY_CODES, [])), None)
    return {
        "app": app,
        "passkeys": by_type.get(Authenticator.Type.WEBAUTHN, []),
        "codes": codes,
        "codes_left": len(codes.wrap().get_unused_codes()) if codes else 0,
        "is_required": access.needs_factor(user),
    }


# --- authenticator app ------------------------------------------------------------------


class AddApp(totp_views.ActivateTOTPView):  # type: ignore[misc]
    template_name = "accounts/two_step_app.html"

    def form_valid(self, form: Any) -> HttpResponse:
        user: User = self.request.user
        with transaction.atomic():
            response: HttpResponse = super().form_valid(form)
            row = Authenticator.objects.get(user=user, type=Authenticator.Type.TOTP)
            row.data["last_counter"] = form.counter
            row.save(update_fields=["data"])
            actions.record_added(self.request, user, row)
        return response

    def form_invalid(self, form: Any) -> HttpResponse:
        response: HttpResponse = super().form_invalid(form)
        response.status_code = 422
        return response


class RemoveApp(totp_views.DeactivateTOTPView):  # type: ignore[misc]
    template_name = "accounts/two_step_remove.html"
    extra_context = {"is_app": True}

    def form_valid(self, form: Any) -> HttpResponse:
        with transaction.atomic():
            _record(self.request, "second_factor.removed", self.authenticator)
            return super().form_valid(form)  # type: ignore[no-any-return]


# --- passkeys -----------------------------------------------------------------------------


class AddPasskey(webauthn_views.AddWebAuthnView):  # type: ignore[misc]
    template_name = "accounts/two_step_passkey.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        context: dict[str, Any] = super().get_context_data(**kwargs)
        # A passkey that stays on the device can sign in without a password. Older security keys cannot do that and
        # remain useful as the second step.
        options = context["js_data"]["creation_options"]["publicKey"]
        options["authenticatorSelection"] = {
            **options.get("authenticatorSelection", {}),
            "residentKey": "preferred",
            "requireResidentKey": False,
        }
        context["passkey_options"] = _as_text(context["js_data"]["creation_options"])
        return context

    def form_valid(self, form: Any) -> HttpResponse:
        user: User = self.request.user
        with transaction.atomic():
            response: HttpResponse = super().form_valid(form)
            rows = Authenticator.objects.filter(user=user, type=Authenticator.Type.WEBAUTHN)
            actions.record_added(self.request, user, rows.latest("pk"))
        return response


class RemovePasskey(webauthn_views.RemoveWebAuthnView):  # type: ignore[misc]
    template_name = "accounts/two_step_remove.html"
    success_url = reverse_lazy("mfa_index")

    def form_valid(self, form: Any) -> HttpResponse:
        authenticator = self.get_object()
        adapter = get_adapter()
        if not adapter.can_delete_authenticator(authenticator):
            messages.error(self.request, adapter.error_messages["cannot_delete_authenticator"])
            return redirect("mfa_index")
        with transaction.atomic():
            _record(self.request, "second_factor.removed", authenticator)
            return super().form_valid(form)  # type: ignore[no-any-return]


class RenamePasskey(webauthn_views.EditWebAuthnView):  # type: ignore[misc]
    template_name = "accounts/two_step_rename.html"
    success_url = reverse_lazy("mfa_index")


# --- recovery codes -------------------------------------------------------------------------


class RecoveryCodes(recovery_views.ViewRecoveryCodesView):  # type: ignore[misc]
    template_name = "accounts/two_step_codes.html"


class NewRecoveryCodes(recovery_views.GenerateRecoveryCodesView):  # type: ignore[misc]
    template_name = "accounts/two_step_codes_new.html"

    def form_valid(self, form: Any) -> HttpResponse:
        with transaction.atomic():
            response: HttpResponse = super().form_valid(form)
            user = self.request.user
            AuditEvent.objects.record(user, "second_factor.codes_made", subject=user)
        return response


class DownloadRecoveryCodes(recovery_views.DownloadRecoveryCodesView):  # type: ignore[misc]
    template_name = "accounts/two_step_codes.txt"


# --- the second step, and confirmation --------------------------------------------------------


class SecondStep(base_views.AuthenticateView):  # type: ignore[misc]
    template_name = "account/two_step.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        context: dict[str, Any] = super().get_context_data(**kwargs)
        context.update(_kinds(self.stage.login.user))
        context["passkey_options"] = _as_text(context["js_data"]["request_options"])
        return context


class PasskeySignIn(webauthn_views.LoginWebAuthnView):  # type: ignore[misc]
    def form_valid(self, form: Any) -> HttpResponse:
        authenticator = form.cleaned_data["credential"]
        factors.mark_passed(self.request, authenticator.user)
        to = get_next_redirect_url(self.request)
        sign_in = Login(user=authenticator.user, redirect_url=to)
        response: HttpResponse = perform_passwordless_login(self.request, authenticator, sign_in)
        return response


class _Continues:
    """A confirmation after which the request that asked for it goes on."""

    request: HttpRequest

    def form_valid(self, form: Any) -> HttpResponse:
        response: HttpResponse = super().form_valid(form)  # type: ignore[misc]
        return after_confirmation(self.request, response)


class ConfirmWithCode(_Continues, base_views.ReauthenticateView):  # type: ignore[misc]
    template_name = "account/confirm_code.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        context: dict[str, Any] = super().get_context_data(**kwargs)
        return context | _kinds(self.request.user)


class ConfirmWithPasskey(_Continues, webauthn_views.ReauthenticateWebAuthnView):  # type: ignore[misc]
    template_name = "account/confirm_passkey.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        context: dict[str, Any] = super().get_context_data(**kwargs)
        context["passkey_options"] = _as_text(context["js_data"]["request_options"])
        return context

    def form_invalid(self, form: Any) -> HttpResponse:
        for error in form.errors.get("credential", []):
            messages.error(self.request, error)
        return redirect(self.request.get_full_path())


def _as_text(options: object) -> str:
    return json.dumps(options, cls=DjangoJSONEncoder)


def _kinds(user: User) -> dict[str, bool]:
    kinds = set(Authenticator.objects.filter(user=user).values_list("type", flat=True))
    return {
        "has_app": Authenticator.Type.TOTP in kinds,
        "has_passkey": Authenticator.Type.WEBAUTHN in kinds,
    }


def _record(request: HttpRequest, verb: str, authenticator: Authenticator) -> None:
    user = request.user
    AuditEvent.objects.record(user, verb, subject=user, target=str(authenticator))


# --- administrators ---------------------------------------------------------------------------


@confirmed_recently()
@post_action(access.get_person, refuse_with_message("accounts"))
def person_reset_factors(request: HttpRequest, person: User) -> HttpResponse:
    actions.reset_factors(request.user, person)
    text = gettext(
        "Two-step verification is off for %(person)s. They’re signed out everywhere and sign in with their password."
    )
    messages.success(request, text % {"person": person})
    return redirect("accounts")


second_step = SecondStep.as_view()
confirm_code = login_required(ConfirmWithCode.as_view())
confirm_passkey = login_required(ConfirmWithPasskey.as_view())
passkey_sign_in = never_cache(PasskeySignIn.as_view())
add_app = login_required(AddApp.as_view())
remove_app = login_required(RemoveApp.as_view())
add_passkey = login_required(AddPasskey.as_view())
remove_passkey = login_required(RemovePasskey.as_view())
rename_passkey = login_required(RenamePasskey.as_view())
recovery_codes = login_required(RecoveryCodes.as_view())
new_recovery_codes = login_required(NewRecoveryCodes.as_view())
download_recovery_codes = login_required(DownloadRecoveryCodes.as_view())
