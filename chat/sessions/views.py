"""Settings, sessions: where the person is signed in, and ending that."""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext
from django.views.decorators.http import require_GET, require_POST

from chat import access
from chat.models import UserSession
from chat.sessions import actions
from chat.sessions.devices import Device, device_of, is_same_network
from chat.web.decorators import login_required, post_action, refuse_with_message
from chat.web.session_use import address_of, note_use


@dataclass(frozen=True, slots=True)
class SessionRow:
    session: UserSession
    device: Device
    is_current: bool
    is_same_network: bool


@login_required
@require_GET
def sessions(request: HttpRequest) -> HttpResponse:
    here = address_of(request)
    key = request.session.session_key
    # The session of an older version has no row before its first use is written.
    note_use(request, request.user, key)
    rows = [
        SessionRow(
            each,
            device_of(each.user_agent),
            is_current=each.session_key == key,
            is_same_network=is_same_network(each.address, here),
        )
        for each in access.open_sessions(request.user)
    ]
    # The current one first; the others by their last use, as they are read.
    rows.sort(key=lambda row: not row.is_current)
    return render(request, "sessions/sessions.html", {"rows": rows})


@post_action(access.get_session, refuse_with_message("sessions"))
def session_end(request: HttpRequest, session: UserSession) -> HttpResponse:
    actions.end_session(request.user, session)
    device = device_of(session.user_agent).name
    messages.success(request, gettext("%(device)s is signed out.") % {"device": device})
    return redirect("sessions")


@login_required
@require_POST
def sessions_end(request: HttpRequest) -> HttpResponse:
    ended = actions.sign_out_elsewhere(request.user, keep=request.session.session_key)
    messages.success(
        request,
        gettext("Signed out everywhere else")
        if ended
        else gettext("You weren’t signed in anywhere else."),
    )
    return redirect("sessions")
