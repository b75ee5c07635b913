"""Leaving for a provider, coming back from it, and its request to end sessions."""

from __future__ import annotations

import logging
import zlib
from typing import cast
from uuid import uuid4

from allauth.account.adapter import get_adapter
from allauth.account.internal.flows.login import perform_login, record_authentication
from allauth.account.models import Login
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import logout
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_GET, require_POST

from chat import access
from chat.access.not_here import NOT_HERE
from chat.core import metrics
from chat.core.errors import ActionRefused
from chat.core.rate_limits import is_within_limit
from chat.identity import admission, flow, sessions
from chat.identity.admission import SignInRefused
from chat.identity.rights import rights_of
from chat.identity.tokens import TokenRefused
from chat.models import (
    AuditEvent,
    IdentityProvider,
    ProviderSignIn,
    SignInPurpose,
    Team,
    TeamRole,
    User,
)
from chat.tools.sign_in.metadata import SignInFailed
from chat.web.confirmation import confirmed_recently
from chat.web.decorators import post_action, refuse_with_message

logger = logging.getLogger(__name__)

# A whole company may come from one address in the morning.
BEGUN_PER_MINUTE = 300


@never_cache
@require_POST
def provider_sign_in(request: HttpRequest, slug: str) -> HttpResponse:
    """Begins a sign-in. A form of another site can't."""
    provider = access.get_enabled_provider(slug)
    if not is_within_limit("provider_sign_in", _address_number(request), BEGUN_PER_MINUTE):
        return _failed(request, provider, "limited")
    try:
        departure = flow.begin_sign_in(provider, next_path=request.POST.get("next", ""))
    except SignInFailed as failed:
        logger.warning("identity.provider_failed provider=%s problem=%s", provider.slug, failed)
        return _failed(request, provider, "provider")
    return leave(request, provider, departure)


def _address_number(request: HttpRequest) -> int:
    try:
        address = get_adapter().get_client_ip(request)
    except PermissionDenied:
        address = "unknown"
    return zlib.crc32(str(address).encode())


@confirmed_recently()
@post_action(lambda user, slug: access.get_enabled_provider(slug), refuse_with_message("settings"))
def provider_connect(request: HttpRequest, provider: IdentityProvider) -> HttpResponse:
    """Begins to connect the account of the signed-in person."""
    try:
        departure = flow.begin_sign_in(
            provider,
            purpose=SignInPurpose.CONNECT,
            person=request.user,
            next_path=reverse("settings"),
        )
    except SignInFailed as failed:
        raise ActionRefused(gettext(str(failed))) from None
    return leave(request, provider, departure)


def leave(
    request: HttpRequest, provider: IdentityProvider, departure: flow.Departure
) -> HttpResponse:
    """A page that goes on to the provider by itself: browsers let no form of ours lead to another site."""
    context = {"provider": provider, "address": departure.address}
    response = render(request, "identity/leave.html", context)
    response.set_cookie(
        departure.cookie,
        departure.secret,
        max_age=int(flow.VALID_FOR.total_seconds()),
        secure=settings.IS_SECURE,
        httponly=True,
        samesite="Lax",
    )
    return response


@never_cache
@require_GET
def provider_callback(request: HttpRequest, slug: str) -> HttpResponse:
    """The person comes back from the provider."""
    provider = IdentityProvider.objects.filter(slug=slug).first()
    if provider is None:
        raise Http404(NOT_HERE)
    state = request.GET.get("state", "")
    try:
        started = flow.take_sign_in(provider, state, request.COOKIES)
        response = _arrive(request, started)
    except SignInRefused as refused:
        response = _failed(request, provider, refused.reason)
    response.delete_cookie(flow.cookie_of(state), samesite="Lax")
    # The address has the code and the state.
    response["Referrer-Policy"] = "no-referrer"
    return response


def _arrive(request: HttpRequest, started: ProviderSignIn) -> HttpResponse:
    if not started.provider.is_enabled and started.purpose != SignInPurpose.TRIAL:
        raise SignInRefused("disabled")
    if started.person is not None and started.person != request.user:
        # Somebody else is signed in by now, or nobody.
        raise SignInRefused("other_person")
    answer = {name: request.GET[name] for name in ("code", "iss", "error") if name in request.GET}
    arrival = flow.finish(started, answer)
    arrive = {
        SignInPurpose.SIGN_IN: _sign_in,
        SignInPurpose.CONNECT: _connect,
        SignInPurpose.TRIAL: _show_trial,
    }[SignInPurpose(started.purpose)]
    return arrive(request, started, arrival)


