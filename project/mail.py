"""Mail: contradictions between its settings, the sender, and a backend that accepts client certificates."""

from __future__ import annotations

import base64
import ssl

from django.core.exceptions import ImproperlyConfigured
from django.core.mail.backends import smtp
from django.core.mail.message import sanitize_address
from django.utils.functional import cached_property

from project import env

# TLS from the start, after STARTTLS, and without TLS (RFC 8314, section 3.3).
TLS_PORT, STARTTLS_PORT, PLAIN_PORT = 465, 587, 25


def usual_port(*, use_ssl: bool, use_tls: bool) -> int:
    if use_ssl:
        return TLS_PORT
    return STARTTLS_PORT if use_tls else PLAIN_PORT


def sender(name: str, default: str) -> str:
    """An address, perhaps with a display name, that can be written into the head of a message."""
    value = env.text(name) or default
    try:
        is_valid = "@" in sanitize_address(value, "utf-8") and value.isprintable()
    except ValueError:
        is_valid = False
    if not is_valid:
        raise ImproperlyConfigured(
            f"{name} must be an address such as Tributary <chat@example.org>, not {value!r}"
        )
    return value


def default_sender(user: str, site_url: str) -> str:
    """Most servers only accept the address that signs in; without one, that of the site is used."""
    address = user if "@" in user else f"noreply@{env.host_of(site_url) or 'localhost'}"
    return f"Tributary <{address}>"


def refuse_contradictions(
    *,
    host: str,
    user: str,
    password: str,
    use_ssl: bool,
    use_tls: bool,
    certificate: str,
    key: str,
) -> None:
    """Raises ``ImproperlyConfigured`` for settings with which no message could be sent. It quotes
    neither the user nor the password."""
    if not host:
        for name, value in (("EMAIL_HOST_USER", user), ("EMAIL_HOST_PASSWORD", password)):
            if value:
                raise ImproperlyConfigured(f"{name} needs EMAIL_HOST")
        return
    if "/" in host or host.count(":") == 1:
        raise ImproperlyConfigured(
            f"EMAIL_HOST must be a host name or an address, such as mail.example.org, not {host!r}."
            " The port goes into EMAIL_PORT."
        )
    if use_ssl and use_tls:
        raise ImproperlyConfigured(
            "EMAIL_USE_TLS (STARTTLS, usually port 587) and EMAIL_USE_SSL (TLS from the start, the"
            " default for port 465) exclude each other. Turn one of them off."
        )
    if bool(user) != bool(password):
        missing = "EMAIL_HOST_PASSWORD" if user else "EMAIL_HOST_USER"
        present = "EMAIL_HOST_USER" if user else "EMAIL_HOST_PASSWORD"
        raise ImproperlyConfigured(f"{present} needs {missing}")
    if not (user + password).isascii():
        # smtplib encodes both as ASCII.
        raise ImproperlyConfigured(
            "EMAIL_HOST_USER and EMAIL_HOST_PASSWORD may only have ASCII characters"
        )
    _refuse_certificate(certificate, key, has_tls=use_ssl or use_tls)


def _refuse_certificate(certificate: str, key: str, *, has_tls: bool) -> None:
    if key and not certificate:
        raise ImproperlyConfigured("EMAIL_SSL_KEYFILE needs EMAIL_SSL_CERTFILE")
    if not certificate:
        return
    if not has_tls:
        raise ImproperlyConfigured("EMAIL_SSL_CERTFILE needs EMAIL_USE_TLS or EMAIL_USE_SSL")
    try:
        client_context(certificate, key)
    except OSError as error:
        names = "EMAIL_SSL_CERTFILE and EMAIL_SSL_KEYFILE" if key else "EMAIL_SSL_CERTFILE"
        raise ImproperlyConfigured(f"{names}: {error.strerror or error}") from None


def client_context(certificate: str, key: str) -> ssl.SSLContext:
    """Verifies the server by the authorities of the system (or of SSL_CERT_FILE)."""
    context = ssl.create_default_context()
    if certificate:
        # With a password, OpenSSL refuses an encrypted key. Without one it asks on the terminal.
        context.load_cert_chain(certificate, key or None, password="")
    return context


class EmailBackend(smtp.EmailBackend):
    """Django's backend trusts no authority at all once it has a client certificate, so it could reach
    no server."""

    @cached_property
    def ssl_context(self) -> ssl.SSLContext:
        return client_context(self.ssl_certfile, self.ssl_keyfile)


def spellings_of_password(user: str, password: str) -> list[str]:
    """The password as it goes over the line: itself, and as in AUTH LOGIN and AUTH PLAIN (RFC 4616).
    A server may quote what it refuses."""
    if not password:
        return []
    sent = (password, f"\0{user}\0{password}", f"{user}\0{user}\0{password}")
    return [password, *(base64.b64encode(each.encode()).decode() for each in sent)]
