"""Writes conversations as each product exports them; for trees that a test makes up."""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from chat.imports.conversations import Call, Conversation, Part, Reasoning, Text, Turn

FIRST = 1_700_000_000
Value = dict[str, Any]


@dataclass(frozen=True)
class Said:
    """A turn. ``parent`` is the place of another one before it, or -1. Answers may have reasoning and
    a call of a tool."""

    parent: int
    text: str
    reasoning: str = ""
    call: str = ""

    def parts(self) -> list[Part]:
        parts: list[Part] = [Reasoning(self.reasoning)] if self.reasoning else []
        if self.call:
            call = Call(
                tool="weather",
                arguments={"place": self.call},
                call_id="",
                output=f"Rain in {self.call}",
            )
            parts.append(call)
        return [*parts, Text(self.text)]


Tree = Sequence[Said]


def role_of(tree: Tree, place: int) -> str:
    """Persons and answers take turns; roots are persons'."""
    return "user" if _depth(tree, place) % 2 == 0 else "assistant"


def _depth(tree: Tree, place: int) -> int:
    depth = 0
    while (place := tree[place].parent) >= 0:
        depth += 1
    return depth


def children_of(tree: Tree, place: int) -> list[int]:
    return [number for number, said in enumerate(tree) if said.parent == place]


def expected(tree: Tree, *, source_id: str = "c1") -> Conversation:
    """What every reader makes of it; without what not all formats have: ids of calls and times."""
    order: list[int] = []
    waiting = children_of(tree, -1)[::-1]
    while waiting:
        place = waiting.pop()
        order.append(place)
        waiting += children_of(tree, place)[::-1]
    turns = tuple(
        Turn(
            source_id=f"m{place}",
            role="user" if role_of(tree, place) == "user" else "assistant",
            parts=tuple(tree[place].parts()),
            parent=f"m{tree[place].parent}" if tree[place].parent >= 0 else "",
        )
        for place in order
    )
    return Conversation(source_id=source_id, title="Rivers", turns=turns)


def to_chatgpt(tree: Tree, leaf: int, *, source_id: str = "c1") -> Value:
    """An answer is a chain of nodes: reasoning, call, what the tool returned, text."""
    mapping: Value = {"root": {"id": "root", "message": None, "parent": None, "children": []}}
    ends = {-1: "root"}
    for place, said in enumerate(tree):
        role = role_of(tree, place)
        steps: list[Value] = []
        if said.reasoning:
            content: Value = {
                "content_type": "thoughts",
                "thoughts": [{"summary": "", "content": said.reasoning}],
            }
            steps.append({"author": {"role": role}, "content": content})
        if said.call:
            steps.append(
                {
                    "author": {"role": role},
                    "recipient": "weather",
                    "content": {"content_type": "code", "text": json.dumps({"place": said.call})},
                }
            )
            steps.append(
                {
                    "author": {"role": "tool", "name": "weather"},
                    "content": {"content_type": "text", "parts": [f"Rain in {said.call}"]},
                }
            )
        text = {"content_type": "text", "parts": [said.text]}
        steps.append({"author": {"role": role}, "recipient": "all", "content": text})
        parent = ends[said.parent]
        for number, message in enumerate(steps):
            key = f"m{place}" if number == 0 else f"m{place}-{number}"
            message["create_time"] = FIRST + place
            mapping[key] = {"id": key, "message": message, "parent": parent, "children": []}
            mapping[parent]["children"].append(key)
            parent = key
        ends[place] = parent
    return {
        "conversation_id": source_id,
        "title": "Rivers",
        "create_time": FIRST,
        "current_node": ends[leaf],
        "mapping": mapping,
    }


def to_claude(tree: Tree, leaf: int, *, source_id: str = "c1") -> Value:
    messages = []
    for place, said in enumerate(tree):
        blocks: list[Value] = []
        if said.reasoning:
            blocks.append({"type": "thinking", "thinking": said.reasoning})
        if said.call:
            call = {"type": "tool_use", "name": "weather", "input": {"place": said.call}}
            result = [{"type": "text", "text": f"Rain in {said.call}"}]
            blocks += [call, {"type": "tool_result", "name": "weather", "content": result}]
        blocks.append({"type": "text", "text": said.text})
        messages.append(
            {
                "uuid": f"m{place}",
                "parent_message_uuid": f"m{said.parent}"
                if said.parent >= 0
                else "00000000-0000-4000-8000-000000000000",
                "sender": "human" if role_of(tree, place) == "user" else "assistant",
                "content": blocks,
                "text": said.text,
            }
        )
    return {
        "uuid": source_id,
        "name": "Rivers",
        "chat_messages": messages,
        "current_leaf_message_uuid": f"m{leaf}",
    }


