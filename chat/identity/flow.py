"""One sign-in at a provider, with the authorization code flow: leaving for it, and coming back.

Every sign-in has a state, a nonce and a PKCE verifier of its own, works once, and only in the browser that began it.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from django.conf import settings
from django.db import transaction
from django.urls import reverse
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme

from chat.core.encryption import DecryptionError
from chat.events import JsonObject
from chat.identity import asking
from chat.identity.admission import SignInRefused
from chat.identity.claims import Person, read_person, value_at
from chat.identity.metadata import Metadata
from chat.identity.tokens import (
    Expected,
    TokenRefused,
    UnknownKey,
    check_id_token,
    check_logout_token,
)
from chat.models import IdentityProvider, ProviderSignIn, SignInPurpose, User
from chat.tools.sign_in.metadata import SignInFailed

logger = logging.getLogger(__name__)

# People look for their password, or for their phone.
VALID_FOR = timedelta(hours=1)
# The limit is for all people together: an attacker who begins sign-ins without end pushes out the oldest ones.
MOST_OPEN = 10_000
PATH_LENGTH = 500
CODE_LENGTH = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Departure:
    """The provider's page, and the secret that the browser keeps in a cookie of this name until it comes back."""

    address: str = field(repr=False)
    cookie: str
    secret: str = field(repr=False)


def redirect_uri(provider: IdentityProvider) -> str:
    """The address that people come back to. Each provider has its own, so that none can answer for another."""
    return settings.SITE_URL + reverse("provider_callback", args=[provider.slug])


def cookie_of(state: str) -> str:
    """Each sign-in has a cookie, so that those in two tabs don't disturb each other."""
    prefix = "__Host-" if settings.IS_SECURE else ""
    return f"{prefix}sign-in-{digest(state)[:16]}"


def digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def local_path(path: str) -> str:
    """A path of this installation to go on to; empty for any other address."""
    is_local = path.startswith("/") and url_has_allowed_host_and_scheme(path, allowed_hosts=None)
    return path if is_local and len(path) <= PATH_LENGTH and path.isprintable() else ""


def begin_sign_in(
    provider: IdentityProvider,
    *,
    purpose: SignInPurpose = SignInPurpose.SIGN_IN,
    person: User | None = None,
    next_path: str = "",
) -> Departure:
    """Begins a sign-in. Raises ``SignInFailed`` if the provider can't be reached."""
    metadata = asking.metadata_of(provider.issuer)
    state, secret = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
    nonce, verifier = secrets.token_urlsafe(32), secrets.token_urlsafe(48)
    started = ProviderSignIn(
        state_digest=digest(state),
        browser_digest=digest(secret),
        provider=provider,
        purpose=purpose,
        person=person,
        nonce=nonce,
        issuer=provider.issuer,
        client_id=provider.client_id,
        next_path=local_path(next_path),
    )
    started.set_verifier(verifier)
    with transaction.atomic():
        _forget_old()
        started.save()
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest())
    fields = {
        "response_type": "code",
        "client_id": provider.client_id,
        "redirect_uri": redirect_uri(provider),
        "scope": provider.scopes,
        "state": state,
        "nonce": nonce,
        "code_challenge": challenge.rstrip(b"=").decode(),
        "code_challenge_method": "S256",
    }
    address = with_query(metadata.authorization_endpoint, fields)
    return Departure(address=address, cookie=cookie_of(state), secret=secret)


def with_query(address: str, fields: Mapping[str, str]) -> str:
    """The address with these fields, and those of its own that have other names."""
    parts = urlsplit(address)
    own = [pair for pair in parse_qsl(parts.query) if pair[0] not in fields]
    query = urlencode([*own, *fields.items()])
    return urlunsplit((parts.scheme, parts.netloc, parts.path, query, ""))


def _forget_old() -> None:
    ProviderSignIn.objects.filter(began_at__lt=timezone.now() - VALID_FOR).delete()
    newest = ProviderSignIn.objects.order_by("-pk").values_list("pk", flat=True)
    beyond = newest[MOST_OPEN : MOST_OPEN + 1].first()
    if beyond is not None:
        ProviderSignIn.objects.filter(pk__lte=beyond).delete()


