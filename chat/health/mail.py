"""The test message: it shows whether the mail server accepts messages, or what it says instead."""

from __future__ import annotations

import smtplib
import socket
import ssl

from django.conf import settings
from django.core.mail import EmailMessage, get_connection
from django.utils.functional import Promise
from django.utils.text import Truncator
from django.utils.translation import gettext, gettext_lazy

from chat.core.errors import ActionRefused
from chat.core.rate_limits import is_within_limit
from chat.core.text import one_line, without_hidden
from chat.models import User
from chat.upstreams.redaction import Redactor

MESSAGES_PER_MINUTE = 5
# A reply may have any number of lines.
WORDS_LIMIT = 400

# The first that fits, so a class is named before those that it inherits from.
_REASONS: dict[type[Exception], Promise] = {
    smtplib.SMTPAuthenticationError: gettext_lazy(
        "The mail server doesn’t accept the user name and password. It says: %(words)s"
    ),
    smtplib.SMTPSenderRefused: gettext_lazy(
        "The mail server doesn’t accept messages from %(sender)s. It says: %(words)s"
    ),
    smtplib.SMTPRecipientsRefused: gettext_lazy(
        "The mail server doesn’t accept messages to %(recipient)s. It says: %(words)s"
    ),
    smtplib.SMTPNotSupportedError: gettext_lazy(
        "The mail server doesn’t support what the settings ask for: %(words)s"
    ),
    smtplib.SMTPServerDisconnected: gettext_lazy(
        "The mail server closed the connection: %(words)s"
    ),
    smtplib.SMTPException: gettext_lazy("The mail server refused the message. It says: %(words)s"),
    ssl.SSLCertVerificationError: gettext_lazy(
        "The certificate of the mail server can’t be verified: %(words)s"
    ),
    ssl.SSLError: gettext_lazy(
        "The TLS connection to %(host)s, port %(port)s, failed. Port 465 usually needs "
        "EMAIL_USE_SSL, port 587 EMAIL_USE_TLS. %(words)s"
    ),
    TimeoutError: gettext_lazy(
        "The mail server %(host)s, port %(port)s, didn’t respond within %(seconds)s s."
    ),
    socket.gaierror: gettext_lazy("The host name %(host)s can’t be resolved: %(words)s"),
    OSError: gettext_lazy("Can’t connect to %(host)s, port %(port)s: %(words)s"),
}


def send_test_message(person: User) -> None:
    """Sends a message to this person. Raises ``ActionRefused`` with the mail server's words, but
    without the password, which it may quote."""
    if not settings.EMAIL_HOST:
        raise ActionRefused(gettext("Email isn’t set up."))
    if not is_within_limit("test-mail", person.pk, MESSAGES_PER_MINUTE):
        raise ActionRefused(gettext("Too many test messages. Try again in a minute."))
    body = gettext("%(name)s sent this message from %(site)s to test its email settings.")
    try:
        with get_connection() as connection:
            EmailMessage(
                subject=gettext("Test message from Tributary"),
                body=body % {"name": person, "site": settings.SITE_URL},
                to=[person.email],
                connection=connection,
            ).send()
    except OSError as error:
        raise ActionRefused(_reason(error, person)) from None


def _reason(error: OSError, person: User) -> str:
    # smtplib reports a reply that doesn't come in time as a closed connection.
    found = error.__context__ if isinstance(error.__context__, TimeoutError) else error
    text = next(text for kind, text in _REASONS.items() if isinstance(found, kind))
    return str(text) % {
        "words": _words(found),
        "sender": settings.DEFAULT_FROM_EMAIL,
        "recipient": person.email,
        "host": settings.EMAIL_HOST,
        "port": settings.EMAIL_PORT,
        "seconds": f"{settings.EMAIL_TIMEOUT:g}",
    }


def _words(error: OSError) -> str:
    """The server's reply in one line; without one, the system's error about the connection."""
    code: int | str = ""
    reply: bytes | str
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        ((code, reply),) = error.recipients.values()
    elif isinstance(error, smtplib.SMTPResponseException):
        code, reply = error.smtp_code, error.smtp_error
    else:
        reply = getattr(error, "verify_message", "") or error.strerror or str(error)
    if isinstance(reply, bytes):
        reply = reply.decode("utf-8", "replace")
    words = without_hidden(one_line(f"{code} {Redactor(settings.EMAIL_SECRETS).text(reply)}"))
    return Truncator(words).chars(WORDS_LIMIT)
