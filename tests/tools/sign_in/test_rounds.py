"""Answers whose calls a runner makes with somebody's token: refreshed, refused in the middle, connected while it waits."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

import pytest
from django.utils import timezone

from chat import events as canonical
from chat.models import (
    Question,
    Run,
    Team,
    Tool,
    ToolAccount,
    ToolCall,
    ToolCredentials,
    ToolRule,
    ToolServer,
    User,
)
from chat.runs import runner as runners
from chat.tools.runner import RUN_CALLS
from chat.tools.server_tests import TEST_SERVERS
from chat.tools.servers import queue_test
from chat.tools.sign_in import actions
from chat.tools.sign_in.waiting_calls import go_on_connected
from tests.runs.helpers import text_of, threads, until, until_ended
from tests.runs.waiting import calling, saying, wire_call
from tests.support.run_fixtures import MakeRun, StartRunner
from tests.support.upstream.fake import FakeUpstream
from tests.tools.calling import calls_of, follow_up_of, statuses
from tests.tools.mcp.conftest import Caller, caller  # noqa: F401
from tests.tools.sign_in.conftest import answer_in
from tests.tools.sign_in.oauth_server import OAuthServer, Reply, Seen, slow
from tests.tools.sign_in.test_personal_calls import make_tool

Begin = Callable[..., Awaitable[Run]]


@pytest.fixture(autouse=True)
def _frequent_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(runners._periodic_tasks, "tool_calls", replace(RUN_CALLS, seconds=0.02))


def connected(
    user: User,
    server: ToolServer,
    oauth: OAuthServer,
    person: str = "ana",
    *,
    question: Question | None = None,
) -> ToolAccount:
    page = actions.begin_sign_in(user, server, question=question)
    answer = answer_in(oauth.allow(page.address, person))
    account = actions.finish(user, actions.take_sign_in(user, answer["state"]), answer)
    if question is not None:
        go_on_connected(user, question)
    return account


def make_server(team: Team, oauth: OAuthServer) -> ToolServer:
    return ToolServer.objects.create(
        team=team, name="Harbor", address=oauth.mcp, credentials=ToolCredentials.PERSON
    )


@pytest.fixture
def begin(
    fake: FakeUpstream,
    make_run: MakeRun,
    start_runner: StartRunner,
    team: Team,
    alice: User,
    oauth: OAuthServer,
) -> Begin:
    async def begin(*, calls: int = 1, is_connected: bool = True, is_expired: bool = False) -> Run:
        """Queues Alice's answer, which calls the tool that runs by itself."""
        server = await threads.call(make_server, team, oauth)
        tool = await threads.call(make_tool, server, ToolRule.AUTO)
        if is_connected:
            await threads.call(connected, alice, server, oauth)
        if is_expired:
            await threads.call(ToolAccount.objects.update, expires_at=timezone.now())
            oauth.expire_access()
        wanted = [wire_call(at, f"c{at}", "whoami", json.dumps({})) for at in range(calls)]
        fake.script(calling(*wanted), saying("Done."))
        run = await threads.call(
            make_run, "Hello", dialect="openai_chat", base_url=f"{fake.url}/v1", tools=[tool]
        )
        await start_runner()
        return run

    return begin


async def ended(run: Run) -> Run:
    await until(lambda: follow_up_of(run) is not None)
    follow_up = await threads.call(follow_up_of, run)
    assert follow_up is not None
    return await until_ended(follow_up)


def outputs(run: Run) -> list[str | None]:
    items = canonical.decode_result(run.result).output
    return [each.output for each in items if isinstance(each, canonical.ToolCallItem)]


async def test_call_is_made_with_the_token_of_its_executor(
    begin: Begin, oauth: OAuthServer
) -> None:
    follow_up = await ended(await begin())

    assert text_of(follow_up) == "Done."
    item = canonical.decode_result(follow_up.result).output[0]
    assert "You are ana" in item.output
    assert (item.execution.server, item.execution.credential) == ("Harbor", "Alice")
    assert oauth.calls == ["ana"]
    assert "access-" not in str(canonical.decode_result(follow_up.result))
    # A token is sent to its server, and to nobody else.
    assert {each.path for each in oauth.requests if "authorization" in each.headers} == {"/mcp"}


async def test_calls_at_once_after_an_expiry_make_one_refresh(
    begin: Begin, oauth: OAuthServer
) -> None:
    oauth.before_token = slow(0.2)
    run = await begin(calls=4, is_expired=True)

    await ended(run)

    assert oauth.calls == ["ana"] * 4
    assert len(oauth.refreshes) == 1


async def test_refusal_in_the_middle_is_followed_by_one_new_token_and_one_more_try(
    begin: Begin, oauth: OAuthServer
) -> None:
    refused: list[str] = []

    def refuse_the_first_call(request: Seen) -> Reply:
        is_call = request.json.get("method") == "tools/call"
        if is_call and not refused:
            refused.append(request.headers["authorization"])
            oauth.expire_access()
        return oauth._call(request)

    oauth.answers["/mcp"] = refuse_the_first_call
    run = await begin()

    follow_up = await ended(run)

    assert "You are ana" in str(outputs(follow_up)[0])
    assert oauth.calls == ["ana"]
    assert len(oauth.refreshes) == 1
    [call] = await threads.call(calls_of, run)
    assert call.attempt == 1


