"""Calls that a server goes on with as a task: followed, answered, canceled."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from chat.models import InputSource, ToolKind
from chat.tools.kinds import (
    Address,
    CallFailed,
    Cancellation,
    Continuation,
    InputReply,
    NeedsSignIn,
)
from chat.tools.mcp import call_mcp, cancel_mcp_task
from tests.tools.mcp.asking import (
    TaskServer,
    asking,
    completed,
    elicitation,
    working,
)
from tests.tools.mcp.conftest import KEY, Caller

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    from chat.tools.mcp import tasks

    monkeypatch.setattr(tasks, "LEAST_POLL_SECONDS", 0.001)
    monkeypatch.setattr(tasks, "POLL_SECONDS", 0.001)


async def test_task_is_stored_and_followed_to_its_result(caller: Caller) -> None:
    async with TaskServer(working("Half way"), working("Almost"), completed("2.31 m")) as server:
        output = await caller.call(server.url, "any")

    assert output.text == "2.31 m"
    assert output.request_bytes > 0 < output.response_bytes
    assert caller.tasks == ["task-1"]
    assert [each["message"] for each in caller.progress] == ["Half way", "Almost"]
    assert server.sent("tasks/get") == [{"taskId": "task-1"}] * 3
    assert server.calls == 1


async def test_time_is_over_however_often_a_request_fails(caller: Caller) -> None:
    """A cancellation comes at any moment of a failing request; at some of them the library loses it."""
    down = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"
    task = Continuation(task="task-1")
    async with TaskServer({"raw": down}) as server:
        for microseconds in range(0, 30_000, 250):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(microseconds / 1_000_000):
                    await caller.call(server.url, "any", continuation=task)


async def test_requests_about_a_task_name_it_in_a_header(caller: Caller) -> None:
    async with TaskServer(completed()) as server:
        await caller.call(server.url, "any", headers={"X-Key": KEY})

    about = [request for request in server.requests if b"tasks/get" in request.body]
    names = ("mcp-name", "mcp-method", "x-key")
    assert [about[0].header(name) for name in names] == ["task-1", "tasks/get", KEY]


async def test_messages_of_a_call_and_of_its_task_have_the_trace(caller: Caller) -> None:
    berth = asking(k1=elicitation())
    replies = {"k1": InputReply(action="decline")}
    async with TaskServer(berth, working(), completed()) as server:
        await caller.needs(server.url, traceparent=TRACE)
        continuation = Continuation(task="task-1", replies=replies, known=frozenset({"k1"}))
        await caller.call(server.url, "any", continuation=continuation, traceparent=TRACE)

    of_call = [each for each in server.messages if each["method"] != "server/discover"]
    traces = [(each["method"], each["params"]["_meta"].get("traceparent")) for each in of_call]
    methods = ["tools/call", "tasks/get", "tasks/update", "tasks/get", "tasks/get"]
    assert traces == [(method, TRACE) for method in methods]


async def test_stored_task_is_followed_and_no_call_is_made(caller: Caller) -> None:
    async with TaskServer(working(), completed("late")) as server:
        output = await caller.call(server.url, "any", continuation=Continuation(task="task-1"))

    assert output.text == "late"
    assert set(server.methods) == {"tasks/get"}
    assert caller.sent == 0


async def test_task_that_asks_gets_the_answer_and_goes_on(caller: Caller) -> None:
    berth = elicitation("Which berth?", pier={"type": "string"})
    async with TaskServer(working(), asking(k1=berth), working(), completed("booked")) as server:
        needed = await caller.needs(server.url)
        replies = {"k1": InputReply(action="accept", content={"pier": "north"})}
        continuation = Continuation(task="task-1", replies=replies, known=frozenset({"k1"}))
        output = await caller.call(server.url, "any", continuation=continuation)

    assert [(each.key, each.message) for each in needed.asked] == [("k1", "Which berth?")]
    assert (needed.source, needed.state) == (InputSource.TASK, None)
    assert output.text == "booked"
    answer = {"action": "accept", "content": {"pier": "north"}}
    assert server.sent("tasks/update") == [{"taskId": "task-1", "inputResponses": {"k1": answer}}]
    assert server.calls == 1


async def test_request_that_was_answered_is_not_asked_again(caller: Caller) -> None:
    first, second = elicitation("First"), elicitation("Second")
    states = (asking(k1=first), asking(k1=first), asking(k1=first, k2=second))
    async with TaskServer(*states) as server:
        known = frozenset({"k1"})
        needed = await caller.needs(
            server.url, continuation=Continuation(task="task-1", known=known)
        )

    assert [each.key for each in needed.asked] == ["k2"]


@pytest.mark.parametrize(
    ("state", "sentence", "may_have_run"),
    [
        (
            {"status": "failed", "error": {"code": -32603, "message": "No water"}},
            "The server says: No water",
            False,
        ),
        ({"status": "failed"}, "The task that did the call failed.", False),
        ({"status": "cancelled"}, "canceled the task", True),
        ({"status": "completed", "result": {"content": "x"}}, "isn’t valid", False),
        ({"status": "odd"}, "isn’t valid", True),
        ({"code": -32602}, "no longer knows the task", True),
        ({"code": -32601}, "no longer knows the task", True),
        ({"status": "completed", "taskId": "task-2", "result": {}}, "isn’t valid", True),
        (asking(k=elicitation(x={"type": "object"})), "form that isn’t supported", False),
    ],
)
async def test_task_that_ends_otherwise(
    caller: Caller, state: dict[str, object], sentence: str, may_have_run: bool
) -> None:
    async with TaskServer(state) as server:
        failed = await caller.failure(server.url)

    assert sentence in str(failed)
    assert failed.may_have_run is may_have_run
    assert server.calls == 1


async def test_server_that_fails_for_a_while_is_asked_again(caller: Caller) -> None:
    async with TaskServer({"code": -32603}, {"code": -32603}, completed("after all")) as server:
        output = await caller.call(server.url, "any")

    assert output.text == "after all"


@pytest.mark.parametrize(
    "status",
    [
        "401 Unauthorized",
        "403 Forbidden",
        "404 Not Found",
        "405 Method Not Allowed",
        "502 Bad Gateway",
    ],
)
@pytest.mark.parametrize("body", [b"<h1>Sorry</h1>", b'{"detail": "Not Found"}'])
async def test_status_without_a_message_says_nothing_about_the_task(
    caller: Caller, status: str, body: bytes
) -> None:
    kind = "application/json" if body.startswith(b"{") else "text/html"
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    raw = {"raw": head.encode() + body}
    async with TaskServer(raw, raw, completed("after all")) as server:
        output = await caller.call(server.url, "any")

    assert output.text == "after all"
    assert "tasks/cancel" not in server.methods
    assert caller.heard == [False, False, True]


UNAUTHORIZED = {"raw": b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"}


@dataclass
class Tokens:
    """What a runner gives for a token that was refused, one after the other."""

    found: list[str | Exception]
    asked: int = 0

    async def renew(self) -> dict[str, str]:
        self.asked += 1
        found = self.found.pop(0)
        if isinstance(found, Exception):
            raise found
        return {"X-Key": found}


async def test_refused_token_is_renewed_once_for_each_question(caller: Caller) -> None:
    tokens = Tokens(["second", "third"])
    states = (UNAUTHORIZED, working(), UNAUTHORIZED, completed("2.31 m"))
    async with TaskServer(*states) as server:
        output = await caller.call(
            server.url, "any", headers={"X-Key": "first"}, renew=tokens.renew
        )

    assert output.text == "2.31 m"
    about = [request for request in server.requests if b"tasks/get" in request.body]
    keys = [request.header("x-key") for request in about]
    assert keys == ["first", "second", "second", "third"]
    assert server.calls == 1


@pytest.mark.parametrize(
    ("found", "is_unauthorized", "questions"),
    [(["second"], True, 2), ([NeedsSignIn("Sign in again.")], False, 1)],
)
async def test_task_whose_token_is_refused_for_good_is_left(
    caller: Caller, found: list[str | Exception], is_unauthorized: bool, questions: int
) -> None:
    tokens = Tokens(list(found))
    async with TaskServer(UNAUTHORIZED) as server:
        failed = await caller.failure(server.url, renew=tokens.renew)

    assert failed.is_unauthorized is is_unauthorized
    assert (failed.may_have_run, failed.leaves_task) == (True, True)
    assert server.methods.count("tasks/get") == questions
    assert server.calls == tokens.asked == 1
    assert "tasks/cancel" not in server.methods


async def test_token_that_cannot_be_renewed_now_is_asked_for_again(caller: Caller) -> None:
    tokens = Tokens([CallFailed("Try again later."), "second"])
    async with TaskServer(UNAUTHORIZED, UNAUTHORIZED, completed("after all")) as server:
        output = await caller.call(server.url, "any", renew=tokens.renew)

    assert (output.text, tokens.asked) == ("after all", 2)


@pytest.mark.parametrize(
    "wrong",
    [
        {"pollIntervalMs": "soon"},
        {"pollIntervalMs": True},
        {"statusMessage": 7},
        {"statusMessage": {"text": "x"}, "status": 4, "createdAt": 3},
    ],
)
async def test_member_of_a_wrong_type_loses_no_task(
    caller: Caller, wrong: dict[str, object]
) -> None:
    states = (
        {**working(), **wrong, "status": "working"},
        {**completed("2.31 m"), **wrong, "status": "completed"},
    )
    async with TaskServer(*states, created=wrong) as server:
        output = await caller.call(server.url, "any")

    assert output.text == "2.31 m"
    assert server.calls == 1


@pytest.mark.parametrize("wrong", [{"taskId": 7}, {"taskId": ""}, {"taskId": None}])
async def test_task_without_an_id_may_have_run(caller: Caller, wrong: dict[str, object]) -> None:
    async with TaskServer(working(), created=wrong) as server:
        failed = await caller.failure(server.url)

    assert "isn’t valid" in str(failed)
    assert failed.may_have_run


async def test_dropped_call_cancels_its_task_at_once(caller: Caller) -> None:
    async with TaskServer(working()) as server:
        request = caller.request(server.url, "any", is_dropped=True)
        with pytest.raises(Exception, match="canceled"):
            await call_mcp(request)

    assert server.methods[-1] == "tasks/cancel"
    assert "tasks/get" not in server.methods


async def test_cancellation_names_the_task_and_ignores_errors(caller: Caller) -> None:
    async with TaskServer(working()) as server:
        await cancel_mcp_task(caller.client, cancellation(server.url))
        await cancel_mcp_task(caller.client, cancellation("http://127.0.0.1:9/mcp"))

    assert server.sent("tasks/cancel") == [{"taskId": "task-1"}]


def cancellation(url: str) -> Cancellation:
    return Cancellation(call=1, kind=ToolKind.MCP, address=Address(url=url), task="task-1")


async def test_id_that_is_too_long_is_no_task(caller: Caller) -> None:
    async with TaskServer(working(), created={"taskId": "x" * 1001}) as server:
        failed = await caller.failure(server.url)

    assert "isn’t valid" in str(failed)
    assert caller.tasks == []


def test_pauses_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    from chat.tools.mcp import tasks

    monkeypatch.undo()
    pauses = [tasks._pause(each) for each in (None, 0, -1, 1500, 1e12, float("nan"))]
    assert pauses == [2.0, 0.5, 0.5, 1.5, 30.0, 2.0]
