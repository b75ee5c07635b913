"""Settings, access tokens: what one's own programs sign in with."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods

from chat import access
from chat.accounts.actions import tokens as actions
from chat.accounts.forms import TokenForm
from chat.core.errors import ActionRefused
from chat.models import AccessToken, User
from chat.web.confirmation import confirmed_recently
from chat.web.decorators import login_required, post_action, refuse_with_message

# Ended ones are kept for the audit; of them the page shows the latest.
MOST_ENDED = 20


@dataclass(frozen=True, slots=True)
class TokenRow:
    """A token, and why it does not work, where it does not."""

    token: AccessToken
    trouble: str = ""


@confirmed_recently(methods=("POST",))
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def tokens(request: HttpRequest) -> HttpResponse:
    """The list and the form. A new token is the answer itself: it is shown once, and a redirect
    would have to store it."""
    teams = access.writable_teams(request.user)
    if request.method != "POST":
        return _page(request, TokenForm(teams=teams))
    form = TokenForm(request.POST, teams=teams)
    if not form.is_valid():
        return _page(request, form, status=422)
    said = form.cleaned_data
    try:
        token, text = actions.create_token(
            request.user, said["team"], name=said["name"], days=form.days
        )
    except ActionRefused as refusal:
        form.add_error(None, str(refusal))
        return _page(request, form, status=409)
    return render(request, "accounts/token_made.html", {"token": token, "text": text})


@post_action(access.get_token, refuse_with_message("tokens"))
def token_revoke(request: HttpRequest, token: AccessToken) -> HttpResponse:
    actions.revoke_token(request.user, token)
    text = gettext("Token “%(name)s” revoked. Programs can no longer use it.")
    messages.success(request, text % {"name": token.name})
    return redirect("tokens")


def _page(request: HttpRequest, form: TokenForm, status: int = 200) -> HttpResponse:
    open_rows, ended = _rows(request.user)
    context = {
        "form": form,
        "has_team": form.fields["team"].queryset.exists(),
        "without_team": partial(access.without_team_text, request.user),
        "rows": open_rows,
        "ended": ended,
    }
    return render(request, "accounts/tokens.html", context, status=status)


def _rows(user: User) -> tuple[list[TokenRow], list[AccessToken]]:
    """The person's tokens that are valid (usable or without access for now), and those that have ended."""
    mine = AccessToken.objects.filter(user=user).select_related("team")
    usable = set(access.usable_tokens().filter(user=user).values_list("pk", flat=True))
    rows = [
        TokenRow(token, "" if token.pk in usable else _without_access(token))
        for token in mine
        if token.is_valid
    ]
    ended = [token for token in mine if not token.is_valid]
    ended.sort(
        key=lambda token: token.revoked_at or token.expires_at or timezone.now(), reverse=True
    )
    return rows, ended[:MOST_ENDED]


def _without_access(token: AccessToken) -> str:
    text = gettext("You no longer have write access to %(team)s.")
    return text % {"team": token.team}
