"""The end of accounts: their rows are deleted, then their tokens are revoked at the issuers.

Revoking is best effort: it happens once, after the commit, in threads of its own, and nobody waits for it.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from django.db import transaction
from django.db.models import QuerySet

from chat.core.encryption import DecryptionError
from chat.models import OAuthClient, ToolAccount
from chat.tools.sign_in import tokens
from chat.tools.sign_in.metadata import SignInFailed
from chat.upstreams.configured import client_for_found

logger = logging.getLogger(__name__)

# The time of an account's requests together, and how many accounts wait for their turn at most.
REVOKE_SECONDS = 8.0
MOST_WAITING = 500
THREADS = 2

_queued: queue.Queue[Callable[[], None]] = queue.Queue(MOST_WAITING)
_threads: list[threading.Thread] = []
_lock = threading.Lock()


def end_accounts(accounts: QuerySet[ToolAccount]) -> Sequence[ToolAccount]:
    """Deletes these accounts, and revokes their tokens after the commit. Returns what was deleted. Call it in a
    transaction."""
    rows = accounts.select_for_update(of=("self",)).select_related(
        "client", "server__team", "person"
    )
    ended = list(rows.order_by("pk"))
    ToolAccount.objects.filter(pk__in=[account.pk for account in ended]).delete()
    for account in ended:
        revoke_account(account)
    return ended


def revoke_account(account: ToolAccount) -> None:
    """Revokes the tokens that this row has now, after the commit."""
    if account.client.issuer != account.issuer:
        return
    try:
        held = account.open_tokens()
    except DecryptionError:
        return
    revoke_later(account.client, account.revocation_endpoint, held, server=account.resource)


def revoke_later(
    client: OAuthClient, endpoint: str, held: Mapping[str, str], *, server: str
) -> None:
    """Revokes tokens for the tool server at this address, after the commit."""
    if endpoint:
        transaction.on_commit(partial(_queue, client, endpoint, held, server))


def _queue(client: OAuthClient, endpoint: str, held: Mapping[str, str], server: str) -> None:
    try:
        _queued.put_nowait(partial(_revoke, client, endpoint, held, server))
    except queue.Full:
        logger.warning("tool_account.unrevoked client=%d", client.pk or 0)
        return
    with _lock:
        if len(_threads) < THREADS:
            # A stopping process doesn't wait for strangers.
            thread = threading.Thread(target=_work, name="token-revocation", daemon=True)
            _threads.append(thread)
            thread.start()


def _work() -> None:
    while True:
        revoke = _queued.get()
        try:
            revoke()
        finally:
            _queued.task_done()


def wait_for_revocations() -> None:
    """Waits until everything that is queued in this process has been tried."""
    _queued.join()


def _revoke(client: OAuthClient, endpoint: str, held: Mapping[str, str], server: str) -> None:
    try:
        asyncio.run(_ask(client, endpoint, held, server))
    except (SignInFailed, TimeoutError):
        logger.warning("tool_account.unrevoked client=%d", client.pk or 0)
    except Exception as error:
        logger.error(
            "tool_account.unrevoked client=%d error=%s", client.pk or 0, type(error).__name__
        )


async def _ask(client: OAuthClient, endpoint: str, held: Mapping[str, str], server: str) -> None:
    async with asyncio.timeout(REVOKE_SECONDS), await client_for_found(server) as requests:
        await tokens.revoke(requests, client, endpoint, held)
