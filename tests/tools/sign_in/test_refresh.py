"""Refreshing tokens: of all calls and processes one does it, and a refusal ends the account without a loop."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError, connections
from django.utils import timezone

from chat.core.encryption import DecryptionError
from chat.core.threads import DatabaseThreads
from chat.models import OAuthClient, ToolAccount, User
from chat.tools.kinds import CallFailed, NeedsSignIn
from chat.tools.sign_in import accounts, actions
from chat.tools.sign_in import refresh as refreshing
from chat.tools.sign_in.accounts import Claim, claim_refresh, read_credential
from chat.tools.sign_in.refresh import AccountTokens
from chat.upstreams.addresses import AddressPolicy
from chat.upstreams.client import Client, open_client
from tests.tools.sign_in.conftest import Connect
from tests.tools.sign_in.oauth_server import OAuthServer, Seen, json_reply, slow

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def account(alice: User, connect: Connect) -> ToolAccount:
    return connect(alice)


@pytest.fixture
async def threads() -> AsyncIterator[DatabaseThreads]:
    threads = DatabaseThreads("test", size=4)
    yield threads
    await threads.close()


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with open_client(AddressPolicy.parse("any")) as client:
        yield client


@pytest.fixture
def tokens(client: Client, threads: DatabaseThreads) -> AccountTokens:
    return AccountTokens(client=client, threads=threads)


async def expire(account: ToolAccount) -> None:
    past = timezone.now() - timedelta(seconds=1)
    await ToolAccount.objects.filter(pk=account.pk).aupdate(expires_at=past)


# --- one refresh ------------------------------------------------------------------------------------


async def test_valid_token_is_used_as_it_is(
    account: ToolAccount, tokens: AccountTokens, oauth: OAuthServer
) -> None:
    credential = await tokens.usable(account.pk)

    assert credential.access in oauth.families[0].access
    assert oauth.refreshes == []


async def test_many_calls_and_one_expiry_make_one_refresh(
    account: ToolAccount, client: Client, threads: DatabaseThreads, oauth: OAuthServer
) -> None:
    await expire(account)
    oauth.before_token = slow(0.3)
    # Each stands for a runner: they share nothing but the database.
    runners = [AccountTokens(client=client, threads=threads) for _ in range(6)]

    found = await asyncio.gather(*(each.usable(account.pk) for each in runners))

    assert len(oauth.refreshes) == 1
    assert oauth.refreshes[0].form["resource"] == oauth.mcp
    assert {each.access for each in found} == oauth.families[0].access
    assert {each.version for each in found} == {2}
    assert not oauth.families[0].is_revoked


async def test_calls_of_a_process_wait_together_and_look_less_and_less_often(
    account: ToolAccount,
    tokens: AccountTokens,
    threads: DatabaseThreads,
    monkeypatch: pytest.MonkeyPatch,
    oauth: OAuthServer,
) -> None:
    """Another process has claimed the refresh, and is slow."""
    await expire(account)
    claim = await threads.call(claim_refresh, account.pk, 1)
    old = await threads.call(read_credential, account.pk)
    looks: list[int] = []
    pauses: list[float] = []

    def read(pk: int) -> Any:
        looks.append(pk)
        return read_credential(pk)

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 7:
            fresh = refreshing.tokens.Tokens(access="next", refresh="next", seconds=600)
            await threads.call(accounts.store_refreshed, old, claim, fresh)

    monkeypatch.setattr(refreshing.accounts, "read_credential", read)
    monkeypatch.setattr(refreshing.asyncio, "sleep", pause)

    found = await asyncio.gather(*(tokens.after_refusal(old) for _ in range(20)))

    assert {each.access for each in found} == {"next"}
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0]
    assert len(looks) == len(pauses) + 1
    assert oauth.refreshes == []


async def test_tokens_are_stored_only_as_long_as_the_claim_holds(
    account: ToolAccount,
    tokens: AccountTokens,
    monkeypatch: pytest.MonkeyPatch,
    oauth: OAuthServer,
) -> None:
    await expire(account)
    now = [0.0]
    tries: list[float] = []

    def fails(*_: object) -> bool:
        # A database that takes long to say that it is unavailable.
        tries.append(now[0])
        now[0] += 13
        raise OperationalError

    monkeypatch.setattr(refreshing, "monotonic", lambda: now[0])
    monkeypatch.setattr(refreshing, "is_database_unavailable", lambda error: True)
    monkeypatch.setattr(refreshing, "AGAIN_SECONDS", 0.01)
    monkeypatch.setattr(refreshing.accounts, "store_refreshed", fails)
    monkeypatch.setattr(refreshing, "WAIT_SECONDS", 2.0)

    with pytest.raises(CallFailed):
        await tokens.usable(account.pk)
    await tokens.aclose()

    assert tries == [0, 13, 26, 39, 52]
    assert all(moment < accounts.LOST_AFTER.total_seconds() for moment in tries)
    assert len(oauth.refreshes) == 1
    # What nobody could store is used by nobody.
    assert oauth.families[0].is_revoked


async def test_calls_that_were_refused_at_once_make_one_refresh(
    account: ToolAccount, client: Client, threads: DatabaseThreads, oauth: OAuthServer
) -> None:
    runners = [AccountTokens(client=client, threads=threads) for _ in range(4)]
    refused = [await each.usable(account.pk) for each in runners]
    oauth.expire_access()

    found = await asyncio.gather(
        *(each.after_refusal(old) for each, old in zip(runners, refused, strict=True))
    )

    assert len(oauth.refreshes) == 1
    assert {each.version for each in found} == {2}


def _refresh_in_process(pk: int, results: Any) -> None:
    """What a runner does, in a process of its own."""
    connections.close_all()

    async def refresh() -> int:
        threads = DatabaseThreads("other", size=1)
        async with open_client(AddressPolicy.parse("any")) as client:
            try:
                return (await AccountTokens(client=client, threads=threads).usable(pk)).version
            finally:
                await threads.close()

    results.put(asyncio.run(refresh()))


def test_two_processes_make_one_refresh(account: ToolAccount, oauth: OAuthServer) -> None:
    past = timezone.now() - timedelta(seconds=1)
    ToolAccount.objects.filter(pk=account.pk).update(expires_at=past)
    oauth.before_token = slow(0.5)
    connections.close_all()
    context = multiprocessing.get_context("fork")
    results: Any = context.Queue()
    processes = [
        context.Process(target=_refresh_in_process, args=(account.pk, results)) for _ in range(2)
    ]
    for process in processes:
        process.start()
    versions = [results.get(timeout=60) for _ in processes]
    for process in processes:
        process.join(60)

    assert versions == [2, 2]
    assert len(oauth.refreshes) == 1


async def test_refresh_goes_on_when_its_call_is_cancelled(
    account: ToolAccount, tokens: AccountTokens, oauth: OAuthServer
) -> None:
    await expire(account)
    arrived = asyncio.Event()
    loop = asyncio.get_running_loop()

    def waits(request: Seen) -> None:
        loop.call_soon_threadsafe(arrived.set)
        slow(0.3)(request)

    oauth.before_token = waits
    call = asyncio.ensure_future(tokens.usable(account.pk))
    await arrived.wait()
    call.cancel()
    await tokens.aclose()

    await account.arefresh_from_db()
    assert (account.version, account.refresh_claim) == (2, None)
    assert account.open_tokens()["access"] in oauth.families[0].access


async def test_refresh_token_stays_if_the_issuer_gives_no_new_one(
    account: ToolAccount, tokens: AccountTokens, oauth: OAuthServer
) -> None:
    before = account.open_tokens()["refresh"]
    await expire(account)
    oauth.answers["/token"] = lambda request: json_reply(
        {"access_token": "next", "token_type": "bearer", "expires_in": 0}
    )

    credential = await tokens.usable(account.pk)

    assert (credential.access, credential.refresh) == ("next", before)
    # A token that would end at once is used for a while: each call would refresh otherwise.
    assert not credential.is_expired


# --- no loops ---------------------------------------------------------------------------------------


async def test_refused_refresh_ends_the_account(
    account: ToolAccount, tokens: AccountTokens, oauth: OAuthServer
) -> None:
    await expire(account)
    oauth.families[0].is_revoked = True

    for _ in range(3):
        with pytest.raises(NeedsSignIn):
            await tokens.usable(account.pk)

    assert len(oauth.refreshes) == 1
    await account.arefresh_from_db()
    assert account.problem == "The sign-in has ended. Sign in again."


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, "invalid_request"),
        (400, "invalid_scope"),
        (400, "invalid_target"),
        (403, "access_denied"),
        (400, "unsupported_grant_type"),
        (401, "invalid_client"),
        (400, "unauthorized_client"),
    ],
)
async def test_lasting_error_ends_the_account(
    account: ToolAccount, tokens: AccountTokens, oauth: OAuthServer, status: int, error: str
) -> None:
    await expire(account)
    oauth.answers["/token"] = lambda request: json_reply({"error": error}, status)

    with pytest.raises(NeedsSignIn):
        await tokens.usable(account.pk)

    await account.arefresh_from_db()
    assert account.problem == "The sign-in has ended. Sign in again."
    # A registration that the issuer has forgotten is not used for the next sign-in.
    registered = await OAuthClient.objects.aget()
    assert (registered.expires_at is not None) is (
        error in ("invalid_client", "unauthorized_client")
    )


@pytest.mark.parametrize(
    "reply",
    [
        lambda request: (503, {}, b""),
        lambda request: (429, {}, b""),
        lambda request: json_reply({"error": "invalid_grant"}, 429),
        lambda request: json_reply({"error": "temporarily_unavailable"}, 400),
        lambda request: json_reply({"error": "slow_down"}, 400),
        lambda request: json_reply({"error": "invalid_grant"}, 500),
        lambda request: (400, {}, b"<h1>Bad Request</h1>"),
        lambda request: json_reply({"access_token": ""}),
    ],
    ids=["503", "429", "429 error", "unavailable", "slow down", "500", "no error", "no token"],
)
async def test_failure_that_may_pass_is_followed_by_a_pause(
    account: ToolAccount, tokens: AccountTokens, oauth: OAuthServer, reply: Any
) -> None:
    await expire(account)
    oauth.answers["/token"] = reply

    for _ in range(3):
        with pytest.raises(CallFailed):
            await tokens.usable(account.pk)
    assert len(oauth.refreshes) == 1

    del oauth.answers["/token"]
    past = timezone.now() - accounts.PAUSE
    await ToolAccount.objects.filter(pk=account.pk).aupdate(refresh_claimed_at=past)
    assert (await tokens.usable(account.pk)).version == 2


async def test_account_at_a_public_server_is_refreshed_at_no_private_address(
    account: ToolAccount,
    tokens: AccountTokens,
    monkeypatch: pytest.MonkeyPatch,
    oauth: OAuthServer,
) -> None:
    """What the server named when the person signed in may lead elsewhere by now."""

    async def is_private(url: str) -> bool:
        assert url == oauth.mcp
        return False

    monkeypatch.setattr(refreshing, "is_at_private_address", is_private)
    await expire(account)

    with pytest.raises(CallFailed):
        await tokens.usable(account.pk)

    assert oauth.refreshes == []


async def test_account_without_a_refresh_token_ends(
    account: ToolAccount, tokens: AccountTokens, oauth: OAuthServer
) -> None:
    account.set_tokens(access="old", refresh="")
    await account.asave()
    await expire(account)

    with pytest.raises(NeedsSignIn):
        await tokens.usable(account.pk)

    assert oauth.refreshes == []


async def test_client_of_another_issuer_is_never_used(
    account: ToolAccount, tokens: AccountTokens, oauth: OAuthServer
) -> None:
    await ToolAccount.objects.filter(pk=account.pk).aupdate(issuer="https://other.test")

    with pytest.raises(NeedsSignIn):
        await tokens.usable(account.pk)


async def test_waiting_for_a_refresh_has_an_end(
    account: ToolAccount,
    tokens: AccountTokens,
    threads: DatabaseThreads,
    monkeypatch: pytest.MonkeyPatch,
    oauth: OAuthServer,
) -> None:
    monkeypatch.setattr(refreshing, "WAIT_SECONDS", 0.2)
    await expire(account)
    await threads.call(claim_refresh, account.pk, 1)

    with pytest.raises(CallFailed):
        await tokens.usable(account.pk)

    assert oauth.refreshes == []


# --- rows -------------------------------------------------------------------------------------------


def test_claim_belongs_to_one_and_passes_on_when_its_process_died(account: ToolAccount) -> None:
    first = claim_refresh(account.pk, 1)

    assert not isinstance(first, Claim)
    assert claim_refresh(account.pk, 1) == Claim.TAKEN
    ToolAccount.objects.update(refresh_claimed_at=timezone.now() - accounts.LOST_AFTER)
    second = claim_refresh(account.pk, 1)
    assert not isinstance(second, Claim)
    credential = read_credential(account.pk)
    assert credential is not None
    # The first comes back late.
    fresh = refreshing.tokens.Tokens(access="late", refresh="late", seconds=60)
    assert not accounts.store_refreshed(credential, first, fresh)
    assert accounts.store_refreshed(credential, second, fresh)
    assert claim_refresh(account.pk, 1) == Claim.TAKEN


async def test_disconnecting_in_the_middle_leaves_no_valid_token(
    account: ToolAccount,
    alice: User,
    tokens: AccountTokens,
    threads: DatabaseThreads,
    oauth: OAuthServer,
) -> None:
    await expire(account)

    def disconnects(request: Seen) -> None:
        if request.form.get("grant_type") == "refresh_token":
            asyncio.run_coroutine_threadsafe(
                threads.call(ToolAccount.objects.filter(pk=account.pk).delete), loop
            ).result()

    loop = asyncio.get_running_loop()
    oauth.before_token = disconnects

    with pytest.raises(NeedsSignIn):
        await tokens.usable(account.pk)

    assert oauth.families[0].is_revoked
    assert oauth.families[0].access == set()


def test_tokens_open_in_no_other_row(account: ToolAccount, bob: User, connect: Connect) -> None:
    other = connect(bob, "ben")
    ToolAccount.objects.filter(pk=other.pk).update(sealed_tokens=account.sealed_tokens)
    other.refresh_from_db()

    with pytest.raises(DecryptionError):
        other.open_tokens()
    assert read_credential(other.pk) is None
    other.refresh_from_db()
    assert "decrypted" in other.problem
    actions.disconnect(bob, other)
    assert ToolAccount.objects.count() == 1
