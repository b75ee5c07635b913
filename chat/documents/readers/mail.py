"""Reads e-mails: the headers that people see, the text, and the names of what is attached."""

from __future__ import annotations

import email.contentmanager
import email.parser
import email.policy
from collections.abc import Iterator
from email.message import EmailMessage
from typing import BinaryIO, cast

from chat.core.isolation.child import Refused
from chat.documents.readers import encodings, html, refusals
from chat.documents.readers.form import Order, Page

_HEADERS = ("From", "To", "Cc", "Date", "Subject")
# Every way in which a body or a header may be written, so that what reads it is loaded.
_SAMPLE = b"""From: =?utf-8?q?A?= <a@example.com>
To: =?utf-8?b?Qg==?= <b@example.com>
Date: Mon, 30 Nov 2026 20:00:00 +0000
Subject: x
Content-Type: multipart/mixed; boundary=x

--x
Content-Type: text/plain; charset=utf-8
Content-Transfer-Encoding: quoted-printable

=41
--x
Content-Type: text/html; charset=iso-8859-1
Content-Transfer-Encoding: base64

PHA+
--x
Content-Type: application/octet-stream
Content-Disposition: attachment; filename*=utf-8''x
Content-Transfer-Encoding: x-uuencode

begin 644 x
end
--x--
"""


def prime() -> None:
    html.prime()
    message = _parsed(_SAMPLE)
    _page(message)
    for part in message.walk():
        part.get_payload(decode=True)


def read(file: BinaryIO, order: Order) -> Iterator[Page]:
    message = _parsed(file.read())
    if not any(message[name] for name in ("From", "To", "Date", "Subject", "Received")):
        raise Refused(refusals.WRONG_TYPE)
    yield Page(text=_page(message))


def _parsed(body: bytes) -> EmailMessage:
    parser = email.parser.BytesParser(policy=email.policy.default)
    return parser.parsebytes(body)


def _page(message: EmailMessage) -> str:
    headers = [f"{name}: {value}" for name in _HEADERS if (value := _header(message, name))]
    names = [name for part in message.iter_attachments() if (name := _name_of(part))]
    if names:
        headers.append(f"Attachments: {', '.join(names)}")
    return "\n\n".join(filter(None, ("\n".join(headers), _body(message))))


def _header(message: EmailMessage, name: str) -> str:
    return " ".join(str(message[name] or "").split())


def _name_of(part: EmailMessage) -> str:
    return " ".join((part.get_filename() or "").split()) or part.get_content_type()


def _body(message: EmailMessage) -> str:
    """The plain text, or the text of the HTML if there is none."""
    part = cast(EmailMessage | None, message.get_body(preferencelist=("plain", "html")))
    if part is None:
        return ""
    body = part.get_payload(decode=True)
    assert isinstance(body, bytes)
    text = encodings.decode(body, declared=part.get_content_charset() or "")
    return html.whole(text) if part.get_content_type() == "text/html" else text.strip()
