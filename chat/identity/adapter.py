"""Sign-in of accounts, with what providers and the emergency account add to it."""

from __future__ import annotations

import logging

from allauth.core.exceptions import ImmediateHttpResponse
from django.contrib import messages
from django.http import HttpRequest
from django.shortcuts import redirect
from django.utils.translation import gettext

from chat import access
from chat.accounts.adapter import AccountAdapter as LocalAccountAdapter
from chat.identity import sessions
from chat.models import AuditEvent, User

logger = logging.getLogger(__name__)


class AccountAdapter(LocalAccountAdapter):
    def login(self, request: HttpRequest, user: User) -> None:
        """The last step of every sign-in, after a second factor if there is one. A passkey is no way in for people whose
        password would not be one either."""
        is_by_provider = sessions.is_expected(request)
        if not is_by_provider and not access.may_use_password(user):
            logger.warning("sign_in.refused user=%d reason=provider", user.pk)
            messages.error(request, gettext("Sign in with your company account."))
            raise ImmediateHttpResponse(redirect("account_login"))
        super().login(request, user)
        if sessions.take_up(request, user):
            # The person has signed out at the provider in the meantime.
            self.logout(request)
            raise ImmediateHttpResponse(redirect("account_login"))
        if not is_by_provider:
            self._record_emergency(user)

    def _record_emergency(self, user: User) -> None:
        """Passkeys are recorded as well: they open the same account."""
        if access.password_setting().emergency_account_id == user.pk:
            logger.warning("sign_in.emergency user=%d", user.pk)
            AuditEvent.objects.record(
                user, "user.emergency_sign_in", subject=user, target=user.email
            )