def take_sign_in(
    provider: IdentityProvider, state: str, cookies: Mapping[str, str]
) -> ProviderSignIn:
    """The sign-in that this browser began with this state, once. Raises ``SignInRefused``."""
    started = (
        ProviderSignIn.objects.select_related("provider", "person")
        .filter(
            provider=provider,
            state_digest=digest(state),
            began_at__gte=timezone.now() - VALID_FOR,
        )
        .first()
    )
    if started is None:
        raise SignInRefused("state")
    given = digest(cookies.get(cookie_of(state), ""))
    if not secrets.compare_digest(given, started.browser_digest):
        raise SignInRefused("browser")
    # The row is deleted once, so one of two answers with the same state is used.
    removed, _ = ProviderSignIn.objects.filter(pk=started.pk).delete()
    if not removed:
        raise SignInRefused("state")
    return started


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A person whom the provider has confirmed, and the claims that say so."""

    person: Person
    claims: JsonObject = field(repr=False)


def finish(started: ProviderSignIn, answer: Mapping[str, str]) -> Arrival:
    """Turns the provider's answer (``code``, ``iss``, ``error``) into a person. Raises ``SignInRefused``."""
    provider = started.provider
    if (started.issuer, started.client_id) != (provider.issuer, provider.client_id):
        raise SignInRefused("provider_changed")
    try:
        metadata = asking.metadata_of(provider.issuer)
        _check_answer(metadata, answer)
        claims, access_token = _claims_of(started, metadata, answer.get("code", ""))
        claims = _with_userinfo(provider, metadata, claims, access_token)
    except SignInFailed as failed:
        logger.warning("identity.provider_failed provider=%s problem=%s", provider.slug, failed)
        raise SignInRefused("provider") from None
    except TokenRefused as refused:
        raise SignInRefused(f"token_{refused.reason}") from None
    person = read_person(
        claims, groups_claim=provider.groups_claim, proves_addresses=provider.proves_addresses
    )
    return Arrival(person=person, claims=claims)


def _check_answer(metadata: Metadata, answer: Mapping[str, str]) -> None:
    issuer = answer.get("iss")
    is_other = issuer != metadata.issuer if issuer is not None else metadata.names_itself
    if is_other:
        raise SignInRefused("answer_issuer")
    if error := answer.get("error"):
        raise SignInRefused("canceled" if error == "access_denied" else "provider_error")
    if not 0 < len(answer.get("code", "")) <= CODE_LENGTH:
        raise SignInRefused("no_code")


def _claims_of(started: ProviderSignIn, metadata: Metadata, code: str) -> tuple[JsonObject, str]:
    try:
        verifier = started.open_verifier()
    except DecryptionError:
        raise SignInRefused("state") from None
    answer = asking.redeem(
        started.provider,
        metadata,
        {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri(started.provider),
            "code_verifier": verifier,
        },
    )
    id_token, access_token = answer.document.get("id_token"), answer.document.get("access_token")
    if not answer.is_success:
        is_client = answer.document.get("error") in ("invalid_client", "unauthorized_client")
        raise SignInRefused("client" if is_client else "code")
    if not isinstance(id_token, str):
        raise SignInRefused("no_token")
    access_token = access_token if isinstance(access_token, str) else ""

    def check(expected: Expected) -> JsonObject:
        return check_id_token(id_token, expected, nonce=started.nonce, access_token=access_token)

    try:
        claims = check(expected_of(started.provider, metadata))
    except UnknownKey:
        claims = check(expected_of(started.provider, metadata, is_unknown=True))
    return claims, access_token


def expected_of(
    provider: IdentityProvider, metadata: Metadata, *, is_unknown: bool = False
) -> Expected:
    return Expected(
        issuer=metadata.issuer,
        client_id=provider.client_id,
        keys=asking.keys_of(metadata, is_unknown=is_unknown),
        algorithms=metadata.algorithms,
    )


def _with_userinfo(
    provider: IdentityProvider, metadata: Metadata, claims: JsonObject, access_token: str
) -> JsonObject:
    """Adds what the ID token lacks: many providers give address, name and groups at another address only."""
    lacks_groups = provider.groups_claim and value_at(claims, provider.groups_claim) is None
    if "email" in claims and not lacks_groups:
        return claims
    if not metadata.userinfo_endpoint or not access_token:
        return claims
    found = asking.read_userinfo(metadata, access_token)
    if found.get("sub") != claims["sub"]:
        # The information is about somebody else (OpenID Connect Core, section 5.3.2).
        raise SignInRefused("userinfo")
    return {**found, **claims}


def read_logout(provider: IdentityProvider, token: str) -> JsonObject:
    """The claims of a logout token. Raises ``TokenRefused``, or ``SignInFailed`` without the provider's keys."""
    metadata = asking.metadata_of(provider.issuer)
    try:
        return check_logout_token(token, expected_of(provider, metadata))
    except UnknownKey:
        return check_logout_token(token, expected_of(provider, metadata, is_unknown=True))