def _sign_in(request: HttpRequest, started: ProviderSignIn, arrival: flow.Arrival) -> HttpResponse:
    provider, person = started.provider, arrival.person
    identity = admission.admit(provider, person, next_path=started.next_path)
    # A session of before, of whomever, ends: neither its key nor its data go on.
    before = request.user.pk
    logout(request)
    metrics.SIGN_INS.labels("accepted").inc()
    logger.info("identity.signed_in provider=%s user=%d", provider.slug, identity.user_id)
    sessions.expect_session(request, identity, sid=person.sid, began_at=started.began_at)
    record_authentication(request, identity.user, "socialaccount", provider=provider.slug)
    # A new account has used its invitation, so its page has nothing more to offer.
    is_used = started.next_path.startswith("/invite/")
    is_used = is_used and identity.user.date_joined >= started.began_at
    goes_to = reverse("home") if is_used else started.next_path
    login = Login(user=identity.user, redirect_url=goes_to or reverse("home"))
    response: HttpResponse = perform_login(request, login)
    if before not in (None, identity.user_id):
        # Drafts in the browser's storage belong to the person who was signed in.
        response["Clear-Site-Data"] = '"storage"'
    return response


def _connect(request: HttpRequest, started: ProviderSignIn, arrival: flow.Arrival) -> HttpResponse:
    person, user = arrival.person, cast(User, started.person)
    identity = admission.connect(started.provider, person, user)
    if not access.may_use_password(user):
        # The session ends with the person's session there from now on, and their other ones end now.
        sessions.expect_session(request, identity, sid=person.sid, began_at=started.began_at)
        if sessions.take_up(request, user):
            logout(request)
            return redirect("account_login")
    text = gettext("Your account is connected to %(provider)s. You sign in there from now on.")
    messages.success(request, text % {"provider": started.provider.name})
    return redirect("settings")


def _show_trial(
    request: HttpRequest, started: ProviderSignIn, arrival: flow.Arrival
) -> HttpResponse:
    """Shows what a sign-in of the administrator would mean. Nothing is changed."""
    provider = access.get_identity_provider(request.user, started.provider.public_id)
    rights = rights_of(arrival.person.groups, provider.rules.all())
    teams = Team.objects.in_bulk(list(rights.roles))
    context = {
        "provider": provider,
        "person": arrival.person,
        "rights": rights,
        "teams": [
            (teams[key], TeamRole(role).label) for key, role in rights.roles.items() if key in teams
        ],
        "is_own_address": arrival.person.email == request.user.email.lower(),
        "claim_names": sorted(arrival.claims),
    }
    return render(request, "identity/trial.html", context)


def _failed(request: HttpRequest, provider: IdentityProvider, reason: str) -> HttpResponse:
    """The same page for every reason. The log has it under the reference that the page shows."""
    reference = uuid4().hex[:12]
    metrics.SIGN_INS.labels("refused").inc()
    logger.warning(
        "identity.refused provider=%s reason=%s reference=%s", provider.slug, reason, reference
    )
    if reason in AUDITED:
        AuditEvent.objects.record(
            None, "identity.refused", target=provider.name, reason=reason, name=reference
        )
    context = {"provider": provider, "reference": reference}
    return render(request, "identity/failed.html", context, status=403)


# The reasons of people whom the provider has confirmed; others could fill the audit log without one.
AUDITED = frozenset(
    (
        *("deactivated", "address_in_use", "other_subject", "address_not_proven", "domain"),
        *("not_invited", "no_team", "other_address", "other_account", "groups_not_in_token"),
    )
)


# --- the provider ends sessions ----------------------------------------------------------------------


@csrf_exempt
@never_cache
@sensitive_post_parameters("logout_token")
@require_POST
def provider_logout(request: HttpRequest, slug: str) -> HttpResponse:
    """The provider says that a session has ended (OpenID Connect Back-Channel Logout). Its signed token is all that
    counts: there is no session and no cookie."""
    provider = access.get_enabled_provider(slug)
    try:
        claims = flow.read_logout(provider, request.POST.get("logout_token", ""))
    except TokenRefused as refused:
        return _no_logout(provider, refused.reason)
    except SignInFailed:
        # The provider may send it again.
        return JsonResponse({"error": "temporarily_unavailable"}, status=503)
    if not sessions.is_first_use(provider, str(claims["jti"]), float(cast(float, claims["exp"]))):
        return _no_logout(provider, "replayed")
    sessions.end_sessions_of(
        provider,
        sub=str(claims.get("sub", "")),
        sid=str(claims.get("sid", "")),
    )
    return HttpResponse(status=200)


def _no_logout(provider: IdentityProvider, reason: str) -> HttpResponse:
    logger.warning("identity.logout_refused provider=%s reason=%s", provider.slug, reason)
    return JsonResponse({"error": "invalid_request"}, status=400)
