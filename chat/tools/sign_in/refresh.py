"""The access tokens of people's accounts, for the calls of a runner. Of all processes one refreshes them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from time import monotonic
from uuid import UUID

from django.utils.translation import gettext_noop

from chat.core.errors import is_database_unavailable
from chat.core.threads import DatabaseThreads
from chat.tools.kinds import CallFailed, NeedsSignIn
from chat.tools.sign_in import accounts, tokens
from chat.tools.sign_in.accounts import Claim, Credential
from chat.tools.sign_in.clients import forget_client
from chat.tools.sign_in.metadata import SignInFailed
from chat.upstreams.client import Client
from chat.upstreams.configured import is_at_private_address, public_client

logger = logging.getLogger(__name__)

# How long a process waits for the refresh of another one, and the pauses between its looks, which grow. A request takes
# 10 seconds at most.
LOOK_SECONDS = 0.1
LONGEST_LOOK_SECONDS = 2.0
WAIT_SECONDS = 20.0
# The pause after which new tokens are stored again if the database was unavailable, and how long before the end of the
# claim that stops: another process may then send the old refresh token.
AGAIN_SECONDS = 1.0
MARGIN_SECONDS = 5.0

AGAIN = gettext_noop("Sign in again at this server.")
NOT_ACCEPTED = gettext_noop("The server no longer accepts the sign-in. Sign in again.")
UNAVAILABLE = gettext_noop("The sign-in at the server couldn’t be renewed. Try again later.")


class AccountTokens:
    """Tokens of accounts. Its refreshes go on when the calls that wait for them are cancelled: an answer that nobody
    stores would end the account."""

    def __init__(self, *, client: Client, threads: DatabaseThreads) -> None:
        self._client = client
        self._threads = threads
        self._refreshes: set[asyncio.Task[None]] = set()
        # The calls of this process that need new tokens for one version of an account wait for the same task.
        self._renewals: dict[tuple[int, int], asyncio.Task[Credential]] = {}

    async def usable(self, account: int) -> Credential:
        """A credential that is valid for a while. Raises ``NeedsSignIn``, or ``CallFailed`` if it can't be renewed now."""
        credential = await self._read(account)
        return await self._renewed(credential) if credential.is_expired else credential

    async def after_refusal(self, refused: Credential) -> Credential:
        """The credential to try once more with, after the server has refused this one. Raises as ``usable`` does."""
        return await self._renewed(refused)

    async def give_up(self, refused: Credential) -> None:
        """The server has refused a token that is new: no further one is asked for."""
        await self._threads.call(
            accounts.end_account, refused.account, refused.version, NOT_ACCEPTED
        )

    async def want_scopes(self, refused: Credential, scopes: Sequence[str]) -> bool:
        """The server wants more scopes than the token has. True if the next sign-in asks for them; false for none, and for
        those that were asked for already."""
        if not scopes:
            return False
        return await self._threads.call(
            accounts.want_scopes, refused.account, refused.version, scopes
        )

    async def aclose(self) -> None:
        """Waits for the refreshes that are under way."""
        for renewal in self._renewals.values():
            renewal.cancel()
        if tasks := {*self._renewals.values(), *self._refreshes}:
            await asyncio.wait(tasks)

    async def _read(self, account: int) -> Credential:
        credential = await self._threads.call(accounts.read_credential, account)
        if credential is None:
            raise NeedsSignIn(AGAIN)
        return credential

    async def _renewed(self, old: Credential) -> Credential:
        key = (old.account, old.version)
        task = self._renewals.get(key)
        if task is None:
            task = self._renewals[key] = asyncio.create_task(self._renew(old))
            task.add_done_callback(lambda done: self._forget(key, done))
        return await asyncio.shield(task)

    def _forget(self, key: tuple[int, int], done: asyncio.Task[Credential]) -> None:
        del self._renewals[key]
        if not done.cancelled():
            # All calls that waited for it may be gone.
            done.exception()

    async def _renew(self, old: Credential) -> Credential:
        """Refreshes, or waits until somebody has. The tokens of a version are sent to their issuer once."""
        pause = LOOK_SECONDS
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                while True:
                    now = await self._read(old.account)
                    if now.version != old.version:
                        return now
                    if not await self._try_to_refresh(now):
                        await asyncio.sleep(pause)
                        pause = min(pause * 2, LONGEST_LOOK_SECONDS)
        except TimeoutError:
            raise CallFailed(UNAVAILABLE) from None

    async def _try_to_refresh(self, credential: Credential) -> bool:
        """False if somebody else does it."""
        if not credential.refresh:
            await self.give_up(credential)
            return True
        # Before the claim is made, so that this clock is ahead of the claim's.
        ends_at = monotonic() + accounts.LOST_AFTER.total_seconds() - MARGIN_SECONDS
        claim = await self._threads.call(
            accounts.claim_refresh, credential.account, credential.version
        )
        if claim == Claim.PAUSED:
            raise CallFailed(UNAVAILABLE)
        if isinstance(claim, Claim):
            return False
        task = asyncio.create_task(self._refresh(credential, claim, ends_at))
        self._refreshes.add(task)
        task.add_done_callback(self._refreshes.discard)
        await asyncio.shield(task)
        return True

    @asynccontextmanager
    async def _client_for(self, credential: Credential) -> AsyncIterator[Client]:
        """Private addresses are for a server that is at one itself."""
        if await is_at_private_address(credential.resource):
            yield self._client
        else:
            async with public_client() as client:
                yield client

    async def _refresh(self, credential: Credential, claim: UUID, ends_at: float) -> None:
        """Sends one request, and stores what it gave. The outcome is in the account's row."""
        try:
            async with self._client_for(credential) as client:
                fresh = await tokens.refresh(
                    client,
                    credential.client,
                    credential.token_endpoint,
                    token=credential.refresh,
                    resource=credential.resource,
                )
        except tokens.Ended as ended:
            logger.info("tool_account.ended account=%d", credential.account)
            if isinstance(ended, tokens.ClientUnknown):
                await self._threads.call(forget_client, credential.client)
            await self._threads.call(
                accounts.end_account, credential.account, credential.version, str(ended)
            )
            return
        except SignInFailed:
            # Also if the answer was lost: at worst the next request finds that the token was used up.
            logger.warning("tool_account.unrefreshed account=%d", credential.account)
            await self._threads.call(accounts.release, credential, claim)
            return
        if await self._store(credential, claim, fresh, ends_at):
            logger.info("tool_account.refreshed account=%d", credential.account)
        else:
            await self._revoke(credential, fresh)

    async def _store(
        self, credential: Credential, claim: UUID, fresh: tokens.Tokens, ends_at: float
    ) -> bool:
        """The old tokens are used up, so an unavailable database is waited for, as long as the claim holds."""
        while True:
            try:
                return bool(
                    await self._threads.call(accounts.store_refreshed, credential, claim, fresh)
                )
            except Exception as error:
                if not is_database_unavailable(error):
                    raise
            if monotonic() + AGAIN_SECONDS > ends_at:
                return False
            await asyncio.sleep(AGAIN_SECONDS)

    async def _revoke(self, credential: Credential, fresh: tokens.Tokens) -> None:
        """Somebody has disconnected the account meanwhile, and couldn't revoke these tokens."""
        if not credential.revocation_endpoint:
            return
        both = {"access": fresh.access, "refresh": fresh.refresh}
        try:
            async with self._client_for(credential) as client:
                await tokens.revoke(client, credential.client, credential.revocation_endpoint, both)
        except SignInFailed:
            logger.warning("tool_account.unrevoked account=%d", credential.account)
