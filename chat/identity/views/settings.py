"""Settings → Company sign-in: providers, their test, rules for groups, and passwords. Administrators only."""

from __future__ import annotations

from typing import cast

from django.conf import settings
from django.contrib import messages
from django.db.models import Count
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from chat import access
from chat.core.errors import ActionRefused
from chat.identity import flow, providers, trial
from chat.identity.forms import PasswordsForm, ProviderForm, RuleForm
from chat.identity.views.sign_in import leave
from chat.models import (
    GroupRule,
    Identity,
    IdentityProvider,
    SignInPurpose,
    User,
)
from chat.tools.sign_in.metadata import SignInFailed
from chat.web.confirmation import confirmed_recently
from chat.web.decorators import (
    administrators_only,
    login_required,
    post_action,
    refuse_with_message,
)
from chat.web.responses import form_page

# People that the page of a provider lists; administrators find others among the accounts.
MOST_LISTED = 100


@administrators_only
@require_safe
def identity_providers(request: HttpRequest) -> HttpResponse:
    return _list_page(request, _passwords_form())


def _list_page(request: HttpRequest, form: PasswordsForm) -> HttpResponse:
    rows = IdentityProvider.objects.annotate(people=Count("identities"))
    setting = access.password_setting()
    without = User.objects.filter(is_active=True, identities=None).count()
    context = {
        "providers": rows,
        "passwords": form,
        "passwords_are_on": setting.is_on,
        "people_without": without,
    }
    status = 422 if form.is_bound else 200
    return render(request, "identity/providers.html", context, status=status)


def _passwords_form(data: object = None) -> PasswordsForm:
    setting = access.password_setting()
    account = setting.emergency_account
    return PasswordsForm(
        data,
        administrators=User.objects.filter(is_active=True, is_staff=True).order_by("name"),
        initial={"is_on": setting.is_on, "emergency_account": account and account.public_id},
    )


@confirmed_recently()
@administrators_only
@require_POST
def passwords(request: HttpRequest) -> HttpResponse:
    form = _passwords_form(request.POST)
    if form.is_valid():
        try:
            providers.set_passwords(
                cast(User, request.user),
                **form.cleaned_data,
                keep=request.session.session_key or "",
            )
        except ActionRefused as refusal:
            form.add_error(None, str(refusal))
        else:
            messages.success(request, gettext("Saved"))
            return redirect("identity_providers")
    return _list_page(request, form)


# --- one provider -----------------------------------------------------------------------------------


@sensitive_post_parameters("client_secret")
@confirmed_recently()
@administrators_only
@require_http_methods(["GET", "HEAD", "POST"])
@sensitive_variables("form")
def identity_provider_add(request: HttpRequest) -> HttpResponse:
    user = cast(User, request.user)
    form = ProviderForm(request.POST or None, teams=access.managed_teams(user))
    if form.is_valid():
        try:
            provider = providers.add_provider(user, form.connection, form.policy)
        except ActionRefused as refusal:
            form.add_error(None, str(refusal))
        else:
            return redirect("identity_provider", provider.public_id)
    return form_page(request, "identity/provider_form.html", form)


@sensitive_post_parameters("client_secret")
@confirmed_recently()
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
@sensitive_variables("form")
def identity_provider_settings(request: HttpRequest, public_id: object) -> HttpResponse:
    user = cast(User, request.user)
    provider = access.get_identity_provider(user, public_id)  # type: ignore[arg-type]
    form = ProviderForm(request.POST or None, teams=access.managed_teams(user), provider=provider)
    if form.is_valid():
        connection = None if provider.is_from_environment else form.connection
        try:
            providers.change_provider(user, provider, connection, form.policy)
        except ActionRefused as refusal:
            form.add_error(None, str(refusal))
        else:
            messages.success(request, gettext("Saved"))
            return redirect("identity_provider", provider.public_id)
    return form_page(request, "identity/provider_form.html", form, provider=provider)


@login_required
@require_safe
def identity_provider(request: HttpRequest, public_id: object) -> HttpResponse:
    provider = access.get_identity_provider(request.user, public_id)  # type: ignore[arg-type]
    return _provider_page(request, provider)


