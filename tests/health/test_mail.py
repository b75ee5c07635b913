"""The test message, sent to a real mail server with STARTTLS and a password."""

from __future__ import annotations

import base64
import runpy
import socket
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trustme
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session
from django.core.cache import cache
from django.core.management import call_command
from django.test import Client
from django.urls import reverse
from lxml import html

from chat.models import User
from tests.support.browser.site import free_port
from tests.support.processes.site import ROOT

SignIn = Callable[[User], Client]
USER, PASSWORD = "bot@example.org", "wide-river-83"


@dataclass
class Mailbox:
    """What the server accepts, and what it has."""

    password: str = PASSWORD
    refused_recipient: str = ""
    refused_message: str = ""
    refused_sign_in: str = "535 5.7.8 No such user"
    envelopes: list[Envelope] = field(default_factory=list)

    def authenticate(
        self, server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: Any
    ) -> AuthResult:
        assert isinstance(data, LoginPassword)
        is_right = (data.login, data.password) == (USER.encode(), self.password.encode())
        message = None if is_right else self.refused_sign_in
        return AuthResult(success=is_right, handled=False, message=message)

    async def handle_RCPT(
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if self.refused_recipient:
            return self.refused_recipient
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        if self.refused_message:
            return self.refused_message
        self.envelopes.append(envelope)
        return "250 OK"


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def mailbox() -> Mailbox:
    return Mailbox()


@pytest.fixture
def port(mailbox: Mailbox, authority: trustme.CA) -> Iterator[int]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    controller = Controller(
        mailbox,
        hostname="127.0.0.1",
        port=free_port(),
        tls_context=context,
        require_starttls=True,
        authenticator=mailbox.authenticate,
        auth_required=True,
    )
    controller.start()
    yield controller.port
    controller.stop()


@pytest.fixture
def use_mail(
    monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path, authority: trustme.CA
) -> Any:
    """Sets what these variables of the environment would set."""
    trusted = tmp_path / "authority.pem"
    authority.cert_pem.write_to_path(trusted)
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    monkeypatch.setenv("DATA_DIR", str(tmp_path))
    monkeypatch.setenv("SITE_URL", "https://chat.example.org")

    def use(**values: object) -> None:
        for name, value in values.items():
            monkeypatch.setenv(name, str(value))
        found = runpy.run_path(str(ROOT / "project" / "settings.py"))
        for name in found:
            if name.startswith("EMAIL_") or name in ("DEFAULT_FROM_EMAIL", "SITE_URL"):
                setattr(settings, name, found[name])

    return use


@pytest.fixture
def mail(port: int, use_mail: Any) -> None:
    use_mail(
        EMAIL_HOST="localhost",
        EMAIL_PORT=port,
        EMAIL_HOST_USER=USER,
        EMAIL_HOST_PASSWORD=PASSWORD,
    )


@pytest.fixture
def client(administrator: User, signed_in: SignIn) -> Client:
    cache.clear()
    return signed_in(administrator)


def send(client: Client) -> str:
    """What the page says after *Send a test message*."""
    response = client.post(reverse("mail"), follow=True)
    assert response.redirect_chain == [(reverse("mail"), 302)]
    (notice,) = html.fromstring(response.content).xpath("//*[@id='notices']//p")
    return str(notice.text_content())


def test_message_is_sent_with_starttls_and_a_password(
    mail: None, mailbox: Mailbox, client: Client, administrator: User
) -> None:
    said = send(client)

    assert said.startswith(f"Test message sent to {administrator.email}.")
    (envelope,) = mailbox.envelopes
    assert (envelope.mail_from, envelope.rcpt_tos) == (USER, [administrator.email])
    text = bytes(envelope.content).decode()
    assert "From: Tributary <bot@example.org>" in text
    assert "https://chat.example.org" in text


def test_command_sends_a_message(mail: None, mailbox: Mailbox, db: None) -> None:
    call_command("sendtestemail", "ops@example.org")

    assert [envelope.rcpt_tos for envelope in mailbox.envelopes] == [["ops@example.org"]]


def test_client_certificate_does_not_replace_the_authorities(
    port: int,
    use_mail: Any,
    mailbox: Mailbox,
    client: Client,
    authority: trustme.CA,
    tmp_path: Path,
) -> None:
    own = tmp_path / "own.pem"
    authority.issue_cert("chat.example.org").private_key_and_cert_chain_pem.write_to_path(own)
    use_mail(
        EMAIL_HOST="localhost",
        EMAIL_PORT=port,
        EMAIL_HOST_USER=USER,
        EMAIL_HOST_PASSWORD=PASSWORD,
        EMAIL_SSL_CERTFILE=own,
    )

    send(client)

    assert len(mailbox.envelopes) == 1


BASE64 = base64.b64encode(f"\0{USER}\0{PASSWORD}".encode()).decode()
# What the server answers instead of accepting, and what is said then.
REFUSALS = [
    (
        {"password": "another"},
        "The mail server doesn’t accept the user name and password. It says: 535 5.7.8 No such user",
    ),
    (
        {"password": "another", "refused_sign_in": f"535 {PASSWORD} or {BASE64} is wrong"},
        "It says: 535 [redacted] or [redacted] is wrong",
    ),
    (
        {"refused_recipient": "550 5.1.1 Unknown \x1b[31mmailbox"},
        "doesn’t accept messages to ada@example.org. It says: 550 5.1.1 Unknown",
    ),
    (
        {"refused_message": f"554 Looks like spam: {PASSWORD}"},
        "The mail server refused the message. It says: 554 Looks like spam: [redacted]",
    ),
]


def test_refusal_is_said_in_the_words_of_the_server(
    mail: None, mailbox: Mailbox, client: Client, subtests: pytest.Subtests
) -> None:
    for answers, expected in REFUSALS:
        with subtests.test(msg=str(answers)):
            vars(mailbox).update(vars(Mailbox()) | answers)
            cache.clear()

            said = send(client)

            assert expected in said
            assert PASSWORD not in said
            assert said.isprintable()
            assert mailbox.envelopes == []


def test_certificate_that_cannot_be_verified_is_said(
    mail: None, monkeypatch: pytest.MonkeyPatch, client: Client, tmp_path: Path
) -> None:
    trustme.CA().cert_pem.write_to_path(tmp_path / "other.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "other.pem"))

    assert "The certificate of the mail server can’t be verified: " in send(client)


def test_server_without_starttls_gets_no_password(client: Client, use_mail: Any) -> None:
    plain = Controller(Mailbox(), hostname="127.0.0.1", port=free_port())
    plain.start()
    try:
        use_mail(
            EMAIL_HOST="localhost",
            EMAIL_PORT=plain.port,
            EMAIL_HOST_USER=USER,
            EMAIL_HOST_PASSWORD=PASSWORD,
        )

        assert "doesn’t support what the settings ask for: STARTTLS" in send(client)
    finally:
        plain.stop()


def test_silent_server_is_given_up(client: Client, use_mail: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        use_mail(EMAIL_HOST="localhost", EMAIL_PORT=port, EMAIL_TIMEOUT="0.2")

        said = send(client)

    assert said == f"The mail server localhost, port {port}, didn’t respond within 0.2 s."


def test_server_that_is_not_there_is_said(client: Client, use_mail: Any) -> None:
    use_mail(EMAIL_HOST="localhost", EMAIL_PORT=free_port(), EMAIL_TIMEOUT="1")

    assert "Can’t connect to localhost, port " in send(client)


def test_test_messages_are_limited(mail: None, mailbox: Mailbox, client: Client) -> None:
    said = [send(client) for _ in range(6)]

    assert said[-1] == "Too many test messages. Try again in a minute."
    assert len(mailbox.envelopes) == 5


def test_page_shows_the_settings_without_the_password(
    mail: None, port: int, client: Client
) -> None:
    page = client.get(reverse("mail")).content.decode()

    assert f"localhost:{port}" in page
    assert "STARTTLS" in page
    assert PASSWORD not in page


def test_page_without_a_mail_server_offers_no_test(client: Client, settings: Any) -> None:
    settings.EMAIL_HOST = ""

    page = client.get(reverse("mail")).content.decode()

    assert "Email isn’t set up" in page
    assert "Send a test message" not in page
    assert send(client) == "Email isn’t set up."