def to_open_webui(tree: Tree, leaf: int, *, source_id: str = "c1", is_old: bool = False) -> Value:
    """With ``output``, or with ``<details>`` in the text as versions before 0.6 have it."""
    messages = {}
    for place, said in enumerate(tree):
        message: Value = {
            "id": f"m{place}",
            "parentId": f"m{said.parent}" if said.parent >= 0 else None,
            "childrenIds": [f"m{child}" for child in children_of(tree, place)],
            "role": role_of(tree, place),
            "content": said.text,
            "timestamp": FIRST + place,
        }
        if said.reasoning or said.call:
            message["content"] = _details(said) + said.text
            if not is_old:
                message["output"] = _output(said)
        messages[f"m{place}"] = message
    history = {"messages": messages, "currentId": f"m{leaf}"}
    return {"id": source_id, "title": "Rivers", "chat": {"title": "Rivers", "history": history}}


def _details(said: Said) -> str:
    text = ""
    if said.reasoning:
        quoted = "\n".join(f"> {html.escape(line)}" for line in said.reasoning.split("\n"))
        text += (
            '<details type="reasoning" done="true" duration="3">\n'
            f"<summary>Thought for 3 seconds</summary>\n{quoted}\n</details>\n"
        )
    if said.call:
        arguments = html.escape(json.dumps({"place": said.call}))
        result = html.escape(json.dumps(f"Rain in {said.call}"))
        text += (
            f'<details type="tool_calls" done="true" name="weather" arguments="{arguments}" '
            f'result="{result}">\n<summary>Tool Executed</summary>\n</details>\n'
        )
    return text


def _output(said: Said) -> list[Value]:
    items: list[Value] = []
    if said.reasoning:
        texts = [{"type": "output_text", "text": said.reasoning}]
        items.append({"type": "reasoning", "content": texts})
    if said.call:
        arguments = json.dumps({"place": said.call})
        items.append({"type": "function_call", "name": "weather", "arguments": arguments})
        result = [{"type": "input_text", "text": f"Rain in {said.call}"}]
        items.append({"type": "function_call_output", "output": result})
    texts = [{"type": "output_text", "text": said.text}]
    return [*items, {"type": "message", "role": "assistant", "content": texts}]


def to_librechat(tree: Tree, leaf: int, *, source_id: str = "c1", is_nested: bool = False) -> Value:
    """It doesn't say which branch is shown."""
    messages = [_librechat_message(tree, place) for place in range(len(tree))]
    if is_nested:
        for place, said in enumerate(tree):
            if said.parent >= 0:
                messages[said.parent].setdefault("children", []).append(messages[place])
        messages = [messages[place] for place in children_of(tree, -1)]
    key = "messagesTree" if is_nested else "messages"
    return {"conversationId": source_id, "title": "Rivers", "recursive": is_nested, key: messages}


def _librechat_message(tree: Tree, place: int) -> Value:
    said = tree[place]
    content: list[Value] = []
    if said.reasoning:
        content.append({"type": "think", "think": said.reasoning})
    if said.call:
        call = {
            "name": "weather",
            "args": json.dumps({"place": said.call}),
            "output": f"Rain in {said.call}",
        }
        content.append({"type": "tool_call", "tool_call": call})
    if content:
        content.append({"type": "text", "text": said.text})
    return {
        "messageId": f"m{place}",
        "parentMessageId": f"m{said.parent}"
        if said.parent >= 0
        else "00000000-0000-0000-0000-000000000000",
        "isCreatedByUser": role_of(tree, place) == "user",
        "text": "" if content else said.text,
        **({"content": content} if content else {}),
    }


Writer = Callable[[Tree, int], Value]
WRITERS: dict[str, tuple[str, Writer]] = {
    "chatgpt": ("chatgpt", to_chatgpt),
    "claude": ("claude", to_claude),
    "open_webui": ("open_webui", to_open_webui),
    "open_webui, old": ("open_webui", lambda tree, leaf: to_open_webui(tree, leaf, is_old=True)),
    "librechat": ("librechat", to_librechat),
    "librechat, nested": (
        "librechat",
        lambda tree, leaf: to_librechat(tree, leaf, is_nested=True),
    ),
}