def _provider_page(
    request: HttpRequest,
    provider: IdentityProvider,
    *,
    rule_form: RuleForm | None = None,
    steps: object = None,
) -> HttpResponse:
    rows = provider.identities.select_related("user").order_by("-last_sign_in")
    logout = settings.SITE_URL + reverse("provider_logout", args=[provider.slug])
    context = {
        "provider": provider,
        "redirect_uri": flow.redirect_uri(provider),
        "logout_uri": logout,
        "rules": provider.rules.select_related("team", "group"),
        "rule_form": rule_form or RuleForm(teams=access.managed_teams(request.user)),
        "steps": steps,
        "identities": rows[:MOST_LISTED],
        "people": rows.count(),
        "session_hours": settings.PROVIDER_SESSION_HOURS,
    }
    status = 422 if rule_form is not None else 200
    return render(request, "identity/provider.html", context, status=status)


def _back(request: HttpRequest, provider: IdentityProvider, refusal: ActionRefused) -> HttpResponse:
    messages.error(request, str(refusal))
    return redirect("identity_provider", provider.public_id)


@post_action(access.get_identity_provider, _back)
def identity_provider_test(request: HttpRequest, provider: IdentityProvider) -> HttpResponse:
    return _provider_page(request, provider, steps=trial.walk(provider))


@post_action(access.get_identity_provider, _back)
def identity_provider_trial(request: HttpRequest, provider: IdentityProvider) -> HttpResponse:
    """A sign-in that only shows what it would mean."""
    try:
        departure = flow.begin_sign_in(provider, purpose=SignInPurpose.TRIAL, person=request.user)
    except SignInFailed as failed:
        raise ActionRefused(gettext(str(failed))) from None
    return leave(request, provider, departure)


@confirmed_recently()
@post_action(access.get_identity_provider, _back)
def identity_provider_switch(request: HttpRequest, provider: IdentityProvider) -> HttpResponse:
    is_on = request.POST.get("on") == "1"
    key = request.session.session_key or ""
    providers.switch_provider(request.user, provider, is_on=is_on, keep=key)
    text = gettext("%(provider)s is on.") if is_on else gettext("%(provider)s is off.")
    messages.success(request, text % {"provider": provider.name})
    return redirect("identity_provider", provider.public_id)


@confirmed_recently()
@post_action(access.get_identity_provider, _back)
def identity_provider_delete(request: HttpRequest, provider: IdentityProvider) -> HttpResponse:
    providers.delete_provider(request.user, provider)
    messages.success(request, gettext("%(provider)s was deleted.") % {"provider": provider.name})
    return redirect("identity_providers")


# --- rules and connections -------------------------------------------------------------------------------


@confirmed_recently()
@post_action(access.get_identity_provider, _back)
def group_rule_add(request: HttpRequest, provider: IdentityProvider) -> HttpResponse:
    form = RuleForm(request.POST, teams=access.managed_teams(request.user))
    if form.is_valid():
        try:
            providers.add_rule(request.user, provider, **form.cleaned_data)
        except ActionRefused as refusal:
            form.add_error(None, str(refusal))
        else:
            return redirect(f"{reverse('identity_provider', args=[provider.public_id])}#groups")
    return _provider_page(request, provider, rule_form=form)


@confirmed_recently()
@post_action(access.get_group_rule, refuse_with_message("identity_providers"))
def group_rule_remove(request: HttpRequest, rule: GroupRule) -> HttpResponse:
    providers.remove_rule(request.user, rule)
    return redirect(f"{reverse('identity_provider', args=[rule.provider.public_id])}#groups")


@confirmed_recently()
@post_action(access.get_identity, refuse_with_message("identity_providers"))
def identity_disconnect(request: HttpRequest, identity: Identity) -> HttpResponse:
    providers.disconnect(request.user, identity)
    text = gettext("%(person)s is no longer connected to %(provider)s.")
    messages.success(request, text % {"person": identity.user, "provider": identity.provider})
    return redirect("identity_provider", identity.provider.public_id)
