"""This installation as a client of authorization servers, one registration for each issuer.

In the order of the MCP specification: an id that an administrator has entered, the client ID metadata document,
dynamic registration (RFC 7591), and otherwise an administrator is asked for an id.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, Q
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext, gettext_noop

from chat.core.errors import ActionRefused
from chat.events import JsonObject
from chat.models import ClientSource, OAuthClient, Team, ToolAccount, ToolSignIn
from chat.tools.sign_in.asking import Asking
from chat.tools.sign_in.documents import Answer, post_json
from chat.tools.sign_in.ending import end_accounts
from chat.tools.sign_in.metadata import Issuer, SignInFailed
from chat.upstreams.client import Client

NEEDS_CLIENT = gettext_noop(
    "The sign-in server doesn’t know this installation. An administrator has to enter a client ID."
)
NOT_REGISTERED = gettext_noop(
    "The sign-in server refused to register this installation. An administrator has to enter a client ID."
)

ID_LENGTH = 500
SECRET_LENGTH = 2000
# A sign-in that would use a registration is over by then.
UNUSED_FOR = timedelta(hours=2)
METHODS = ("none", "client_secret_basic", "client_secret_post")
_PRINTABLE = re.compile(r"[\x20-\x7e]+")


def redirect_uri() -> str:
    """The one address that people come back to."""
    return settings.SITE_URL + reverse("tool_account_callback")


def document_address() -> str:
    """The client id where a server reads it as an address; empty if people use this installation without TLS."""
    is_secure = settings.SITE_URL.startswith("https://")
    return settings.SITE_URL + reverse("oauth_client_metadata") if is_secure else ""


def metadata_document() -> dict[str, object]:
    """The client metadata, as the document tells them."""
    return {"client_id": document_address(), **_metadata("none")}


def _metadata(auth_method: str) -> dict[str, object]:
    is_secure = settings.SITE_URL.startswith("https://")
    return {
        "client_name": "Tributary",
        "client_uri": settings.SITE_URL,
        "redirect_uris": [redirect_uri()],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": auth_method,
        # OpenID Connect lets clients of the type "web" come back to https only.
        "application_type": "web" if is_secure else "native",
    }


def client_for(team: Team, issuer: Issuer, asking: Asking) -> OAuthClient:
    """The registration to sign in with; a new one is asked for with ``asking``. Raises ``SignInFailed`` if there is no way to one."""
    mine = OAuthClient.objects.filter(team=team, issuer=issuer.issuer)
    entered = mine.filter(source=ClientSource.ENTERED).first()
    if entered is not None:
        return _with_method(entered, issuer)
    if issuer.takes_document and (address := document_address()):
        client, _ = OAuthClient.objects.get_or_create(
            team=team,
            issuer=issuer.issuer,
            client_id=address,
            defaults={"source": ClientSource.DOCUMENT, "redirect_uri": redirect_uri()},
        )
        return client
    usable = Q(expires_at=None) | Q(expires_at__gt=timezone.now())
    known = mine.filter(usable, source=ClientSource.DYNAMIC, redirect_uri=redirect_uri())
    return known.order_by("-pk").first() or _register(team, issuer, asking)


def _with_method(client: OAuthClient, issuer: Issuer) -> OAuthClient:
    """An entered secret is sent as the server wants it."""
    if client.auth_method != "none":
        is_post = "client_secret_post" in issuer.auth_methods
        is_basic = not issuer.auth_methods or "client_secret_basic" in issuer.auth_methods
        method = "client_secret_post" if is_post and not is_basic else "client_secret_basic"
        if method != client.auth_method:
            client.auth_method = method
            client.save(update_fields=["auth_method"])
    return client


# --- dynamic registration -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Registered:
    client_id: str
    secret: str = field(default="", repr=False)
    auth_method: str
    expires_at: datetime | None = None


def _register(team: Team, issuer: Issuer, asking: Asking) -> OAuthClient:
    if not issuer.registration_endpoint:
        raise SignInFailed(NEEDS_CLIENT)
    found = _ask_to_register(issuer, asking)
    client = OAuthClient(
        team=team,
        issuer=issuer.issuer,
        source=ClientSource.DYNAMIC,
        client_id=found.client_id,
        auth_method=found.auth_method,
        redirect_uri=redirect_uri(),
        expires_at=found.expires_at,
    )
    client.set_secret(found.secret)
    with transaction.atomic():
        # A server may give everybody the same id.
        stored = OAuthClient.objects.select_for_update().filter(
            team=team, issuer=issuer.issuer, client_id=found.client_id
        )
        if (known := stored.first()) is not None:
            client.pk, client.created_at, client.source = known.pk, known.created_at, known.source
        client.save()
    return client


def _ask_to_register(issuer: Issuer, asking: Asking) -> _Registered:
    method = _method_for(issuer)

    async def register(client: Client) -> Answer:
        return await post_json(client, issuer.registration_endpoint, _metadata(method))

    answer = asking.run(register)
    if not answer.is_success:
        raise SignInFailed(NOT_REGISTERED)
    return _read_registration(answer.document, method)


def _method_for(issuer: Issuer) -> str:
    """Without a secret where the server allows it: PKCE protects the code, and there is less to keep."""
    offered = issuer.auth_methods or ("client_secret_basic",)
    return next((each for each in METHODS if each in offered), "client_secret_basic")


def _read_registration(document: JsonObject, asked: str) -> _Registered:
    client_id = _text(document.get("client_id"), ID_LENGTH)
    secret = _text(document.get("client_secret"), SECRET_LENGTH)
    method = document.get("token_endpoint_auth_method", asked)
    if not client_id or method not in METHODS or (method != "none" and not secret):
        raise SignInFailed(NOT_REGISTERED)
    expires_at = _moment(document.get("client_secret_expires_at")) if secret else None
    if expires_at is not None and expires_at <= timezone.now():
        raise SignInFailed(NOT_REGISTERED)
    return _Registered(
        client_id=client_id,
        secret=secret if method != "none" else "",
        auth_method=str(method),
        expires_at=expires_at,
    )


def _text(value: object, most: int) -> str:
    is_text = isinstance(value, str) and len(value) <= most and _PRINTABLE.fullmatch(value)
    return str(value) if is_text else ""


def _moment(value: object) -> datetime | None:
    """0 stands for never (RFC 7591 section 3.2.1)."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < 1e11:
        return None
    return datetime.fromtimestamp(value, tz=UTC)


