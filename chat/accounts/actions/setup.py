"""The first start: a one-time link that creates the first administrator, and the demo servers."""

from __future__ import annotations

import base64
import hmac

from django.conf import settings
from django.contrib.contenttypes.models import ContentType
from django.db import transaction
from django.urls import reverse
from django.utils.crypto import salted_hmac
from django.utils.translation import gettext

from chat.core.errors import ActionRefused
from chat.models import AuditEvent, Membership, Team, TeamRole, User
from chat.servers.actions.demo import ensure_demo_upstream
from chat.tools.demo import add_demo_tools

# --- the link ------------------------------------------------------------------------


def needs_setup() -> bool:
    return not User.objects.exists()


def setup_link() -> str | None:
    """The one-time address of the set-up page, or ``None`` once there is an account to sign in
    with."""
    if not needs_setup():
        return None
    return f"{settings.SITE_URL}{reverse('setup', kwargs={'token': _token()})}"


def is_setup_token(token: str) -> bool:
    """Returns whether set-up is open and this is its token. The comparison takes constant time."""
    same = hmac.compare_digest(_token().encode(), token.encode("utf-8", "surrogatepass"))
    return same and needs_setup()


def _token() -> str:
    """Derived from the secret key that all processes share, and stored nowhere: one process prints
    the link, and any other one may serve the page."""
    digest = salted_hmac("chat.actions.setup", "first administrator", algorithm="sha256").digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


# --- the first administrator -----------------------------------------------------------


def set_up(*, name: str, email: str, password: str, team_name: str) -> User:
    """Creates the first administrator, who owns the first team. Only one of several simultaneous
    requests succeeds. Raises ``ActionRefused`` for the others."""
    user = User(name=name, email=email.lower(), is_staff=True, is_superuser=True)
    # Hashing takes a while, so it happens outside of the transaction, which blocks other writers.
    user.set_password(password)
    with transaction.atomic():
        _one_at_a_time()
        if not needs_setup():
            raise ActionRefused(gettext("Tributary is already set up. Sign in instead."))
        user.save()
        team = Team.objects.create(name=team_name)
        Membership.objects.create(team=team, user=user, role=TeamRole.OWNER)
        AuditEvent.objects.record(user, "installation.set_up", subject=user, target=team.name)
        ensure_demo_upstream()
        add_demo_tools(team)
    return user


def _one_at_a_time() -> None:
    """SQLite has one writer at a time anyway; elsewhere a row that always exists is locked."""
    ContentType.objects.select_for_update().order_by("pk").first()
