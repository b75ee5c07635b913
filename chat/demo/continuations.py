"""Requests that continue an answer: results of tools, replies to questions, approvals, pauses."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from chat.demo import mockups
from chat.demo.models import DemoServer
from chat.demo.requests import (
    DemoRequest,
    JsonObject,
    conversation_in,
    messages_in,
    object_in,
    objects_in,
    read_request,
)

# A search that pauses does so this often before it ends.
PAUSES = 2


def read(server: DemoServer, body: JsonObject) -> DemoRequest:
    """Raises ``BadRequest``."""
    asked = read_request(server, body)
    reader = _READERS.get(server.dialect)
    return reader(asked) if reader else asked


def _read_messages(asked: DemoRequest) -> DemoRequest:
    """A search that paused continues when it is sent back unchanged."""
    last = messages_in(asked.body)[-1]
    if last.get("role") != "assistant":
        return asked
    searches = [
        block for block in objects_in(last.get("content")) if block.get("type") == "server_tool_use"
    ]
    scene = "anthropic/pause-again" if len(searches) < PAUSES else "anthropic/pause-end"
    paused = str(searches[-1].get("id")) if searches else ""
    return replace(asked, scene=scene, values={"paused_id": paused})


def _read_responses(asked: DemoRequest) -> DemoRequest:
    """A request with the person's reply to a request for approval."""
    replies = [
        item for item in messages_in(asked.body) if item.get("type") == "mcp_approval_response"
    ]
    if not replies or messages_in(asked.body)[-1] != replies[-1]:
        return asked
    if replies[-1].get("approve") is not True:
        return replace(asked, scene="responses/declined")
    values = {"approval_id": str(replies[-1].get("approval_request_id"))}
    return replace(asked, scene="responses/approved", values=values)


def _read_xerotier(asked: DemoRequest) -> DemoRequest:
    """Replies to questions are results of tools on the wire, but get an answer of their own."""
    replies = asked.tool_results
    asked = replace(asked, runs_tools=True, tool_results=())
    if asked.model == "tributary/demo-question" and (replies or asked.turn > 1):
        lines = [_reply_line(reply) for reply in replies] or [f"> {asked.text}"]
        values: Mapping[str, Any] = {"replies": "\n".join(filter(None, lines))}
        return replace(asked, scene="xerotier/question-answered", values=values)
    if asked.model == "tributary/demo-mockup":
        known = mockups.known_bundle(conversation_in(asked.body).answers)
        scene = "xerotier/mockup-later" if known else ""
        return replace(asked, scene=scene, values={"bundle": known or mockups.new_bundle()})
    return asked


def _reply_line(text: str) -> str:
    try:
        reply = json.loads(text)
    except ValueError:
        return f"- {text}"
    if not isinstance(reply, dict) or "askUserId" not in reply:
        return ""
    if reply.get("declined"):
        return "- that you would rather not say, which is fine"
    said = [f"{name}: {value}" for name, value in object_in(reply, "fields").items()]
    words = str(reply.get("answer") or "")
    # Without a text of the person, the answer repeats the choice.
    chosen = [str(one) for one in reply.get("selected") or ()]
    said += chosen if words != ", ".join(chosen) else []
    said += [words] if words else []
    return f"- {'; '.join(said) or 'nothing'}"


_READERS: Mapping[str, Callable[[DemoRequest], DemoRequest]] = {
    "anthropic_messages": _read_messages,
    "openai_responses": _read_responses,
    "xerotier": _read_xerotier,
}
