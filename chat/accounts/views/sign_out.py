"""The page on which an administrator signs a person out everywhere: their sessions, and their tokens apart."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext, ngettext
from django.views.decorators.http import require_http_methods

from chat import access
from chat.accounts.actions import sign_out as actions
from chat.accounts.forms import SignOutForm
from chat.models import User
from chat.sessions.devices import device_of
from chat.web.confirmation import confirmed_recently
from chat.web.decorators import login_required


@confirmed_recently(methods=("POST",))
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def person_sign_out(request: HttpRequest, person_id: UUID) -> HttpResponse:
    person = access.get_person(request.user, person_id)
    actions.check_may_sign_out(request.user, person)
    if request.method == "POST":
        form = SignOutForm(request.POST)
        form.is_valid()
        _, revoked = actions.sign_out(
            request.user, person, with_tokens=form.cleaned_data["with_tokens"]
        )
        messages.success(request, _told(person, revoked))
        return redirect("accounts")
    sessions = list(access.open_sessions(person))
    context = {
        "person": person,
        "sessions": [(each, device_of(each.user_agent)) for each in sessions],
        "tokens": actions.open_tokens(person),
        "form": SignOutForm(),
    }
    return render(request, "accounts/sign_out.html", context)


def _told(person: User, revoked: int) -> str:
    text = gettext("%(person)s is signed out everywhere.") % {"person": person}
    if not revoked:
        return text
    tokens = ngettext(
        "%(count)d access token was revoked.", "%(count)d access tokens were revoked.", revoked
    )
    return f"{text} {tokens % {'count': revoked}}"
