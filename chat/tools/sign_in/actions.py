"""Connecting and disconnecting accounts at tool servers.

The caller has fetched every object through ``chat.access``. Requests to servers are sent outside of transactions.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import secrets
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar
from urllib.parse import urlencode, urlsplit, urlunsplit

from asgiref.sync import async_to_sync
from django.db import transaction
from django.http import Http404
from django.utils import timezone
from django.utils.translation import gettext, gettext_noop

from chat import access
from chat.access.not_here import NOT_HERE
from chat.core.encryption import DecryptionError
from chat.core.errors import ActionRefused, storage_errors
from chat.core.rate_limits import is_within_limit
from chat.models import (
    AuditEvent,
    OAuthClient,
    Question,
    ToolAccount,
    ToolServer,
    ToolSignIn,
    User,
)
from chat.tools.servers import queue_test
from chat.tools.sign_in import tokens
from chat.tools.sign_in.accounts import expiry_of
from chat.tools.sign_in.clients import client_for, enter_client, redirect_uri
from chat.tools.sign_in.discovery import Discovered, discover
from chat.tools.sign_in.metadata import SignInFailed, covers, scopes_to_ask
from chat.tools.sign_in.tokens import REFUSED, Tokens
from chat.tools.sign_in.waiting_calls import show_connected
from chat.upstreams.configured import configured_client

Answer = TypeVar("Answer")

logger = logging.getLogger(__name__)

# People look for their password, or have a coffee first.
VALID_FOR = timedelta(hours=1)
MOST_OPEN = 20
PER_MINUTE = 10

CANCELED = gettext_noop("The sign-in was canceled.")
OTHER_ISSUER = gettext_noop("The answer came from another sign-in server, so it was refused.")
CHANGED = gettext_noop("The server’s settings were changed in the meantime. Try again.")
NOT_PERSONAL = gettext_noop("People don’t sign in at this server.")
TOO_OFTEN = gettext_noop("You have tried this many times. Wait a minute.")


@dataclass(frozen=True, slots=True, kw_only=True)
class SignInPage:
    """The page of the authorization server that the person goes to. Its address has the state."""

    address: str = field(repr=False)
    host: str


def find_issuer(server: ToolServer) -> Discovered:
    """Where people sign in for the server. Raises ``ActionRefused`` with the reason why they can't."""
    return _asked(_discover(server.address))


async def _discover(address: str) -> Discovered:
    async with configured_client() as client:
        return await discover(client, address)


def _asked(question: Coroutine[Any, Any, Answer]) -> Answer:
    async def ask() -> Answer:
        return await question

    try:
        return async_to_sync(ask)()
    except SignInFailed as failed:
        raise ActionRefused(gettext(str(failed))) from None


# --- connecting -----------------------------------------------------------------------------------


def begin_sign_in(
    user: User,
    server: ToolServer,
    *,
    question: Question | None = None,
    is_for_listing: bool = False,
) -> SignInPage:
    """Begins a sign-in of this person. Raises ``ActionRefused``."""
    if not server.signs_in_people or not server.is_enabled:
        raise ActionRefused(gettext(NOT_PERSONAL))
    if not is_within_limit("tool_sign_in", user.pk, PER_MINUTE):
        raise ActionRefused(gettext(TOO_OFTEN))
    found = find_issuer(server)
    try:
        ours = client_for(server.team, found.issuer)
    except SignInFailed as failed:
        raise ActionRefused(gettext(str(failed))) from None
    state, verifier = secrets.token_urlsafe(32), secrets.token_urlsafe(48)
    started = ToolSignIn(
        state_digest=_digest(state),
        person=user,
        server=server,
        client=ours,
        question=question,
        is_for_listing=is_for_listing,
        issuer=found.issuer.issuer,
        must_name_issuer=found.issuer.must_name_issuer,
        resource=found.resource.address,
        token_endpoint=found.issuer.token_endpoint,
        revocation_endpoint=found.issuer.revocation_endpoint,
        redirect_uri=redirect_uri(),
        scope=scopes_to_ask(found.resource, found.issuer),
    )
    started.set_verifier(verifier)
    with storage_errors(), transaction.atomic():
        _forget_old(user)
        started.save()
    return SignInPage(
        address=_authorization_address(found, started, state, verifier),
        host=urlsplit(found.issuer.authorization_endpoint).netloc,
    )


def _authorization_address(
    found: Discovered, started: ToolSignIn, state: str, verifier: str
) -> str:
    parts = urlsplit(found.issuer.authorization_endpoint)
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest())
    fields = {
        "response_type": "code",
        "client_id": started.client.client_id,
        "redirect_uri": started.redirect_uri,
        "state": state,
        "code_challenge": challenge.rstrip(b"=").decode(),
        "code_challenge_method": "S256",
        "resource": started.resource,
        **({"scope": started.scope} if started.scope else {}),
    }
    query = f"{parts.query}&{urlencode(fields)}" if parts.query else urlencode(fields)
    return urlunsplit((parts.scheme, parts.netloc, parts.path, query, ""))


def _forget_old(user: User) -> None:
    ToolSignIn.objects.filter(began_at__lt=timezone.now() - VALID_FOR).delete()
    mine = ToolSignIn.objects.filter(person=user).order_by("-began_at")
    ToolSignIn.objects.filter(pk__in=list(mine.values_list("pk", flat=True)[MOST_OPEN:])).delete()


def _digest(state: str) -> str:
    return hashlib.sha256(state.encode("utf-8", "replace")).hexdigest()


