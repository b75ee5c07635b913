"""Tests of tool servers: a runner connects to a server, reads its tools and stores them, step by step.

Servers whose tools are in use are read again when their list is no longer fresh, so that changed tools are noticed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext, gettext_noop, ngettext

from chat import access
from chat.core.encryption import DecryptionError
from chat.core.threads import DatabaseThreads
from chat.events import JsonObject
from chat.models import Tool, ToolAccount, ToolRule, ToolServer, User
from chat.runs.runner import PeriodicTask
from chat.tools.kinds import CallFailed, NeedsSignIn
from chat.tools.mcp import list_tools
from chat.tools.mcp.listing import (
    LEAST_LIST_SECONDS,
    USUAL_LIST_SECONDS,
    ListingFailed,
    ListRequest,
    StepState,
    ToolListing,
)
from chat.tools.server_lists import store_listing
from chat.tools.servers import TESTS
from chat.tools.sign_in.accounts import account_for_call, bearer, need_scopes
from chat.tools.sign_in.refresh import AccountTokens
from chat.upstreams.client import Client

logger = logging.getLogger(__name__)

POLL_SECONDS = 30.0
# A server of which a process that died had begun the test is tested again after this time.
LOST_AFTER = timedelta(minutes=3)
# After this time at the latest a server is read again that couldn’t be read.
READ_AGAIN_AFTER = timedelta(seconds=USUAL_LIST_SECONDS)
AT_ONCE = 4
# How often a step that was made is written, so that pages show it.
SHOWN_SECONDS = 0.3
# Names of tools that a sentence lists.
NAMED_TOOLS = 5

HEADERS_UNREADABLE = gettext_noop(
    "The stored headers can’t be decrypted with this installation’s encryption keys. Enter them again."
)

NO_ACCOUNT = gettext_noop(
    "Connect your account at this server. Its tools are read with the account of the person who tests it."
)
BROKEN = gettext_noop("The test failed because of an error in Tributary.")


@dataclass(slots=True)
class ServerTest:
    """A server whose test this process has claimed."""

    server: ToolServer
    claimed_at: datetime
    # The person with whose account the list is read.
    person: User | None = None
    steps: list[JsonObject] = field(default_factory=list)

    def step(self, name: str, outcome: StepState, text: str) -> None:
        """Adds a step, or replaces it if it was the last one."""
        made: JsonObject = {"name": name, "outcome": outcome, "text": text}
        if self.steps and self.steps[-1]["name"] == name:
            self.steps[-1] = made
        else:
            self.steps.append(made)


def _make(client: Client, threads: DatabaseThreads) -> Callable[[], Awaitable[None]]:
    async def test_due() -> None:
        while tests := await threads.call(claim_due):
            async with asyncio.TaskGroup() as group:
                for test in tests:
                    group.create_task(run_test(client, threads, test))

    return test_due


TEST_SERVERS = PeriodicTask(topic=TESTS, seconds=POLL_SECONDS, make=_make)


async def run_test(client: Client, threads: DatabaseThreads, test: ServerTest) -> None:
    """Tests one server. If it is cancelled, the test is given back."""
    showing = asyncio.ensure_future(_show_steps(threads, test))
    listing: ToolListing | None = None
    try:
        listing = await _read(client, threads, test)
    except asyncio.CancelledError:
        await threads.call(give_back, test)
        raise
    except Exception as error:
        _log_error("test", test, error)
        test.step("tools", "failed", BROKEN)
    finally:
        showing.cancel()
        await asyncio.gather(showing, return_exceptions=True)
    await _end(threads, test, listing)


async def _end(threads: DatabaseThreads, test: ServerTest, listing: ToolListing | None) -> None:
    """Its errors must not stop other tests. If the database refuses the report, there is one without its words; if that
    fails as well, the server is tested again after a while."""
    for stored in (listing, None):
        try:
            await threads.call(end_test, test, stored)
            return
        except Exception as error:
            _log_error("report", test, error)
        test.steps.clear()
        test.step("tools", "failed", BROKEN)


def _log_error(step: str, test: ServerTest, error: Exception) -> None:
    # The text may have what the server sent.
    logger.error(
        "tool_server.broken server=%s step=%s error=%s",
        *(test.server.public_id, step, type(error).__name__),
    )


async def _read(client: Client, threads: DatabaseThreads, test: ServerTest) -> ToolListing | None:
    try:
        if test.server.signs_in_people:
            listing = await _list_signed_in(client, threads, test)
        else:
            listing = await _list(client, test, test.server.open_headers())
    except DecryptionError:
        test.step("connect", "failed", HEADERS_UNREADABLE)
        return None
    except ListingFailed:
        return None
    except (NeedsSignIn, CallFailed) as failed:
        test.step("sign_in", "failed", str(failed))
        return None
    test.step("tools", "ok", _tools_sentence(listing))
    if listing.unusable:
        test.step("unusable", "warning", _unusable_sentence(listing))
    return listing


async def _list(
    client: Client, test: ServerTest, headers: Mapping[str, str], signed_in: str = ""
) -> ToolListing:
    return await list_tools(
        ListRequest(
            url=test.server.address,
            headers=headers,
            client=client,
            signed_in=signed_in,
            step=test.step,
        )
    )


async def _list_signed_in(
    client: Client, threads: DatabaseThreads, test: ServerTest
) -> ToolListing:
    """Reads the tools with the account of the person who manages the server and has tested it last. If the server refuses
    its token, there is one new token and one more try."""
    tokens = AccountTokens(client=client, threads=threads)
    account = await threads.call(_account_to_read, test.server)
    if account is None:
        raise NeedsSignIn(NO_ACCOUNT)
    test.person = account.person
    text = gettext("Signed in with the account of %(person)s.") % {"person": account.person}
    try:
        credential = await tokens.usable(account.pk)
        try:
            return await _list(client, test, bearer(credential), text)
        except ListingFailed as failed:
            if not failed.is_unauthorized:
                raise
        credential = await tokens.after_refusal(credential)
        try:
            return await _list(client, test, bearer(credential), text)
        except ListingFailed as failed:
            if failed.is_unauthorized:
                await tokens.give_up(credential)
            raise
    except ListingFailed as failed:
        if failed.missing_scopes:
            await threads.call(need_scopes, account.pk, failed.missing_scopes)
        raise
    finally:
        await tokens.aclose()


def _account_to_read(server: ToolServer) -> ToolAccount | None:
    """It must be that of somebody who manages the server now."""
    person = server.listed_by
    if person is None or not access.may_manage_tool_servers(person, server.team):
        return None
    account = account_for_call(person, server)
    if account is not None:
        account.person = person
    return account


def _tools_sentence(listing: ToolListing) -> str:
    number = len(listing.tools)
    if listing.is_cut:
        text = gettext("The server has more tools than are read. The first %(count)d can be used.")
        return text % {"count": number}
    words = ngettext("The server has %(count)d tool.", "The server has %(count)d tools.", number)
    return words % {"count": number}


def _unusable_sentence(listing: ToolListing) -> str:
    named = [f"{name} ({reason})" for name, reason in listing.unusable[:NAMED_TOOLS]]
    if len(listing.unusable) > NAMED_TOOLS:
        named.append("…")
    return gettext("Left out: %(tools)s.") % {"tools": ", ".join(named)}


async def _show_steps(threads: DatabaseThreads, test: ServerTest) -> None:
    shown: list[JsonObject] = []
    while True:
        if test.steps != shown:
            shown = list(test.steps)
            await threads.call(store_steps, test, shown)
        await asyncio.sleep(SHOWN_SECONDS)


# --- in threads -----------------------------------------------------------------------------------


def claim_due() -> list[ServerTest]:
    """Servers whose test this process makes from now on."""
    now = timezone.now()
    is_free = Q(test_claimed_at=None) | Q(test_claimed_at__lt=now - LOST_AFTER)
    is_used = Exists(Tool.objects.filter(server=OuterRef("pk")).exclude(rule=ToolRule.OFF))
    # The demo belongs to this version, and `make run` is to load no library for it.
    is_old = Q(is_used, is_enabled=True, is_demo=False, tested_at__isnull=False)
    # Earlier versions stored no time.
    is_old &= Q(list_expires_at=None) | Q(list_expires_at__lt=now)
    due = ToolServer.objects.filter(is_free, Q(test_queued_at__isnull=False) | is_old)
    tests = []
    for server in due.order_by(F("test_queued_at").asc(nulls_last=True), "pk")[:AT_ONCE]:
        row = ToolServer.objects.filter(
            pk=server.pk,
            test_claimed_at=server.test_claimed_at,
            test_queued_at=server.test_queued_at,
        )
        if row.update(test_claimed_at=now):
            server.refresh_from_db()
            tests.append(ServerTest(server, now))
    return tests


def _held(test: ServerTest) -> QuerySet[ToolServer]:
    """The row, as long as nobody has changed the server or taken the test."""
    return ToolServer.objects.filter(pk=test.server.pk, test_claimed_at=test.claimed_at)


def store_steps(test: ServerTest, steps: list[JsonObject]) -> None:
    # A server that is read again keeps its last report until the new one is whole.
    _held(test).filter(test_queued_at__isnull=False).update(test=steps)


def give_back(test: ServerTest) -> None:
    _held(test).update(test_claimed_at=None)


def _pause_after_failure(test: ServerTest) -> timedelta:
    """Twice the time of the last one: a server that is down is asked less and less often, and one that wants to be read
    soon after a short failure soon."""
    server = test.server
    if server.tested_at is None or server.list_expires_at is None:
        return READ_AGAIN_AFTER
    last = max(server.list_expires_at - server.tested_at, timedelta(seconds=LEAST_LIST_SECONDS))
    return min(2 * last, READ_AGAIN_AFTER)


def end_test(test: ServerTest, listing: ToolListing | None) -> None:
    """Stores the report, and the tools if they were read. A server that was removed or changed meanwhile stays as it is."""
    now = timezone.now()
    values: dict[str, object] = {}
    fresh = timedelta(seconds=listing.fresh_seconds) if listing else _pause_after_failure(test)
    if listing is not None:
        values = {
            "protocol": listing.protocol,
            "has_private_list": test.person is not None and not listing.is_public,
            "list_person": test.person,
        }
    with transaction.atomic():
        ended = _held(test).update(
            test=test.steps, tested_at=now, test_queued_at=None, test_claimed_at=None, **values
        )
        # If the server has told meanwhile that its list has changed, this one is stale already.
        same = ToolServer.objects.filter(list_expires_at=test.server.list_expires_at)
        if ended:
            same.filter(pk=test.server.pk).update(list_expires_at=now + fresh)
        if ended and listing is not None:
            store_listing(test.server, listing)
    logger.info(
        "tool_server.tested server=%s has_tools=%s", test.server.public_id, listing is not None
    )
