"""The test of a provider: what signing in needs, step by step, each with a sentence that says what is wrong."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

from django.conf import settings
from django.utils.functional import Promise
from django.utils.translation import gettext, gettext_lazy, ngettext

from chat.identity import asking, flow
from chat.identity.metadata import Metadata, read_metadata
from chat.identity.tokens import SKEW_SECONDS, read_keys
from chat.models import IdentityProvider
from chat.tools.sign_in.documents import Answer, get
from chat.tools.sign_in.metadata import SignInFailed, checked_address
from chat.upstreams.client import Client
from chat.upstreams.exchange import Headers

GOOD, BAD, OPEN = "ok", "failed", "open"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """``state``: good, bad, or open where only a person's sign-in can tell."""

    name: str | Promise
    state: str
    text: str


DISCOVERY = gettext_lazy("Discovery")
KEYS = gettext_lazy("Keys")
CLOCK = gettext_lazy("Clock")
REDIRECT = gettext_lazy("Redirect address")
CLIENT = gettext_lazy("Client")
LOGOUT = gettext_lazy("Sign-out by the provider")


def walk(provider: IdentityProvider) -> Sequence[Step]:
    """Asks the provider. The steps after one that is bad, and that need it, are left out."""
    asking.forget(provider.issuer)
    if not checked_address(provider.issuer):
        return [Step(name=DISCOVERY, state=BAD, text=gettext("The address isn’t a valid URL."))]
    named: object = None
    try:
        answer = asking.read_document(provider.issuer)
        named = answer.document.get("issuer")
        metadata = read_metadata(
            answer.document, provider.issuer, needs_encryption=settings.IS_SECURE
        )
    except SignInFailed as failed:
        text = gettext(str(failed))
        if isinstance(named, str) and named != provider.issuer:
            says = gettext("It names itself %(issuer)s. Enter exactly this address.")
            text = f"{text} {says % {'issuer': named[:500]}}"
        return [Step(name=DISCOVERY, state=BAD, text=text)]
    found = gettext("Found %(issuer)s.") % {"issuer": metadata.issuer}
    return [
        Step(name=DISCOVERY, state=GOOD, text=found),
        _keys(metadata),
        _clock(answer.headers),
        _redirect(provider, metadata),
        _client(provider, metadata),
        _logout(metadata),
    ]


def _keys(metadata: Metadata) -> Step:
    try:
        keys = read_keys(asking.read_key_document(metadata))
    except SignInFailed as failed:
        return Step(name=KEYS, state=BAD, text=gettext(str(failed)))
    if not keys:
        text = gettext("The provider publishes no key that can verify its tokens.")
        return Step(name=KEYS, state=BAD, text=text)
    told = ngettext("%(count)d key for tokens", "%(count)d keys for tokens", len(keys))
    return Step(name=KEYS, state=GOOD, text=told % {"count": len(keys)})


def _clock(headers: Headers) -> Step:
    dates = [value for name, value in headers if name.lower() == b"date"]
    try:
        difference = abs(
            parsedate_to_datetime(dates[0].decode("latin-1")).timestamp() - time.time()
        )
    except (IndexError, TypeError, ValueError):
        return Step(name=CLOCK, state=OPEN, text=gettext("The provider doesn’t tell its time."))
    if difference > SKEW_SECONDS:
        text = gettext(
            "The clocks differ by %(seconds)d seconds, so sign-ins fail. Correct the clock of one of the servers."
        )
        return Step(name=CLOCK, state=BAD, text=text % {"seconds": difference})
    return Step(name=CLOCK, state=GOOD, text=gettext("The clocks agree."))


def _redirect(provider: IdentityProvider, metadata: Metadata) -> Step:
    """Asks for a sign-in without a person, which a provider refuses at the redirect address if it knows it."""
    address = flow.redirect_uri(provider)
    fields = {
        "response_type": "code",
        "client_id": provider.client_id,
        "redirect_uri": address,
        "scope": provider.scopes,
        "state": "test",
        "nonce": "test",
        "prompt": "none",
        "code_challenge": "A" * 43,
        "code_challenge_method": "S256",
    }

    async def visit(client: Client) -> Answer:
        return await get(client, flow.with_query(metadata.authorization_endpoint, fields))

    try:
        answer = asking.ask(metadata.issuer, visit)
    except SignInFailed:
        return _only_trial()
    places = [value for name, value in answer.headers if name.lower() == b"location"]
    place = places[0].decode("latin-1") if places else ""
    if place.startswith(f"{address}?"):
        return Step(name=REDIRECT, state=GOOD, text=gettext("The provider knows the address."))
    if 400 <= answer.status < 500:
        text = gettext(
            "The provider refuses the client ID or the redirect address. Register exactly %(address)s."
        )
        return Step(name=REDIRECT, state=BAD, text=text % {"address": address})
    return _only_trial()


def _only_trial() -> Step:
    text = gettext("The provider doesn’t tell. Try to sign in.")
    return Step(name=REDIRECT, state=OPEN, text=text)


def _client(provider: IdentityProvider, metadata: Metadata) -> Step:
    """Sends an invented code: its error says whether the client was accepted."""
    fields = {
        "grant_type": "authorization_code",
        "code": "test",
        "redirect_uri": flow.redirect_uri(provider),
        "code_verifier": "A" * 43,
    }
    try:
        answer = asking.redeem(provider, metadata, fields)
    except SignInFailed as failed:
        return Step(name=CLIENT, state=BAD, text=gettext(str(failed)))
    error = answer.document.get("error")
    if error in ("invalid_client", "unauthorized_client"):
        text = gettext("The provider refuses the client ID or the client secret.")
        return Step(name=CLIENT, state=BAD, text=text)
    if error == "invalid_grant":
        text = gettext("The provider accepts the client ID and the client secret.")
        return Step(name=CLIENT, state=GOOD, text=text)
    text = gettext("The provider doesn’t tell. Try to sign in.")
    return Step(name=CLIENT, state=OPEN, text=text)


def _logout(metadata: Metadata) -> Step:
    if metadata.logs_out:
        text = gettext(
            "The provider can end sessions here at once, if the logout address is registered there."
        )
        return Step(name=LOGOUT, state=GOOD, text=text)
    text = gettext("The provider doesn’t offer it. Sessions end after %(hours)g hours.")
    return Step(name=LOGOUT, state=OPEN, text=text % {"hours": settings.PROVIDER_SESSION_HOURS})
