"""Connecting and disconnecting accounts at tool servers.

The caller has fetched every object through ``chat.access``. Requests to servers are sent outside of transactions.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from urllib.parse import urlencode, urlsplit, urlunsplit

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
    ToolCall,
    ToolServer,
    ToolSignIn,
    User,
)
from chat.tools.servers import queue_test
from chat.tools.sign_in import ending, found, tokens
from chat.tools.sign_in.accounts import expiry_of, has_ended
from chat.tools.sign_in.asking import Asking
from chat.tools.sign_in.clients import (
    client_for,
    enter_client,
    forget_client,
    forget_unused_clients,
    redirect_uri,
)
from chat.tools.sign_in.discovery import Discovered
from chat.tools.sign_in.metadata import SignInFailed, covers, scopes_of, scopes_to_ask
from chat.tools.sign_in.tokens import REFUSED, Tokens
from chat.tools.sign_in.waiting_calls import show_connected
from chat.upstreams.client import Client

logger = logging.getLogger(__name__)

# People look for their password, or have a coffee first.
VALID_FOR = timedelta(hours=1)
MOST_OPEN = 20
PER_MINUTE = 10

CANCELED = gettext_noop("The sign-in was canceled.")
OTHER_ISSUER = gettext_noop("The answer came from another sign-in server, so it was refused.")
CHANGED = gettext_noop("The server’s settings were changed in the meantime. Try again.")
NAMES_OTHER = gettext_noop(
    "The server now names another sign-in server, so nothing was saved. Look at it again."
)
NOT_PERSONAL = gettext_noop("People don’t sign in at this server.")
TOO_OFTEN = gettext_noop("You have tried this many times. Wait a minute.")


@dataclass(frozen=True, slots=True, kw_only=True)
class SignInPage:
    """The page of the authorization server that the person goes to. Its address has the state."""

    address: str = field(repr=False)
    host: str
    issuer: str


def find_issuer(user: User, server: ToolServer) -> str:
    """Where people sign in for the server. Raises ``ActionRefused`` with the reason why they can't."""
    _check_rate(user)
    with _in_words():
        if known := found.known(server.address):
            return known.issuer.issuer
        asking = Asking(server.address)
        with asking.turn():
            return found.find(asking).issuer.issuer


def _check_rate(user: User) -> None:
    if not is_within_limit("tool_sign_in", user.pk, PER_MINUTE):
        raise ActionRefused(gettext(TOO_OFTEN))


@contextmanager
def _in_words() -> Iterator[None]:
    try:
        yield
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
    _check_rate(user)
    if has_ended(user, server):
        # The server may name another authorization server by now.
        found.forget(server.address)
    asking = Asking(server.address)
    with _in_words(), asking.turn():
        place = found.find(asking)
        ours = client_for(server.team, place.issuer, asking)
    state, verifier = secrets.token_urlsafe(32), secrets.token_urlsafe(48)
    started = ToolSignIn(
        state_digest=_digest(state),
        person=user,
        server=server,
        client=ours,
        question=question,
        is_for_listing=is_for_listing,
        issuer=place.issuer.issuer,
        must_name_issuer=place.issuer.must_name_issuer,
        resource=place.resource.address,
        token_endpoint=place.issuer.token_endpoint,
        revocation_endpoint=place.issuer.revocation_endpoint,
        redirect_uri=redirect_uri(),
        scope=_scope_for(user, server, question, place),
    )
    started.set_verifier(verifier)
    with storage_errors(), transaction.atomic():
        _forget_old(user)
        forget_unused_clients(server.team, keep=ours)
        if not OAuthClient.objects.select_for_update().filter(pk=ours.pk).exists():
            raise ActionRefused(gettext(CHANGED))
        started.save()
    return SignInPage(
        address=_authorization_address(place, started, state, verifier),
        host=urlsplit(place.issuer.authorization_endpoint).netloc,
        issuer=place.issuer.issuer,
    )


def _scope_for(user: User, server: ToolServer, question: Question | None, place: Discovered) -> str:
    """The scopes to ask for, by spaces. Those that the call of a card lacks, or the list of tools, are asked for with
    those that the account has: its new token replaces the old one."""
    usual = scopes_to_ask(place.resource, place.issuer)
    call = ToolCall.objects.filter(question=question, executor=user).exclude(needed_scope="")
    of_call = call.values_list("needed_scope", flat=True).first() if question is not None else ""
    account = ToolAccount.objects.filter(person=user, server=server).first()
    of_list, granted = (account.needed_scope, account.scope) if account is not None else ("", "")
    if not of_call and not of_list:
        return usual
    all_scopes = f"{of_call or ''} {of_list} {usual} {granted}".split()
    return " ".join(scopes_of(list(dict.fromkeys(all_scopes))))


