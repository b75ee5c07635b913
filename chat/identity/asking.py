"""Requests to providers: their metadata, keys, tokens and information about people.

They go through our own client, which checks addresses. Each is bounded in time, and so is their number: every one of
them holds one of the few places of a web process.
"""

from __future__ import annotations

import asyncio
import base64
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar
from urllib.parse import quote

from asgiref.sync import async_to_sync
from django.conf import settings
from django.utils.translation import gettext_noop

from chat.core.encryption import DecryptionError
from chat.events import JsonObject
from chat.identity.metadata import NO_DOCUMENT, Metadata, document_address, read_metadata
from chat.identity.tokens import VerifyingKey, read_keys
from chat.models import IdentityProvider
from chat.tools.sign_in.documents import UNREACHABLE, Answer, get, post_form
from chat.tools.sign_in.metadata import SignInFailed
from chat.upstreams.client import Client
from chat.upstreams.configured import client_for_found

Found = TypeVar("Found")

# The time of all requests of one sign-in together.
ASK_SECONDS = 10.0
# Half of the places of a web process: other people go on reading while a provider is slow.
AT_ONCE = 2
TURN_SECONDS = 5.0
# Other keys of a provider are noticed at once; other addresses after so long.
METADATA_SECONDS = 300.0
KEYS_SECONDS = 600.0
# Tokens with invented names of keys must not make us ask a provider for each of them.
RELOAD_SECONDS = 20.0
# Requests that anybody can send must not wait for a provider that doesn't answer, one after the other.
FAILED_SECONDS = 5.0
MOST_KEPT = 50

BUSY = gettext_noop("Many people are signing in right now. Try again in a moment.")
LOCKED = gettext_noop("The client secret can’t be decrypted. Enter it again.")

_turns = threading.BoundedSemaphore(AT_ONCE)
_lock = threading.Lock()


@contextmanager
def _turn() -> Iterator[None]:
    if not _turns.acquire(timeout=TURN_SECONDS):
        raise SignInFailed(BUSY)
    try:
        yield
    finally:
        _turns.release()


def ask(issuer: str, question: Callable[[Client], Awaitable[Found]]) -> Found:
    """The answer to a question to this provider. A provider at a public address leads to public addresses only. Raises
    ``SignInFailed``."""

    async def run() -> Found:
        try:
            async with asyncio.timeout(ASK_SECONDS):
                async with await client_for_found(issuer) as client:
                    return await question(client)
        except TimeoutError:
            raise SignInFailed(UNREACHABLE) from None

    with _turn():
        return async_to_sync(run)()


# --- metadata and keys ------------------------------------------------------------------------------


@dataclass(slots=True)
class _Kept:
    """The knowledge of this process about a provider, with the times when it was read."""

    metadata: Metadata | None = None
    metadata_at: float = 0.0
    keys: Sequence[VerifyingKey] = ()
    keys_at: float = field(default=float("-inf"))
    failure: str = ""
    failed_at: float = float("-inf")


_known: OrderedDict[str, _Kept] = OrderedDict()


def _kept(issuer: str) -> _Kept:
    with _lock:
        found = _known.setdefault(issuer, _Kept())
        _known.move_to_end(issuer)
        while len(_known) > MOST_KEPT:
            _known.popitem(last=False)
        return found


def forget(issuer: str = "") -> None:
    """Clears the cached documents of one provider, or of all."""
    with _lock:
        if issuer:
            _known.pop(issuer, None)
        else:
            _known.clear()


def metadata_of(issuer: str) -> Metadata:
    """Raises ``SignInFailed``."""
    kept = _kept(issuer)
    if kept.metadata is not None and time.monotonic() - kept.metadata_at < METADATA_SECONDS:
        return kept.metadata
    with _failing(kept):
        document = read_document(issuer).document
        found = read_metadata(document, issuer, needs_encryption=settings.IS_SECURE)
    kept.metadata, kept.metadata_at = found, time.monotonic()
    return found


@contextmanager
def _failing(kept: _Kept) -> Iterator[None]:
    """Raises the failure of a moment ago again, without asking; or notes a new one."""
    if time.monotonic() - kept.failed_at < FAILED_SECONDS:
        raise SignInFailed(kept.failure)
    try:
        yield
    except SignInFailed as failed:
        if str(failed) != BUSY:
            kept.failure, kept.failed_at = str(failed), time.monotonic()
        raise


def read_document(issuer: str) -> Answer:
    """The discovery document as the provider sends it now. Raises ``SignInFailed``."""

    async def read(client: Client) -> Answer:
        return await get(client, document_address(issuer))

    answer = ask(issuer, read)
    if not answer.is_success or not answer.document:
        raise SignInFailed(NO_DOCUMENT)
    return answer


def keys_of(metadata: Metadata, *, is_unknown: bool = False) -> Sequence[VerifyingKey]:
    """The provider's keys. ``is_unknown``: a token names another one than those that are known, so they are read again
    if that was not done a moment ago. Raises ``SignInFailed``."""
    kept = _kept(metadata.issuer)
    age = time.monotonic() - kept.keys_at
    if age < (RELOAD_SECONDS if is_unknown else KEYS_SECONDS):
        return kept.keys
    kept.keys_at = time.monotonic()
    try:
        with _failing(kept):
            kept.keys = read_keys(read_key_document(metadata))
    except SignInFailed:
        # The known keys still verify. The next attempt waits, too.
        if not kept.keys:
            kept.keys_at = float("-inf")
            raise
    return kept.keys


def read_key_document(metadata: Metadata) -> JsonObject:
    """Raises ``SignInFailed``."""

    async def read(client: Client) -> Answer:
        return await get(client, metadata.jwks_uri)

    answer = ask(metadata.issuer, read)
    if not answer.is_success:
        raise SignInFailed(UNREACHABLE)
    return answer.document


# --- tokens and information -----------------------------------------------------------------------------


def redeem(provider: IdentityProvider, metadata: Metadata, fields: Mapping[str, str]) -> Answer:
    """The answer of the token endpoint to these fields, with our credentials. Raises ``SignInFailed``."""
    authorization, own = _credentials(provider, metadata)

    async def post(client: Client) -> Answer:
        return await post_form(
            client, metadata.token_endpoint, {**fields, **own}, authorization=authorization
        )

    return ask(metadata.issuer, post)


def _credentials(provider: IdentityProvider, metadata: Metadata) -> tuple[str, Mapping[str, str]]:
    try:
        secret = provider.open_secret()
    except DecryptionError:
        raise SignInFailed(LOCKED) from None
    if not secret:
        return "", {"client_id": provider.client_id}
    methods = metadata.auth_methods
    if "client_secret_post" in methods and "client_secret_basic" not in methods:
        return "", {"client_id": provider.client_id, "client_secret": secret}
    # RFC 6749 section 2.3.1: both are form-encoded first.
    pair = f"{quote(provider.client_id, safe='')}:{quote(secret, safe='')}"
    return "Basic " + base64.b64encode(pair.encode()).decode(), {}


def read_userinfo(metadata: Metadata, access_token: str) -> JsonObject:
    """The claims about the person beyond the ID token. Raises ``SignInFailed``."""

    async def read(client: Client) -> Answer:
        return await get(client, metadata.userinfo_endpoint, authorization=f"Bearer {access_token}")

    answer = ask(metadata.issuer, read)
    if not answer.is_success:
        raise SignInFailed(UNREACHABLE)
    return answer.document
