"""How allauth is used here: local accounts, no public sign-up, links that end with rights."""

from __future__ import annotations

import logging
from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.utils import user_pk_to_url_str
from django.conf import settings
from django.contrib.auth.tokens import PasswordResetTokenGenerator
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext_lazy, ngettext

from chat.core import metrics
from chat.models import AuditEvent, Membership, User

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
    """The address of a page where this user sets a new password. Show it once, and store it
    nowhere."""
    return reset_link(f"{user_pk_to_url_str(user)}-{ResetTokenGenerator().make_token(user)}")


def reset_link(key: str) -> str:
    uid, token = key.split("-", 1)
    path = reverse("account_reset_password_from_key", kwargs={"uidb36": uid, "key": token})
    return f"{settings.SITE_URL}{path}"


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

    def set_password(self, user: User, password: str) -> None:
        """Sets a password, with the old one or with a reset link; both are recorded."""
        super().set_password(user, password)
        AuditEvent.objects.create(
            actor=user, verb="user.password_set", subject=user, target=user.email[:200]
        )

    def get_reset_password_from_key_url(self, key: str) -> str:
        """Built from our configured address: a Host header must not decide where a secret is
        sent."""
        return reset_link(key)

    def send_password_reset_mail(self, user: User, email: str, context: dict[str, Any]) -> None:
        super().send_password_reset_mail(user, email, {**context, "lasts": reset_links_last()})

    def send_mail(self, template_prefix: str, email: str, context: dict[str, Any]) -> None:
        """The page is the same if the mail server fails: an error would tell which addresses have
        accounts. The server's message may contain the address, so the log only gets the kind of
        error."""
        try:
            super().send_mail(template_prefix, email, context)
        except OSError as error:
            name = template_prefix.rpartition("/")[2]
            logger.error("mail.failed message=%s error=%s", name, type(error).__name__)

    def get_logout_redirect_url(self, request: HttpRequest) -> str:
        return reverse("account_login")

    def get_password_change_redirect_url(self, request: HttpRequest) -> str:
        return reverse("settings")


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
