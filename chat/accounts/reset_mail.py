"""Password reset links by mail, sent beside the request: it does the same work and takes the same time for an
address with an account and for one without."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import ThreadPoolExecutor

from allauth.account.forms import ResetPasswordForm as AllauthForm
from django.db import DatabaseError, connections
from django.http import HttpRequest

from chat.accounts.adapter import AccountAdapter, make_reset_link
from chat.models import User

logger = logging.getLogger(__name__)

# Addresses that wait for a slow mail server. More are dropped: people ask again, and the limits on requests for
# reset links are lower.
MOST_WAITING = 100

_room = threading.BoundedSemaphore(MOST_WAITING)
_worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="reset-mail")


class ResetPasswordForm(AllauthForm):
    """allauth's form, without its lookup of the account."""

    def clean_email(self) -> str:
        email: str = self.cleaned_data["email"]
        return email.lower()

    def save(self, request: HttpRequest, **kwargs: object) -> str:
        email: str = self.cleaned_data["email"]
        send_beside(email)
        return email


def send_beside(email: str) -> None:
    """Sends a link to the address in another thread, if it has an account."""
    if not _room.acquire(blocking=False):
        logger.error("mail.dropped message=password_reset_key")
        return
    _worker.submit(_send_in_thread, email)


def _send_in_thread(email: str) -> None:
    try:
        send(email)
    except DatabaseError as error:
        logger.error("mail.failed message=password_reset_key error=%s", type(error).__name__)
    finally:
        connections.close_all()
        _room.release()


def send(email: str) -> None:
    """Sends a link to the person with this address; nothing to a deactivated one."""
    user = User.objects.filter(email=email, is_active=True).first()
    if user is not None:
        context = {"user": user, "password_reset_url": make_reset_link(user)}
        AccountAdapter().send_password_reset_mail(user, user.email, context)
