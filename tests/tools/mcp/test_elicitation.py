"""What tools ask in the middle of a call, in each version of the protocol, and how the answers reach them."""

from __future__ import annotations

import json

import pytest
from mcp.server.mcpserver import Context

from chat.models import InputSource
from chat.tools.kinds import Continuation, InputReply
from tests.support.hostile_server import Peer
from tests.tools.mcp.asking import (
    AskingBeside,
    AskingServer,
    address,
    capabilities_in,
    elicitation,
    input_required,
)
from tests.tools.mcp.conftest import Caller
from tests.tools.mcp.servers import (
    ToldServer,
    answered,
    listed,
    refused,
    sends,
    serving,
    text_result,
    tool_of,
)

BERTH = {"pier": "north", "nights": 2}
OLDER = ("2025-11-25", "2025-06-18")


@pytest.mark.parametrize("action", ["accept", "decline", "cancel"])
async def test_new_version_ends_the_call_and_takes_the_answer_with_the_next(
    caller: Caller, action: str
) -> None:
    own = AskingServer()
    async with serving(own) as url:
        needed = await caller.needs(url, "book", arguments={"ship": "Anna"})
        (asked,) = needed.asked
        reply = InputReply(action=action, content=BERTH if action == "accept" else {})
        continuation = Continuation(state=needed.state, replies={asked.key: reply})
        # The answer may come days later, from another process: nothing is left of the first connection.
        output = await caller.call(url, "book", {"ship": "Anna"}, continuation=continuation)

    assert (asked.message, needed.source) == ("Which berth?", InputSource.RESULT)
    assert list(asked.schema["properties"]) == ["pier", "nights", "remark"]
    assert needed.state is not None
    wanted = "Anna: north, 2" if action == "accept" else f"Anna: {action}"
    assert output.text == wanted
    assert own.booked == ([wanted] if action == "accept" else [])
    assert caller.asked == []


@pytest.mark.parametrize("era", OLDER)
@pytest.mark.parametrize("action", ["accept", "decline", "cancel"])
async def test_older_version_asks_within_the_open_call(
    caller: Caller, era: str, action: str
) -> None:
    own = AskingServer()
    caller.reply = InputReply(action=action, content=BERTH if action == "accept" else {})
    async with serving(own, era) as url:
        output = await caller.call(url, "book", {"ship": "Anna"})

    assert [each.message for each in caller.asked] == ["Which berth?"]
    assert output.text == ("Anna: north, 2" if action == "accept" else f"Anna: {action}")
    assert caller.sent == 1


@pytest.mark.parametrize("era", OLDER)
async def test_older_version_asks_in_the_stream_of_the_session(caller: Caller, era: str) -> None:
    caller.reply = InputReply(action="accept", content={"nights": 2})
    async with serving(AskingBeside(), era) as url:
        output = await caller.call(url, "book")

    assert [each.message for each in caller.asked] == ["How many nights?"]
    assert output.text == "accept: {'nights': 2}"


async def test_older_version_asks_to_open_an_address(caller: Caller) -> None:
    caller.reply = InputReply(action="accept", is_form=False)
    async with serving(AskingServer(), "2025-11-25") as url:
        output = await caller.call(url, "pay")

    assert [each.url for each in caller.asked] == ["https://pay.example/x?y=1"]
    assert output.text == "accept"


async def test_list_declares_what_a_call_declares(caller: Caller) -> None:
    tools = listed(tool_of("any"))
    async with ToldServer(tools_list=sends(tools), tools_call=sends(text_result())) as server:
        await caller.list(server.url)
        await caller.call(server.url, "any")

    declared = {
        json.loads(each.body)["method"]: capabilities_in(each.body) for each in server.requests
    }
    assert declared["tools/list"] == declared["tools/call"]
    assert "elicitation" in declared["tools/list"]


@pytest.mark.parametrize("era", ["2026-07-28", *OLDER])
async def test_sampling_roots_and_logging_are_not_declared(caller: Caller, era: str) -> None:
    own = AskingServer()
    caller.reply = InputReply(action="decline")
    async with serving(own, era) as url:
        if era in OLDER:
            await caller.call(url, "book", {"ship": "Anna"})
        else:
            needed = await caller.needs(url, "book", arguments={"ship": "Anna"})
            replies = {needed.asked[0].key: caller.reply}
            continuation = Continuation(state=needed.state, replies=replies)
            await caller.call(url, "book", {"ship": "Anna"}, continuation=continuation)

    (declared,) = own.declared
    assert declared.elicitation is not None
    assert (declared.sampling, declared.roots, declared.tasks) == (None, None, None)
    extensions = {"io.modelcontextprotocol/tasks": {}} if era not in OLDER else None
    assert declared.extensions == extensions


async def test_capabilities_of_each_request_name_forms_addresses_and_tasks(caller: Caller) -> None:
    async with ToldServer(tools_call=sends(text_result())) as server:
        await caller.call(server.url, "any")
        (_, call) = [request.body for request in server.requests]

    assert capabilities_in(call) == {
        "elicitation": {"form": {}, "url": {}},
        "extensions": {"io.modelcontextprotocol/tasks": {}},
    }