def _authorization_address(
    place: Discovered, started: ToolSignIn, state: str, verifier: str
) -> str:
    parts = urlsplit(place.issuer.authorization_endpoint)
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
        if error in tokens.CLIENT_ERRORS:
            forget_client(started.client)
        raise ActionRefused(gettext(CANCELED if error == "access_denied" else REFUSED))
    code = answer.get("code", "")
    if not code:
        raise ActionRefused(gettext(REFUSED))
    try:
        verifier = started.open_verifier()
    except DecryptionError:
        raise ActionRefused(gettext(REFUSED)) from None
    # A code that nobody may use is not turned into tokens.
    _check_target(user, started, ToolServer.objects.filter(pk=started.server_id).first())
    fresh = _exchanged(started, code, verifier)
    try:
        with storage_errors(), transaction.atomic():
            account = _store(user, started, fresh)
            _audit(user, "tool_account.connected", account)
    except ActionRefused:
        _revoke_fresh(started, fresh)
        raise
    logger.info("tool_account.connected account=%d", account.pk)
    _read_tools(user, started)
    show_connected(user, account.server)
    return account


def _exchanged(started: ToolSignIn, code: str, verifier: str) -> Tokens:
    async def exchange(client: Client) -> Tokens:
        return await tokens.exchange_code(
            client,
            started.client,
            started.token_endpoint,
            code=code,
            verifier=verifier,
            redirect_uri=started.redirect_uri,
            resource=started.resource,
        )

    asking = Asking(started.server.address)
    with _in_words():
        try:
            with asking.turn():
                return asking.run(exchange)
        except SignInFailed as failed:
            # Its addresses may be others by now.
            found.forget(started.server.address)
            if isinstance(failed, tokens.ClientUnknown):
                forget_client(started.client)
            raise


def _revoke_fresh(started: ToolSignIn, fresh: Tokens) -> None:
    ending.revoke_later(
        started.client,
        started.revocation_endpoint,
        {"access": fresh.access, "refresh": fresh.refresh},
        server=started.resource,
    )


def _check_target(user: User, started: ToolSignIn, server: ToolServer | None) -> ToolServer:
    """The server may have been changed or removed since, and the person may have lost the right to it."""
    if server is None or not covers(started.resource, server.address):
        raise ActionRefused(gettext(CHANGED))
    if not server.signs_in_people or not access.may_sign_in_at(user, server):
        raise ActionRefused(gettext(CHANGED))
    return server


def _store(user: User, started: ToolSignIn, fresh: Tokens) -> ToolAccount:
    stored = ToolServer.objects.select_for_update().filter(pk=started.server_id).first()
    server = _check_target(user, started, stored)
    client = OAuthClient.objects.filter(pk=started.client_id).first()
    if client is None:
        raise ActionRefused(gettext(CHANGED))
    mine = ToolAccount.objects.select_for_update().filter(person=user, server=server)
    account = mine.select_related("client").first()
    if account is not None:
        ending.revoke_account(account)
    account = account or ToolAccount(person=user, server=server, version=0)
    account.client, account.issuer = client, started.issuer
    account.resource = started.resource
    account.token_endpoint = started.token_endpoint
    account.revocation_endpoint = started.revocation_endpoint
    account.scope = fresh.scope or started.scope
    account.needed_scope = ""
    account.set_tokens(access=fresh.access, refresh=fresh.refresh)
    account.expires_at = expiry_of(fresh)
    account.version += 1
    account.refresh_claim = account.refresh_claimed_at = None
    account.problem = ""
    account.connected_at = timezone.now()
    account.save()
    return account


def _read_tools(user: User, started: ToolSignIn) -> None:
    """The tools of the server are read with the account of somebody who manages it."""
    server = started.server
    if started.is_for_listing and access.may_manage_tool_servers(user, server.team):
        queue_test(server, user)


# --- disconnecting --------------------------------------------------------------------------------


def disconnect(user: User, account: ToolAccount) -> None:
    """Deletes the account's tokens. They are revoked afterwards, where the issuer takes that."""
    with storage_errors(), transaction.atomic():
        ended = ending.end_accounts(ToolAccount.objects.filter(pk=account.pk))
        for current in ended:
            _audit(user, "tool_account.disconnected", current)
    for current in ended:
        logger.info("tool_account.disconnected account=%d", account.pk)
        show_connected(current.person, current.server)


def _audit(user: User, verb: str, account: ToolAccount) -> None:
    AuditEvent.objects.record(
        user,
        verb,
        subject=account.person,
        target=account.server.team.name,
        server=account.server.name,
    )


# --- client ids -----------------------------------------------------------------------------------


def enter_client_of(
    user: User, server: ToolServer, *, issuer: str, client_id: str, secret: str
) -> None:
    """Stores a client id for the authorization server that the person has seen. Raises ``ActionRefused``, also if the
    tool server names another one by now."""
    if find_issuer(user, server) != issuer:
        raise ActionRefused(gettext(NAMES_OTHER))
    with storage_errors(), transaction.atomic():
        enter_client(server.team, issuer, client_id=client_id, secret=secret)
        AuditEvent.objects.record(
            user,
            "tool_server.client_entered",
            target=server.team.name,
            server=server.name,
            address=issuer,
        )
