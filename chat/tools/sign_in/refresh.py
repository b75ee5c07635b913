"""The access tokens of people's accounts, for the calls of a runner. Of all processes one refreshes them."""

from __future__ import annotations

import asyncio
import logging
from uuid import UUID

from django.utils.translation import gettext_noop

from chat.core.errors import is_database_unavailable
from chat.core.threads import DatabaseThreads
from chat.tools.kinds import CallFailed, NeedsSignIn
from chat.tools.sign_in import accounts, tokens
from chat.tools.sign_in.accounts import Claim, Credential
from chat.tools.sign_in.metadata import SignInFailed
from chat.upstreams.client import Client

logger = logging.getLogger(__name__)

# How often, and how long, a call waits for the refresh of another one. A request takes 10 seconds at most.
LOOK_SECONDS = 0.1
WAIT_SECONDS = 20.0
# How often new tokens are stored if the database is unavailable, and the time between.
STORE_ATTEMPTS = 40
AGAIN_SECONDS = 1.0

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

    async def aclose(self) -> None:
        """Waits for the refreshes that are under way."""
        if self._refreshes:
            await asyncio.wait(self._refreshes)

    async def _read(self, account: int) -> Credential:
        credential = await self._threads.call(accounts.read_credential, account)
        if credential is None:
            raise NeedsSignIn(AGAIN)
        return credential

    async def _renewed(self, old: Credential) -> Credential:
        """Refreshes, or waits until somebody has. The tokens of a version are sent to their issuer once."""
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                while True:
                    now = await self._read(old.account)
                    if now.version != old.version:
                        return now
                    await self._try_to_refresh(now)
        except TimeoutError:
            raise CallFailed(UNAVAILABLE) from None

    async def _try_to_refresh(self, credential: Credential) -> None:
        if not credential.refresh:
            await self.give_up(credential)
            return
        claim = await self._threads.call(
            accounts.claim_refresh, credential.account, credential.version
        )
        if claim == Claim.PAUSED:
            raise CallFailed(UNAVAILABLE)
        if isinstance(claim, Claim):
            await asyncio.sleep(LOOK_SECONDS)
            return
        task = asyncio.create_task(self._refresh(credential, claim))
        self._refreshes.add(task)
        task.add_done_callback(self._refreshes.discard)
        await asyncio.shield(task)

    async def _refresh(self, credential: Credential, claim: UUID) -> None:
        """Sends one request, and stores what it gave. The outcome is in the account's row."""
        try:
            fresh = await tokens.refresh(
                self._client,
                credential.client,
                credential.token_endpoint,
                token=credential.refresh,
                resource=credential.resource,
            )
        except tokens.Ended as ended:
            logger.info("tool_account.ended account=%d", credential.account)
            await self._threads.call(
                accounts.end_account, credential.account, credential.version, str(ended)
            )
            return
        except SignInFailed:
            # Also if the answer was lost: at worst the next request finds that the token was used up.
            logger.warning("tool_account.unrefreshed account=%d", credential.account)
            await self._threads.call(accounts.release, credential, claim)
            return
        if await self._store(credential, claim, fresh):
            logger.info("tool_account.refreshed account=%d", credential.account)
        else:
            await self._revoke(credential, fresh)

    async def _store(self, credential: Credential, claim: UUID, fresh: tokens.Tokens) -> bool:
        """The old tokens are used up, so an unavailable database is waited for, as long as the claim holds."""
        for _ in range(STORE_ATTEMPTS):
            try:
                return bool(
                    await self._threads.call(accounts.store_refreshed, credential, claim, fresh)
                )
            except Exception as error:
                if not is_database_unavailable(error):
                    raise
            await asyncio.sleep(AGAIN_SECONDS)
        return False

    async def _revoke(self, credential: Credential, fresh: tokens.Tokens) -> None:
        """Somebody has disconnected the account meanwhile, and couldn't revoke these tokens."""
        if not credential.revocation_endpoint:
            return
        both = {"access": fresh.access, "refresh": fresh.refresh}
        try:
            await tokens.revoke(
                self._client, credential.client, credential.revocation_endpoint, both
            )
        except SignInFailed:
            logger.warning("tool_account.unrevoked account=%d", credential.account)
