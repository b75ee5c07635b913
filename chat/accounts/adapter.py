"""How allauth is used here: local accounts, no public sign-up, links that end with rights."""

from __future__ import annotations

import logging
from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.utils import user_pk_to_url_str
from allauth.core import context
from django.conf import settings
from django.contrib.auth.tokens import PasswordResetTokenGenerator
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext_lazy, ngettext

from chat import access
from chat.core import metrics
from chat.models import AuditEvent, Membership, User
from chat.sessions.actions import end_sessions
from chat.web.confirmation import is_recently_confirmed

logger = logging.getLogger(__name__)


class ResetTokenGenerator(PasswordResetTokenGenerator):
    """Tokens that become invalid when they are used, when they expire, and when the rights of the
    user change.

    A team's owner can create a link for a member. If it were still valid after the member became an
    administrator or joined another team, the owner could reach more than their own team.
    """

    def _make_hash_value(self, user: Any, timestamp: int) -> str:
        rights = [user.is_active, user.is_staff, user.is_superuser, *_memberships(user)]
        return f"{super()._make_hash_value(user, timestamp)}{rights}"


def _memberships(user: User) -> list[tuple[int, str]]:
    return list(
        Membership.objects.filter(user=user).order_by("team_id").values_list("team_id", "role")
    )


def make_reset_link(user: User) -> str:
    """The address of a page where this user sets a new password, on our configured site. Show it once, and store
    it nowhere."""
    key = {"uidb36": user_pk_to_url_str(user), "key": ResetTokenGenerator().make_token(user)}
    return f"{settings.SITE_URL}{reverse('account_reset_password_from_key', kwargs=key)}"


class AccountAdapter(DefaultAccountAdapter):
    error_messages = DefaultAccountAdapter.error_messages | {
        "email_password_mismatch": gettext_lazy("The email address or password is incorrect."),
        "enter_current_password": gettext_lazy("The current password is incorrect."),
        "incorrect_password": gettext_lazy("The password is incorrect."),
        "too_many_login_attempts": gettext_lazy(
            "Too many failed sign-in attempts. Try again later."
        ),
    }

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        """People join by an invitation link only."""
        return False

    def is_safe_url(self, url: str | None) -> bool:
        """Only pages of ours. allauth takes every host of ALLOWED_HOSTS, which names other servers as well, and
        addresses without encryption."""
        return url_has_allowed_host_and_scheme(url, allowed_hosts=None)

    def pre_login(self, request: HttpRequest, user: User, **kwargs: Any) -> HttpResponse | None:
        """Gives the session a new key before the second factor, too: somebody else may have chosen the present one."""
        if user.has_second_factor:
            request.session.cycle_key()
        response: HttpResponse | None = super().pre_login(request, user, **kwargs)
        return response

    def pre_authenticate(self, request: HttpRequest, **credentials: Any) -> None:
        try:
            super().pre_authenticate(request, **credentials)
        except ValidationError:
            self._note(request, "limited")
            raise

    def authenticate(self, request: HttpRequest, **credentials: Any) -> Any:
        user = super().authenticate(request, **credentials)
        if user is not None:
            metrics.SIGN_INS.labels("accepted").inc()
        return user

    def authentication_failed(self, request: HttpRequest, **credentials: Any) -> None:
        self._note(request, "refused")

    def _note(self, request: HttpRequest, result: str) -> None:
        """The recipient is not recorded: for that the account would have to be looked up first, and
        requests for known accounts would take longer than for unknown ones."""
        try:
            address = self.get_client_ip(request)
        except PermissionDenied:
            address = "unknown"
        metrics.SIGN_INS.labels(result).inc()
        logger.warning("sign_in.failed result=%s address=%s", result, address)

    def clean_password(self, password: str, user: User | None = None) -> str:
        """Refuses a password that would not work now: it would begin to once nobody remembers it."""
        if user is not None and user.pk is not None and not access.may_use_password(user):
            raise ValidationError(gettext_lazy("Sign in with your company account."))
        cleaned: str = super().clean_password(password, user)
        return cleaned

    def set_password(self, user: User, password: str) -> None:
        """Sets a password, with the old one or with a reset link; both are recorded."""
        super().set_password(user, password)
        AuditEvent.objects.create(
            actor=user, verb="user.password_set", subject=user, target=user.email[:200]
        )
        # Other sessions have ended with the old password, and this removes them from the list.
        end_sessions(user, keep=_session_key_of(user))

    def send_password_reset_mail(self, user: User, email: str, context: dict[str, Any]) -> None:
        """Sends nothing to people whose password would not work; the page is the same."""
        if not access.may_use_password(user):
            return
        super().send_password_reset_mail(user, email, {**context, "lasts": reset_links_last()})

    def send_mail(self, template_prefix: str, email: str, context: dict[str, Any]) -> None:
        """Sends a mail whose text has no address of a request: a Host header must not decide where a secret is sent.
        The page is the same if the mail server fails. The server's message may contain the address, so the log only
        gets the kind of error."""
        try:
            self.render_mail(template_prefix, email, context).send()
        except OSError as error:
            name = template_prefix.rpartition("/")[2]
            logger.error("mail.failed message=%s error=%s", name, type(error).__name__)

    def is_reauthentication_required(self, *, app: str, **kwargs: Any) -> bool:
        """Signing in counts as confirmation: who has just done it is not asked again. Who has
        neither a password nor a factor, because a provider signs them in, has nothing to confirm with."""
        if is_recently_confirmed(self.request):
            return False
        return bool(self.get_reauthentication_methods(self.request.user))

    def get_reauthentication_methods(self, user: Any) -> list[dict[str, Any]]:
        """With a second factor, the password alone confirms nothing."""
        methods: list[dict[str, Any]] = super().get_reauthentication_methods(user)
        if getattr(user, "has_second_factor", False):
            return [method for method in methods if method["id"] != "reauthenticate"]
        return methods

    def get_logout_redirect_url(self, request: HttpRequest) -> str:
        return reverse("account_login")

    def get_password_change_redirect_url(self, request: HttpRequest) -> str:
        return reverse("settings")


def _session_key_of(user: User) -> str | None:
    """The key of the request's session, if the user is signed in there."""
    request = context.request
    is_own = request is not None and request.user == user
    return request.session.session_key if is_own else None


def reset_links_last() -> str:
    """How long a password reset link is valid, as text."""
    minutes = round(settings.PASSWORD_RESET_TIMEOUT / 60)
    if minutes < 90:
        return ngettext("%(count)d minute", "%(count)d minutes", minutes) % {"count": minutes}
    hours = round(minutes / 60)
    if hours < 48:
        return ngettext("%(count)d hour", "%(count)d hours", hours) % {"count": hours}
    days = round(hours / 24)
    return ngettext("%(count)d day", "%(count)d days", days) % {"count": days}
