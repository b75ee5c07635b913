"""Answers whose calls a runner makes with somebody's token: refreshed, refused in the middle, connected while it waits."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from urllib.parse import parse_qs, urlsplit

import pytest
from django.template.loader import render_to_string
from django.test import Client
from django.urls import reverse
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
from chat.questions.card_reading import cards_by_run
from chat.runs import runner as runners
from chat.tools.definitions import stored_definition
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
from tests.tools.mcp.servers import listed, text_result, tool_of
from tests.tools.sign_in.conftest import answer_in
from tests.tools.sign_in.oauth_server import OAuthServer, Reply, Seen, json_reply, slow
from tests.tools.sign_in.personal import make_tool

Begin = Callable[..., Awaitable[Run]]


@pytest.fixture(autouse=True)
def _frequent_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(runners._periodic_tasks, "tool_calls", replace(RUN_CALLS, seconds=0.05))


WANTS_MORE = 'Bearer error="insufficient_scope", scope="files:read files:write"'


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


def _task() -> dict[str, object]:
    """The results of a server whose calls become tasks, by method."""
    task = {"taskId": "task-1", "ttlMs": None, "createdAt": "2026-11-25T10:30:00Z"}
    task = {**task, "lastUpdatedAt": task["createdAt"], "pollIntervalMs": 1}
    ended = {"status": "completed", "result": text_result("You were Ana")}
    return {
        "tools/call": {**task, "resultType": "task", "status": "working"},
        "tasks/get": {**task, "resultType": "complete", **ended},
    }


@pytest.mark.parametrize("accepts_new", [True, False])
async def test_refusal_while_a_task_is_followed(
    begin: Begin, oauth: OAuthServer, accepts_new: bool
) -> None:
    results, methods = _task(), list[str]()

    def answer(request: Seen) -> Reply:
        method = request.json.get("method", "")
        methods.append(method)
        if method == "tasks/get" and (not accepts_new or methods.count(method) == 1):
            oauth.expire_access()
        result = results.get(method)
        if result is None or not oauth.person_of(request):
            return oauth._call(request)
        return json_reply({"jsonrpc": "2.0", "id": request.json["id"], "result": result})

    oauth.answers["/mcp"] = answer
    run = await begin()
    if accepts_new:
        follow_up = await ended(run)
        assert outputs(follow_up)[0] == "You were Ana"
    else:
        await until(lambda: statuses(run) == [("open", "unknown")])

    assert (methods.count("tools/call"), methods.count("tasks/get")) == (1, 2)
    assert len(oauth.refreshes) == 1
    account = await ToolAccount.objects.aget()
    assert bool(account.problem) is not accepts_new
    assert "tasks/cancel" not in methods


@pytest.mark.parametrize("grants", [True, False])
async def test_task_goes_on_when_its_person_has_allowed_more(
    begin: Begin, alice: User, oauth: OAuthServer, grants: bool
) -> None:
    results, methods = _task(), list[str]()
    granted: list[str] = []

    def answer(request: Seen) -> Reply:
        method = request.json.get("method", "")
        methods.append(method)
        result = results.get(method)
        if result is None or not oauth.person_of(request):
            return oauth._call(request)
        if method == "tasks/get" and not granted:
            return 403, {"WWW-Authenticate": WANTS_MORE}, b""
        return json_reply({"jsonrpc": "2.0", "id": request.json["id"], "result": result})

    oauth.answers["/mcp"] = answer
    run = await begin()
    await until(lambda: statuses(run) == [("open", "approval")])
    assert "needs more rights" in await threads.call(_card, run, alice)
    if grants:
        granted.append("files:write")
    server, question = await ToolServer.objects.aget(), await Question.objects.aget()
    await threads.call(partial(connected, alice, server, oauth, question=question))

    if grants:
        assert outputs(await ended(run))[0] == "You were Ana"
    else:
        await until(lambda: statuses(run) == [("open", "unknown")])
    assert (methods.count("tools/call"), methods.count("tasks/get")) == (1, 2)
    assert "tasks/cancel" not in methods


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


@pytest.mark.parametrize("grants", [True, False])
async def test_call_asks_for_the_scopes_that_its_server_wants_once(
    begin: Begin, alice: User, oauth: OAuthServer, grants: bool
) -> None:
    granted: list[str] = []

    def answer(request: Seen) -> Reply:
        is_call = request.json.get("method") == "tools/call"
        if is_call and oauth.person_of(request) and "files:write" not in granted:
            return 403, {"WWW-Authenticate": WANTS_MORE}, b""
        return oauth._call(request)

    oauth.answers["/mcp"] = answer
    run = await begin()
    await until(lambda: statuses(run) == [("open", "approval")])
    assert (len(oauth.refreshes), oauth.calls) == (0, [])
    await ToolAccount.objects.aupdate(scope="profile")

    page, server = await threads.call(_card, run, alice), await ToolServer.objects.aget()
    assert "needs more rights" in page
    assert ">files:write<" in page
    # Others see for whom it waits.
    assert "Connect account" not in await threads.call(_card, run, None)
    question = await Question.objects.aget()
    started = await threads.call(partial(actions.begin_sign_in, alice, server, question=question))
    asked = parse_qs(urlsplit(started.address).query)["scope"]
    assert asked == ["files:read files:write profile"]
    if grants:
        granted.append("files:write")
    await threads.call(partial(connected, alice, server, oauth, question=question))

    follow_up = await ended(run)
    assert ("You are ana" in str(outputs(follow_up)[0])) is grants
    assert oauth.calls == (["ana"] if grants else [])
    [call] = await threads.call(calls_of, run)
    assert (call.status, call.needed_scope) == (
        "done" if grants else "failed",
        "files:read files:write",
    )


def _card(run: Run, reader: User | None) -> str:
    """The card of the call; for nobody as for a colleague who writes, too."""
    [card] = cards_by_run(list(Run.objects.filter(pk=run.pk)))[run.pk]
    return render_to_string(
        "tools/_call_connect.html", {"asked": card, "user": reader, "may_write": True}
    )


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


@pytest.mark.django_db(transaction=True)
async def test_next_sign_in_asks_for_what_the_list_of_tools_needs(
    caller: Caller,  # noqa: F811
    listed_server: ToolServer,
    administrator: User,
    oauth: OAuthServer,
) -> None:
    oauth.answers["/mcp"] = lambda request: (
        (403, {"WWW-Authenticate": WANTS_MORE}, b"")
        if oauth.person_of(request) and request.json.get("method") == "tools/list"
        else oauth._call(request)
    )
    await threads.call(connected, administrator, listed_server, oauth, "adm")
    await threads.call(queue_test, listed_server, administrator)
    await TEST_SERVERS.make(caller.client, threads)()

    await listed_server.arefresh_from_db()
    assert "more rights of the account: files:read, files:write" in listed_server.test[-1]["text"]
    started = await threads.call(
        partial(actions.begin_sign_in, administrator, listed_server, is_for_listing=True)
    )
    asked = parse_qs(urlsplit(started.address).query)["scope"]
    assert asked == ["files:read files:write"]
    await threads.call(connected, administrator, listed_server, oauth, "adm")
    assert (await ToolAccount.objects.aget()).needed_scope == ""


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("scope", ["private", "public"])
async def test_list_of_one_person_is_shown_to_nobody_else(
    caller: Caller,  # noqa: F811
    listed_server: ToolServer,
    administrator: User,
    alice: User,
    oauth: OAuthServer,
    scope: str,
) -> None:
    def lists(request: Seen) -> Reply:
        if oauth.person_of(request) and request.json.get("method") == "tools/list":
            found = listed(tool_of("whoami", description="The notes of Ana"), cacheScope=scope)
            return json_reply({"jsonrpc": "2.0", "id": request.json["id"], "result": found})
        return oauth._call(request)

    oauth.answers["/mcp"] = lists
    await User.objects.filter(pk=alice.pk).aupdate(is_staff=True)
    await alice.arefresh_from_db()
    await threads.call(connected, administrator, listed_server, oauth)
    await threads.call(queue_test, listed_server, administrator)
    await TEST_SERVERS.make(caller.client, threads)()
    # Until her own list is read, she sees nothing of the other one.
    await threads.call(queue_test, listed_server, alice)

    async def shown(user: User) -> tuple[bool, bool, int]:
        return await threads.call(_shown, user)

    is_private = scope == "private"
    assert await shown(administrator) == (True, True, 302)
    assert await shown(alice) == ((False, False, 404) if is_private else (True, True, 302))
    await Tool.objects.aupdate(rule=ToolRule.ASK, seen_digest="seen")
    assert await shown(alice) == (True, True, 302)
    tool = await Tool.objects.aget()
    tool.offered = {**stored_definition(tool), "description": "The plans of Ana"}
    await tool.asave()
    assert (await shown(alice))[1:] == ((True, 404) if is_private else (True, 302))


def _shown(user: User) -> tuple[bool, bool, int]:
    """What a manager sees of the only tool: on the server's page and among the tools, and what changing its rule
    gives."""
    browser = Client()
    browser.force_login(user)
    tool = Tool.objects.select_related("server").get()
    pages = (reverse("tool_server", args=[tool.server.public_id]), reverse("tools"))
    bodies = [browser.get(each).content.decode() for each in pages]
    answer = browser.post(reverse("tool_server_rule", args=[tool.public_id]), {"rule": "off"})
    return "of Ana" in bodies[0], "of Ana" in bodies[1], answer.status_code