async def test_refused_call_has_not_run_while_a_new_token_is_missing(
    begin: Begin, oauth: OAuthServer
) -> None:
    def refuse(request: Seen) -> Reply:
        if request.json.get("method") != "tools/call":
            return oauth._call(request)
        oauth.expire_access()
        return oauth.challenge()

    oauth.answers["/mcp"] = refuse
    oauth.answers["/token"] = lambda request: (
        (503, {}, b"")
        if request.form.get("grant_type") == "refresh_token"
        else oauth._token(request)
    )
    run = await begin()

    await ended(run)

    [call] = await threads.call(calls_of, run)
    assert (call.status, call.sent_at) == ("failed", None)


async def test_task_of_a_call_is_canceled_with_the_token_of_its_executor(
    begin: Begin, oauth: OAuthServer
) -> None:
    run = await begin()
    await ended(run)
    [call] = await threads.call(calls_of, run)
    oauth.requests.clear()
    await ToolCall.objects.filter(pk=call.pk).aupdate(sealed_task=call.seal_task("task-1"))

    await until(lambda: bool(oauth.sent("/mcp")))

    assert oauth.sent("/mcp")[0].headers["authorization"].startswith("Bearer access-")


async def test_server_that_refuses_every_token_is_asked_no_further(
    begin: Begin, oauth: OAuthServer
) -> None:
    oauth.answers["/mcp"] = lambda request: oauth.challenge()
    run = await begin()

    await until(lambda: statuses(run) == [("open", "approval")])

    account = await ToolAccount.objects.aget()
    assert account.problem == "The server no longer accepts the sign-in. Sign in again."
    assert len(oauth.refreshes) == 1
    assert oauth.calls == []


@pytest.mark.parametrize("is_granted", [True, False])
async def test_call_that_needs_more_scopes_asks_its_person_once(
    begin: Begin, alice: User, oauth: OAuthServer, is_granted: bool
) -> None:
    oauth.resource = {"scopes_supported": ["level:read"]}
    may_call = False

    def refuse(request: Seen) -> Reply:
        if request.json.get("method") != "tools/call" or may_call:
            return oauth._call(request)
        named = 'Bearer error="insufficient_scope", scope="gate:write"'
        return 403, {"WWW-Authenticate": named}, b""

    oauth.answers["/mcp"] = refuse
    run = await begin()
    await until(lambda: statuses(run) == [("open", "approval")])
    account = await ToolAccount.objects.aget()
    assert account.problem == "The server wants more permissions for this. Sign in again."
    [call] = await threads.call(calls_of, run)
    assert call.sent_at is None

    may_call = is_granted
    server, question = await ToolServer.objects.aget(), await Question.objects.aget()
    account = await threads.call(partial(connected, alice, server, oauth, question=question))

    # Also those that it had.
    assert account.scope == "gate:write level:read"
    follow_up = await ended(run)
    is_done = "You are ana" in str(outputs(follow_up)[0])
    assert is_done == is_granted
    assert oauth.calls == (["ana"] if is_granted else [])


async def test_next_sign_in_asks_the_server_again_where_to_sign_in(
    begin: Begin, alice: User, oauth: OAuthServer
) -> None:
    await ended(await begin())
    server = await ToolServer.objects.aget()
    document = "/.well-known/oauth-protected-resource/mcp"
    asked = len(oauth.sent(document))
    await threads.call(partial(connected, alice, server, oauth))
    assert len(oauth.sent(document)) == asked

    await ToolAccount.objects.aupdate(problem="The sign-in has ended. Sign in again.")
    await threads.call(partial(connected, alice, server, oauth))

    assert len(oauth.sent(document)) > asked


async def test_call_waits_until_its_executor_connects(
    begin: Begin, alice: User, oauth: OAuthServer
) -> None:
    run = await begin(is_connected=False)
    await until(lambda: statuses(run) == [("open", "approval")])
    assert oauth.requests == []

    server = await ToolServer.objects.aget()
    question = await Question.objects.aget()
    await threads.call(partial(connected, alice, server, oauth, question=question))

    follow_up = await ended(run)
    assert "You are ana" in str(outputs(follow_up)[0])


# --- the list of tools ------------------------------------------------------------------------------


@pytest.fixture
def listed_server(team: Team, oauth: OAuthServer) -> ToolServer:
    return make_server(team, oauth)


@pytest.mark.django_db(transaction=True)
async def test_tools_are_read_with_the_account_of_whoever_tests(
    caller: Caller,  # noqa: F811
    listed_server: ToolServer,
    administrator: User,
    alice: User,
    oauth: OAuthServer,
) -> None:
    test_round = TEST_SERVERS.make(caller.client, threads)

    async def steps_of_test(user: User) -> list[tuple[str, str]]:
        await threads.call(queue_test, listed_server, user)
        await test_round()
        await listed_server.arefresh_from_db()
        return [(step["name"], step["outcome"]) for step in listed_server.test]

    # Without an account; with one of somebody who manages nothing; with an administrator's.
    assert await steps_of_test(administrator) == [("sign_in", "failed")]
    await threads.call(connected, alice, listed_server, oauth)
    assert await steps_of_test(alice) == [("sign_in", "failed")]
    assert await steps_of_test(administrator) == [("sign_in", "failed")]
    assert all("authorization" not in request.headers for request in oauth.requests)

    await threads.call(connected, administrator, listed_server, oauth, "adm")
    oauth.expire_access()
    assert await steps_of_test(administrator) == [
        ("connect", "ok"),
        ("sign_in", "ok"),
        ("tools", "ok"),
    ]
    assert len(oauth.refreshes) == 1
    assert [tool.rule async for tool in Tool.objects.all()] == [ToolRule.OFF]
    assert "access-" not in str(listed_server.test)