def forget_client(client: OAuthClient) -> None:
    """The issuer no longer knows a registration that it made itself: the next sign-in registers anew."""
    mine = OAuthClient.objects.filter(pk=client.pk, source=ClientSource.DYNAMIC)
    mine.update(expires_at=timezone.now())


def forget_unused_clients(team: Team, *, keep: OAuthClient) -> None:
    """Deletes registrations of the team that no account and no sign-in uses; entered ids stay."""
    now = timezone.now()
    unused = OAuthClient.objects.filter(
        Q(expires_at__lt=now) | Q(created_at__lt=now - UNUSED_FOR),
        ~Exists(ToolAccount.objects.filter(client=OuterRef("pk"))),
        ~Exists(ToolSignIn.objects.filter(client=OuterRef("pk"))),
        team=team,
    )
    unused.exclude(source=ClientSource.ENTERED).exclude(pk=keep.pk).delete()


# --- ids that administrators enter ----------------------------------------------------------------


def enter_client(team: Team, issuer: str, *, client_id: str, secret: str) -> OAuthClient:
    """Stores an id for an issuer in place of the one entered before; accounts that were connected with another id go with
    it. Raises ``ActionRefused``."""
    client_id, secret = client_id.strip(), secret.strip()
    if not _text(client_id, ID_LENGTH) or (secret and not _text(secret, SECRET_LENGTH)):
        raise ActionRefused(gettext("Enter the client ID and the secret as the server shows them."))
    with transaction.atomic():
        mine = OAuthClient.objects.select_for_update().filter(team=team, issuer=issuer)
        before = mine.filter(source=ClientSource.ENTERED).exclude(client_id=client_id)
        end_accounts(ToolAccount.objects.filter(client__in=list(before)))
        before.delete()
        client = mine.filter(client_id=client_id).first() or OAuthClient(
            team=team, issuer=issuer, client_id=client_id
        )
        client.source, client.redirect_uri = ClientSource.ENTERED, redirect_uri()
        client.auth_method = "client_secret_basic" if secret else "none"
        client.expires_at = None
        client.set_secret(secret)
        client.save()
    return client
