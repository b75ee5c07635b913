"""Requests to the token endpoint of an authorization server, and to the one that revokes tokens (RFC 7009)."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

from django.utils.translation import gettext_noop

from chat.core.encryption import DecryptionError
from chat.events import JsonObject
from chat.models import OAuthClient
from chat.tools.sign_in.documents import Answer, post_form
from chat.tools.sign_in.metadata import SCOPE_LENGTH, SignInFailed
from chat.upstreams.client import Client

TOKEN_LENGTH = 8192
# A token that ends at once would be refreshed with each call.
LEAST_SECONDS = 60
MOST_SECONDS = 366 * 24 * 3600

REFUSED = gettext_noop("The sign-in server refused the sign-in. Try again.")
ENDED = gettext_noop("The sign-in has ended. Sign in again.")
BUSY = gettext_noop("The sign-in server failed. Try again later.")
MORE_SCOPES = gettext_noop("The server wants more permissions for this. Sign in again.")
UNREADABLE = gettext_noop("The stored sign-in can’t be decrypted. Sign in again.")

_TOKEN = re.compile(r"[\x21-\x7e]+")


class Ended(SignInFailed):
    """The authorization server has refused the refresh token for good."""


class ClientUnknown(Ended):
    """The authorization server no longer knows this installation, or doesn't let it use accounts."""


# Errors that are not those of the account: the same request may succeed later.
_PASSING_ERRORS = frozenset(
    ("temporarily_unavailable", "slow_down", "authorization_pending", "server_error")
)
_PASSING_STATUSES = frozenset((408, 425, 429))
CLIENT_ERRORS = frozenset(("invalid_client", "unauthorized_client"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """``seconds``: how long the access token is valid; ``None`` if the server doesn't say."""

    access: str = field(repr=False)
    refresh: str = field(default="", repr=False)
    seconds: int | None = None
    scope: str = ""


async def exchange_code(
    client: Client,
    ours: OAuthClient,
    endpoint: str,
    *,
    code: str,
    verifier: str,
    redirect_uri: str,
    resource: str,
) -> Tokens:
    """Raises ``SignInFailed``; ``ClientUnknown`` if this installation isn't known there any more."""
    answer = await _post(
        client,
        ours,
        endpoint,
        {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": verifier,
            "resource": resource,
        },
    )
    if not answer.is_success:
        if isinstance(_lasting_error(answer), ClientUnknown):
            raise ClientUnknown(REFUSED)
        raise SignInFailed(REFUSED)
    return _tokens(answer.document)


async def refresh(
    client: Client, ours: OAuthClient, endpoint: str, *, token: str, resource: str
) -> Tokens:
    """New tokens for a refresh token. Raises ``Ended`` if it isn't valid any more, ``NotSent`` if the server never got
    it, else ``SignInFailed``."""
    answer = await _post(
        client,
        ours,
        endpoint,
        {"grant_type": "refresh_token", "refresh_token": token, "resource": resource},
    )
    if answer.is_success:
        return _tokens(answer.document)
    raise _lasting_error(answer) or SignInFailed(BUSY)


def _lasting_error(answer: Answer) -> Ended | None:
    """The error of RFC 6749 section 5.2 that the same request would get again."""
    error = answer.document.get("error")
    if not 400 <= answer.status < 500 or answer.status in _PASSING_STATUSES:
        return None
    if not isinstance(error, str) or not error or error in _PASSING_ERRORS:
        return None
    return ClientUnknown(ENDED) if error in CLIENT_ERRORS else Ended(ENDED)


async def revoke(
    client: Client, ours: OAuthClient, endpoint: str, tokens: Mapping[str, str]
) -> None:
    """Tells the authorization server that the tokens are no longer used. Raises ``SignInFailed``."""
    for kind in ("refresh", "access"):
        if token := tokens.get(kind, ""):
            fields = {"token": token, "token_type_hint": f"{kind}_token"}
            await _post(client, ours, endpoint, fields)


async def _post(
    client: Client, ours: OAuthClient, endpoint: str, fields: Mapping[str, str]
) -> Answer:
    try:
        secret = ours.open_secret()
    except DecryptionError:
        raise SignInFailed(UNREADABLE) from None
    authorization = ""
    own = {"client_id": ours.client_id}
    if ours.auth_method == "client_secret_basic":
        # RFC 6749 section 2.3.1: both are form-encoded first.
        pair = f"{quote(ours.client_id, safe='')}:{quote(secret, safe='')}"
        authorization = "Basic " + base64.b64encode(pair.encode()).decode()
        own = {}
    elif ours.auth_method == "client_secret_post":
        own["client_secret"] = secret
    return await post_form(client, endpoint, {**fields, **own}, authorization=authorization)


def _tokens(document: JsonObject) -> Tokens:
    access, fresh = _token(document.get("access_token")), _token(document.get("refresh_token"))
    kind = document.get("token_type")
    if not access or not isinstance(kind, str) or kind.lower() != "bearer":
        raise SignInFailed(REFUSED)
    scope = document.get("scope")
    return Tokens(
        access=access,
        refresh=fresh,
        seconds=_seconds(document.get("expires_in")),
        scope=scope[:SCOPE_LENGTH] if isinstance(scope, str) and scope.isprintable() else "",
    )


def _token(value: object) -> str:
    is_token = isinstance(value, str) and len(value) <= TOKEN_LENGTH and _TOKEN.fullmatch(value)
    return str(value) if is_token else ""


def _seconds(value: object) -> int | None:
    if isinstance(value, str) and value.isdecimal() and len(value) < 12:
        value = int(value)
    if not isinstance(value, int | float) or isinstance(value, bool) or value != value:
        return None
    return int(min(max(value, LEAST_SECONDS), MOST_SECONDS))