async def test_answers_and_state_go_back_as_they_came(caller: Caller) -> None:
    bodies = []

    async def reply(peer: Peer, message: dict[str, object]) -> None:
        bodies.append(message["params"])
        await peer.send(answered(text_result(), message))

    replies = {
        "a": InputReply(action="accept", content={"n": 1, "yes": False}),
        "b": InputReply(action="decline"),
        "c": InputReply(action="accept", is_form=False),
    }
    async with ToldServer(tools_call=reply) as server:
        await caller.call(
            server.url, "any", continuation=Continuation(state="\u0416 s", replies=replies)
        )

    (params,) = bodies
    assert params["requestState"] == "\u0416 s"
    assert params["inputResponses"] == {
        "a": {"action": "accept", "content": {"n": 1, "yes": False}},
        "b": {"action": "decline"},
        "c": {"action": "accept"},
    }


async def test_call_that_only_has_a_new_state_is_made_again(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    from chat.tools.mcp import client

    monkeypatch.setattr(client, "REPEAT_SECONDS", 0)
    states = []

    async def reply(peer: Peer, message: dict[str, object]) -> None:
        states.append(message["params"].get("requestState"))
        again = {"resultType": "input_required", "requestState": str(len(states))}
        await peer.send(answered(again if len(states) < 3 else text_result(), message))

    async with ToldServer(tools_call=reply) as server:
        output = await caller.call(server.url, "any")

    assert output.text == "done"
    assert states == [None, "1", "2"]


async def test_server_that_asks_for_the_call_again_and_again_fails(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    from chat.tools.mcp import client

    monkeypatch.setattr(client, "REPEAT_SECONDS", 0)
    again = {"resultType": "input_required", "requestState": "x"}
    async with ToldServer(tools_call=sends(again)) as server:
        failed = await caller.failure(server.url)

    assert not failed.may_have_run
    assert server.calls == client.MOST_REPEATS + 1


async def test_address_that_must_be_opened_before_the_call(caller: Caller) -> None:
    elicitations = [
        {"mode": "url", "message": "Sign in", "url": "https://a.test/", "elicitationId": "1"}
    ]

    async def reply(peer: Peer, message: dict[str, object]) -> None:
        error = {"code": -32042, "message": "needed", "data": {"elicitations": elicitations}}
        body = {"jsonrpc": "2.0", "id": message["id"], "error": error}
        sent = refused(-32042, message)
        head, _, _ = sent.partition(b"\r\n\r\n")
        text = json.dumps(body).encode()
        lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"content-l")]
        await peer.send(
            b"\r\n".join([*lines, b"Content-Length: %d" % len(text)]) + b"\r\n\r\n" + text
        )

    async with ToldServer(tools_call=reply) as server:
        needed = await caller.needs(server.url)

    assert [each.url for each in needed.asked] == ["https://a.test/"]
    assert (needed.source, needed.state) == (InputSource.REFUSAL, None)


HOSTILE = {
    "sampling": {
        "method": "sampling/createMessage",
        "params": {"messages": [], "maxTokens": 1},
    },
    "roots": {"method": "roots/list"},
}
REFUSED = [
    (input_required(a=HOSTILE["sampling"]), "something else than input"),
    (input_required(a=HOSTILE["roots"]), "something else than input"),
    (input_required(a=elicitation(x={"type": "object"})), "form that isn’t supported"),
    (input_required(a=elicitation(x={"type": ["string", "null"]})), "form that isn’t supported"),
    (input_required(a=elicitation(x={"$ref": "#/$defs/X"})), "form that isn’t supported"),
    (input_required(**{f"k{n}": elicitation() for n in range(11)}), "more input than fits"),
    (
        input_required(a=elicitation(**{f"f{n}": {"type": "string"} for n in range(51)})),
        "more input",
    ),
    (input_required(a=elicitation(x={"type": "string", "title": "x" * 70_000})), "more input"),
    (input_required(state="x" * 70_000, a=elicitation()), "larger than the limit"),
    (input_required(**{"k" * 300: elicitation()}), "isn’t valid"),
    (input_required(a=address("")), "isn’t valid"),
    (input_required(a=address("https://a.test/" + "x" * 5000)), "isn’t valid"),
]


@pytest.mark.parametrize(("result", "sentence"), REFUSED)
async def test_what_no_form_can_ask_fails_in_a_sentence(
    caller: Caller, result: dict[str, object], sentence: str
) -> None:
    async with ToldServer(tools_call=sends(result)) as server:
        failed = await caller.failure(server.url)

    assert sentence in str(failed)
    assert not failed.may_have_run


async def test_form_with_something_else_is_refused_in_the_open_call(caller: Caller) -> None:
    own = AskingServer()

    @own.library.tool()
    async def odd(ctx: Context) -> str:
        """Asks for more than a form has."""
        fields = {f"f{number}": {"type": "string"} for number in range(51)}
        schema = {"type": "object", "properties": fields}
        result = await ctx.session.elicit_form("Sure?", schema, ctx.request_id)
        return str(result.action)

    async with serving(own, "2025-06-18") as url:
        failed = await caller.failure(url, "odd")

    assert "more input" in str(failed)
    assert not failed.may_have_run
    assert caller.asked == []
