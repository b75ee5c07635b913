"""Conversations in the shapes of LibreChat's exports of several years, and what is read of them."""

from __future__ import annotations

from typing import Any

from tests.imports.examples_chatgpt import Example, Value

ROOT = "00000000-0000-0000-0000-000000000000"


def message(
    key: str, text: str = "", above: str = ROOT, *, is_person: bool = False, **more: Any
) -> Value:
    return {
        "messageId": key,
        "parentMessageId": above,
        "isCreatedByUser": is_person,
        "text": text,
        **more,
    }


def ask(key: str = "u", text: str = "Why?", above: str = ROOT, **more: Any) -> Value:
    return message(key, text, above, is_person=True, **more)


def chat(*messages: object, **more: Any) -> Value:
    return {"conversationId": "c1", "title": "Rivers", "messages": list(messages), **more}


EXAMPLES: list[Example] = [
    (
        "a question below a question, and answers below answers",
        chat(
            ask(),
            ask("v", "And?", "u"),
            message("a", "So.", "v"),
            message("b", "Thus.", "a"),
            message("c", "Hence.", "a"),
        ),
        [
            "u <  user: Why?",
            "v < u user: And?",
            "a < v assistant: So.",
            "b < a assistant: Thus.",
            "c < a assistant: Hence.",
            "= c",
        ],
        0,
        0,
    ),
    (
        "an answer of which nothing came is one all the same",
        chat(ask(), message("a", "", "u"), ask("v", "Hello?", "a")),
        ["u <  user: Why?", "a < u assistant: ", "v < a user: Hello?", "= v"],
        0,
        0,
    ),
    (
        "sources of a search are named",
        chat(
            ask(),
            message(
                "a",
                "So.",
                "u",
                attachments=[
                    {"type": "web_search", "web_search": {"organic": [{"link": "https://r.test"}]}}
                ],
            ),
        ),
        ["u <  user: Why?", "a < u assistant: So.", "= a"],
        0,
        1,
    ),
    (
        "2023: a line, the model of the options",
        chat(ask(sender="User"), message("a", "So.", "u"), options={"model": "gpt-4"}),
        ["u <  user: Why?", "a < u assistant (gpt-4): So.", "= a"],
        0,
        0,
    ),
    (
        "branches: the last sibling at each fork, not the newest",
        chat(
            ask(),
            message("a", "New.", "u", createdAt="2025-01-02T00:00:00.000Z"),
            message("b", "Old.", "u", createdAt="2025-01-01T00:00:00.000Z"),
            ask("v", "And?", "b"),
            ask("w", "Then?", "b"),
        ),
        [
            "u <  user: Why?",
            "a < u assistant: New.",
            "b < u assistant: Old.",
            "v < b user: And?",
            "w < b user: Then?",
            "= w",
        ],
        0,
        0,
    ),
    (
        "a tree: children in messages, whatever their parents say",
        chat(
            {**ask(), "children": [{**message("a", "So.", "?"), "children": [ask("v", "And?")]}]},
            recursive=True,
        ),
        ["u <  user: Why?", "a < u assistant: So.", "v < a user: And?", "= v"],
        0,
        0,
    ),
    (
        "a tree under its other name",
        {"conversationId": "c1", "title": "T", "messagesTree": [{**ask(), "children": []}]},
        ["u <  user: Why?", "= u"],
        0,
        0,
    ),
    (
        "thinking in the text",
        chat(ask(), message("a", ":::thinking\nHm.\n:::\nSo.", "u", model="r1")),
        ["u <  user: Why?", "a < u assistant (r1): ~Hm.~ | So.", "= a"],
        0,
        0,
    ),
    (
        "content: thinking, a call, an agent, texts as objects",
        chat(
            ask(),
            message(
                "a",
                "",
                "u",
                content=[
                    {"type": "agent_update", "agent_update": {}},
                    {"type": "think", "think": "Hm."},
                    {
                        "type": "tool_call",
                        "tool_call": {
                            "id": "t1",
                            "name": "weather",
                            "args": '{"place": "Oslo"}',
                            "output": "Rain",
                        },
                    },
                    {"type": "text", "text": {"value": "So."}},
                ],
            ),
        ),
        [
            "u <  user: Why?",
            'a < u assistant: ~Hm.~ | weather{"place": "Oslo"} -> Rain | So.',
            "= a",
        ],
        0,
        0,
    ),
    (
        "2023: plugins",
        chat(
            ask(),
            message(
                "a",
                "So.",
                "u",
                plugins=[
                    {
                        "latest": "google",
                        "inputs": [{"plugin": "google", "input": "rain"}],
                        "outputs": "Wet",
                    }
                ],
            ),
        ),
        ["u <  user: Why?", 'a < u assistant: google{"input": "rain"} -> Wet | So.', "= a"],
        0,
        0,
    ),
    (
        "files by name only, and in the content",
        chat(
            ask(files=[{"filename": "boat.png", "filepath": "/images/1/boat.png"}]),
            message(
                "a",
                "",
                "u",
                content=[
                    {"type": "image_file", "image_file": {"filepath": "/images/made.png"}},
                    {"type": "text", "text": "Here."},
                    {"type": "smell"},
                ],
            ),
        ),
        ["u <  user: Why? | [boat.png@]", "a < u assistant: [made.png@] | Here.", "= a"],
        1,
        2,
    ),
    (
        "an answer that failed",
        chat(ask(), message("a", "No credit", "u", error=True)),
        ["u <  user: Why?", "a < u assistant:  ! No credit", "= a"],
        0,
        0,
    ),
    (
        "damaged: no flags, no ids, a missing parent",
        chat(
            {"text": "Why?", "sender": "User"},
            {"messageId": "a", "parentMessageId": "gone", "text": "So.", "sender": "GPT-4"},
            None,
        ),
        ["#0 <  user: Why?", "a <  assistant: So.", "= a"],
        0,
        0,
    ),
    ("nothing in it", chat(), ["= "], 0, 0),
]
MEMBERS: dict[str, str] = {}
UNREADABLE: list[Value] = [{"conversationId": "x"}, {"conversationId": "x", "messages": "none"}]