def take_sign_in(user: User, state: str) -> ToolSignIn:
    """The sign-in that this person began with this state, once. Raises ``Http404``: one of somebody else, one that was
    used, one that is too old and one that never was look the same."""
    rows = ToolSignIn.objects.filter(
        state_digest=_digest(state), person=user, began_at__gte=timezone.now() - VALID_FOR
    )
    started = rows.select_related("client", "server__team", "question__conversation").first()
    if started is None:
        raise Http404(NOT_HERE)
    # The row is deleted once, so one of two answers with the same state is used.
    removed, _ = ToolSignIn.objects.filter(pk=started.pk).delete()
    if not removed:
        raise Http404(NOT_HERE)
    return started


def finish(user: User, started: ToolSignIn, answer: Mapping[str, str]) -> ToolAccount:
    """Connects the account with what the authorization server has answered: ``code``, ``iss``, ``error``. Raises
    ``ActionRefused``."""
    issuer = answer.get("iss")
    is_other = issuer != started.issuer if issuer is not None else started.must_name_issuer
    if is_other or started.client.issuer != started.issuer:
        raise ActionRefused(gettext(OTHER_ISSUER))
    if error := answer.get("error"):
        raise ActionRefused(gettext(CANCELED if error == "access_denied" else REFUSED))
    code = answer.get("code", "")
    if not code:
        raise ActionRefused(gettext(REFUSED))
    try:
        verifier = started.open_verifier()
    except DecryptionError:
        raise ActionRefused(gettext(REFUSED)) from None
    fresh = _asked(_exchange(started, code, verifier))
    with storage_errors(), transaction.atomic():
        account = _store(user, started, fresh)
        _audit(user, "tool_account.connected", account)
    logger.info("tool_account.connected account=%d", account.pk)
    _read_tools(user, started)
    show_connected(user, account.server)
    return account


async def _exchange(started: ToolSignIn, code: str, verifier: str) -> Tokens:
    async with configured_client() as client:
        return await tokens.exchange_code(
            client,
            started.client,
            started.token_endpoint,
            code=code,
            verifier=verifier,
            redirect_uri=started.redirect_uri,
            resource=started.resource,
        )


def _store(user: User, started: ToolSignIn, fresh: Tokens) -> ToolAccount:
    """The server may have been changed or removed since."""
    server = ToolServer.objects.select_for_update().filter(pk=started.server_id).first()
    is_same = server is not None and covers(started.resource, server.address)
    if server is None or not is_same or not server.signs_in_people:
        raise ActionRefused(gettext(CHANGED))
    client = OAuthClient.objects.filter(pk=started.client_id).first()
    if client is None or not access.may_sign_in_at(user, server):
        raise ActionRefused(gettext(CHANGED))
    mine = ToolAccount.objects.select_for_update().filter(person=user, server=server)
    account = mine.first() or ToolAccount(person=user, server=server, version=0)
    account.client, account.issuer = client, started.issuer
    account.resource = started.resource
    account.token_endpoint = started.token_endpoint
    account.revocation_endpoint = started.revocation_endpoint
    account.scope = fresh.scope or started.scope
    account.set_tokens(access=fresh.access, refresh=fresh.refresh)
    account.expires_at = expiry_of(fresh)
    account.version += 1
    account.refresh_claim = account.refresh_claimed_at = None
    account.problem = ""
    account.connected_at = timezone.now()
    account.save()
    return account


def _read_tools(user: User, started: ToolSignIn) -> None:
    """The tools of the server are read with the account of whoever manages it."""
    server = started.server
    if started.is_for_listing and access.may_manage_tool_servers(user, server.team):
        queue_test(server, user)


# --- disconnecting --------------------------------------------------------------------------------


def disconnect(user: User, account: ToolAccount) -> None:
    """Deletes the account's tokens, then revokes them where the issuer takes that."""
    with storage_errors(), transaction.atomic():
        rows = ToolAccount.objects.select_for_update().filter(pk=account.pk)
        current = rows.select_related("client", "server__team").first()
        if current is None:
            return
        rows.delete()
        _audit(user, "tool_account.disconnected", current)
    logger.info("tool_account.disconnected account=%d", account.pk)
    if current.revocation_endpoint and current.client.issuer == current.issuer:
        with suppress(DecryptionError):
            _revoke(current)
    show_connected(current.person, current.server)


def _revoke(account: ToolAccount) -> None:
    held = account.open_tokens()

    async def ask() -> None:
        async with configured_client() as client:
            await tokens.revoke(client, account.client, account.revocation_endpoint, held)

    try:
        async_to_sync(ask)()
    except SignInFailed:
        logger.warning("tool_account.unrevoked account=%d", account.pk)


def _audit(user: User, verb: str, account: ToolAccount) -> None:
    AuditEvent.objects.record(
        user,
        verb,
        subject=account.person,
        target=account.server.team.name,
        server=account.server.name,
    )


# --- client ids -----------------------------------------------------------------------------------


def enter_client_of(user: User, server: ToolServer, *, client_id: str, secret: str) -> None:
    """Stores a client id for the authorization server of this tool server. Raises ``ActionRefused``."""
    issuer = find_issuer(server).issuer.issuer
    with storage_errors(), transaction.atomic():
        enter_client(server.team, issuer, client_id=client_id, secret=secret)
        AuditEvent.objects.record(
            user,
            "tool_server.client_entered",
            target=server.team.name,
            server=server.name,
            address=issuer,
        )
