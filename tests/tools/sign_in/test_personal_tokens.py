"""Calls that use somebody's account: whose token is sent."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from chat.models import (
    Conversation,
    Run,
    Team,
    Tool,
    ToolCredentials,
    ToolRule,
    ToolServer,
    Upstream,
    User,
)
from chat.runs.tool_calls import NOT_CONNECTED
from chat.tools import calls, claims
from chat.tools.sign_in import actions
from tests.tools.calling import (
    call_of,
    claim,
    statuses,
    waiting_run,
)
from tests.tools.calling import make_tool as make_http_tool
from tests.tools.sign_in.conftest import Connect
from tests.tools.sign_in.personal import (
    Ask,
    make_tool,
)

pytestmark = pytest.mark.django_db


def test_token_of_the_executor_is_sent_and_of_nobody_else(
    run: Run, alice: User, bob: User, connect: Connect
) -> None:
    mine, _ = connect(alice), connect(bob, "ben")
    calls.approve(alice, call_of(run))

    [claimed] = claim(run)

    assert claimed.account == mine.pk
    assert claimed.address.headers == {}
    assert "access-" not in repr(claimed)


def test_call_with_an_account_gets_no_key_of_the_team(
    run: Run, alice: User, server: ToolServer, connect: Connect
) -> None:
    server.set_headers({"Authorization": "Bearer sk-canary"})
    server.save()
    connect(alice)
    calls.approve(alice, call_of(run))

    [claimed] = claim(run)

    assert claimed.address.headers == {}


def test_account_that_was_disconnected_since_is_asked_for_again(
    run: Run, alice: User, connect: Connect
) -> None:
    account = connect(alice)
    calls.approve(alice, call_of(run))
    [claimed] = claim(run)
    actions.disconnect(alice, account)

    assert not claims.mark_sent(claimed.pk, claimed.claim)
    assert statuses(run) == [("open", "approval")]
    assert call_of(run).error == NOT_CONNECTED


def test_account_is_read_once_for_all_calls_of_an_answer(
    alice: User, conversation: Conversation, tool: Tool, ask: Ask, connect: Connect
) -> None:
    connect(alice)
    Tool.objects.update(rule=ToolRule.AUTO)
    shared = make_http_tool(tool.team, rule=ToolRule.AUTO)
    conversation.tools.add(shared)

    def statements_for(name: str, count: int) -> int:
        with CaptureQueriesContext(connection) as queries:
            run = ask(*[name] * count)
        assert statuses(run) == [("running", "queued")] * count
        return len(queries)

    def for_one_more(name: str) -> int:
        return statements_for(name, 5) - statements_for(name, 4)

    # One looks whether somebody else reads the conversation.
    assert for_one_more("whoami") <= for_one_more("weather") + 1


def test_moved_server_gets_no_token(
    run: Run, alice: User, server: ToolServer, connect: Connect
) -> None:
    connect(alice)
    calls.approve(alice, call_of(run))
    # As if the account's row had survived the change of the address.
    ToolServer.objects.update(address="http://evil.test/mcp")

    assert claim(run) == []
    # What was approved went elsewhere.
    assert statuses(run) == [("declined", "refused")]


def test_approval_with_the_key_of_the_team_is_none_for_an_account(
    alice: User, bob: User, conversation: Conversation, upstream: Upstream, team: Team
) -> None:
    shared = ToolServer.objects.create(team=team, name="Shared", address="http://a.test/mcp")
    tool = make_tool(shared)
    conversation.tools.add(tool)
    run = waiting_run(alice, conversation, upstream, "whoami")
    calls.approve(alice, call_of(run))
    ToolServer.objects.filter(pk=shared.pk).update(credentials=ToolCredentials.PERSON)

    assert claim(run) == []
    assert statuses(run) == [("declined", "refused")]
