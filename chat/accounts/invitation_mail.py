"""Invitations by mail: one message for each, over one connection to the mail server."""

from __future__ import annotations

import logging
import smtplib
from collections.abc import Sequence

from django.core import mail
from django.template.loader import render_to_string

from chat.models import Invitation, User

logger = logging.getLogger(__name__)

_MESSAGE = "account/email/invitation_message.txt"
_SUBJECT = "account/email/invitation_subject.txt"


def send(inviter: User, invitations: Sequence[tuple[Invitation, str]]) -> set[int]:
    """Sends each invitation with its link to its address. Returns the keys of those that the server took. A
    server that fails otherwise than by refusing a recipient isn't asked again: each attempt may take as long as
    its timeout, and a page waits for them."""
    sent: set[int] = set()
    connection = mail.get_connection()
    try:
        connection.open()
        for invitation, link in invitations:
            try:
                connection.send_messages([_message(inviter, invitation, link, connection)])
            except (smtplib.SMTPRecipientsRefused, smtplib.SMTPDataError, UnicodeError) as error:
                _log(error)
            else:
                sent.add(invitation.pk)
    except OSError as error:
        _log(error)
    finally:
        connection.close()
    return sent


def _message(
    inviter: User, invitation: Invitation, link: str, connection: object
) -> mail.EmailMessage:
    context = {"inviter": inviter, "invitation": invitation, "team": invitation.team, "link": link}
    subject = " ".join(render_to_string(_SUBJECT, context).split())
    body = render_to_string(_MESSAGE, context).strip() + "\n"
    return mail.EmailMessage(subject, body, to=[invitation.email], connection=connection)


def _log(error: Exception) -> None:
    """Only the kind of error: the server's message may contain the address."""
    logger.error("mail.failed message=invitation error=%s", type(error).__name__)
