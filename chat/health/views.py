"""Self-tests: whether answers reach the browser while they are written, and whether mail is sent."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import cast

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext
from django.views.decorators.http import require_GET, require_http_methods

from chat.core.errors import ActionRefused
from chat.health.mail import send_test_message
from chat.models import User
from chat.web.decorators import administrators_only, login_required

PROXIES = tomllib.loads((Path(__file__).parent / "proxies.toml").read_text())["proxies"]


def recipes(address: str) -> list[dict[str, str]]:
    """The proxies with their configuration. ``address`` is the host and port of this server as a
    proxy beside it sees them."""
    return [
        {
            **proxy,
            "where": gettext(proxy["where"]),
            "lines": proxy["lines"].replace("$ADDRESS", address),
        }
        for proxy in PROXIES
    ]


@login_required
@require_GET
def streaming(request: HttpRequest) -> HttpResponse:
    host = settings.HOST if settings.HOST not in ("0.0.0.0", "::") else "127.0.0.1"  # noqa: S104
    address = f"[{host}]:{settings.PORT}" if ":" in host else f"{host}:{settings.PORT}"
    context = {
        "recipes": recipes(address),
        "heartbeat_seconds": 15,
    }
    return render(request, "health/streaming_test.html", context)


@administrators_only
@require_http_methods(["GET", "HEAD", "POST"])
def mail(request: HttpRequest) -> HttpResponse:
    """The settings of the mail server. A ``POST`` sends a test message to the administrator."""
    if request.method != "POST":
        return render(request, "health/mail.html", _mail_context())
    person = cast(User, request.user)
    try:
        send_test_message(person)
    except ActionRefused as refusal:
        messages.error(request, str(refusal))
    else:
        text = gettext(
            "Test message sent to %(address)s. If it doesn’t arrive, check the spam folder."
        )
        messages.success(request, text % {"address": person.email})
    return redirect("mail")


def _mail_context() -> dict[str, object]:
    encryption = gettext("None")
    if settings.EMAIL_USE_SSL or settings.EMAIL_USE_TLS:
        encryption = "TLS" if settings.EMAIL_USE_SSL else "STARTTLS"
    return {
        "is_set_up": bool(settings.EMAIL_HOST),
        "server": f"{settings.EMAIL_HOST}:{settings.EMAIL_PORT}",
        "encryption": encryption,
        "user_name": settings.EMAIL_HOST_USER or gettext("None"),
        "sender": settings.DEFAULT_FROM_EMAIL,
    }
