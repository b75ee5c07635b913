"""Conversations in the shapes of Claude's exports of several years, and what is read of them."""

from __future__ import annotations

from typing import Any

from tests.imports.examples_chatgpt import Example, Value

ROOT = "00000000-0000-4000-8000-000000000000"
NOTE = "```\nThis block is not supported on your current device yet.\n```"


def message(
    key: str, sender: str, *blocks: Value | str, above: str | None = None, **more: Any
) -> Value:
    """Strings are blocks of text. Without ``above`` there are no links, as until 2025."""
    content = [{"type": "text", "text": each} if isinstance(each, str) else each for each in blocks]
    links = {} if above is None else {"parent_message_uuid": above}
    return {"uuid": key, "sender": sender, "text": "", "content": content, **links, **more}


def chat(*messages: object, **more: Any) -> Value:
    return {
        "uuid": "c1",
        "name": "Rivers",
        "created_at": "2025-03-01T10:00:00.000000Z",
        "chat_messages": list(messages),
        **more,
    }


EXAMPLES: list[Example] = [
    (
        "pictures in what a tool returned: with their bytes, or by name",
        chat(
            message("u", "human", "Draw."),
            message(
                "a",
                "assistant",
                {"type": "tool_use", "name": "draw", "input": {}, "id": "t"},
                {
                    "type": "tool_result",
                    "name": "draw",
                    "tool_use_id": "t",
                    "content": [
                        {"type": "text", "text": "Done."},
                        {"type": "image", "source": {"type": "base64", "data": "iVBORw0KGgo="}},
                        {"type": "image", "file_uuid": "f1"},
                    ],
                },
            ),
        ),
        [
            "u <  user: Draw.",
            "a < u assistant: draw{} -> Done. | [picture@iVBORw0KGgo=] | [f1@]",
            "= a",
        ],
        0,
        1,
    ),
    (
        "2023: only text, no links",
        chat(
            {"uuid": "u", "sender": "human", "text": "Why?"},
            {"uuid": "a", "sender": "assistant", "text": "So."},
        ),
        ["u <  user: Why?", "a < u assistant: So.", "= a"],
        0,
        0,
    ),
    (
        "senders as the API names them",
        chat(
            {"uuid": "u", "role": "user", "text": "Why?"},
            {"uuid": "a", "role": "assistant", "text": "So."},
        ),
        ["u <  user: Why?", "a < u assistant: So.", "= a"],
        0,
        0,
    ),
    (
        "no links: a line by time, whatever the order in the file",
        chat(
            message("a", "assistant", "So.", created_at="2025-03-01T10:00:05Z"),
            message("u", "human", "Why?", created_at="2025-03-01T10:00:01.5+00:00"),
        ),
        ["u <  user: Why?", "a < u assistant: So.", "= a"],
        0,
        0,
    ),
    (
        "branches: the newest message is shown",
        chat(
            message("u", "human", "Why?", above=ROOT, created_at="2025-03-01T10:00:00Z"),
            message("a", "assistant", "New.", above="u", created_at="2025-03-01T12:00:00Z"),
            message("b", "assistant", "Old.", above="u", created_at="2025-03-01T11:00:00Z"),
        ),
        ["u <  user: Why?", "a < u assistant: New.", "b < u assistant: Old.", "= a"],
        0,
        0,
    ),
    (
        "branches: the leaf that a browser extension has saved, with the model",
        chat(
            message("u", "human", "Why?", above=ROOT),
            message("a", "assistant", "One.", above="u"),
            message("b", "assistant", "Two.", above="u"),
            current_leaf_message_uuid="a",
            model="claude-opus-4",
        ),
        [
            "u <  user: Why?",
            "a < u assistant (claude-opus-4): One.",
            "b < u assistant (claude-opus-4): Two.",
            "= a",
        ],
        0,
        0,
    ),
    (
        "thinking, a call and its result, paired by id, in order",
        chat(
            message("u", "human", "Why?"),
            message(
                "a",
                "assistant",
                {"type": "thinking", "thinking": "Hm.", "summaries": [{"summary": "s"}]},
                {"type": "tool_use", "id": "t1", "name": "web_search", "input": {"query": "rain"}},
                {"type": "tool_use", "id": "t2", "name": "repl", "input": {"code": "1"}},
                {
                    "type": "tool_result",
                    "tool_use_id": "t2",
                    "name": "repl",
                    "content": [{"type": "text", "text": "boom"}],
                    "is_error": True,
                },
                {
                    "type": "tool_result",
                    "tool_use_id": "t1",
                    "content": [{"type": "knowledge", "title": "Rain", "url": "http://r.test"}],
                },
                "So.",
                text=f"{NOTE}\n\nSo.",
            ),
        ),
        [
            "u <  user: Why?",
            'a < u assistant: ~Hm.~ | web_search{"query": "rain"} -> Rain\nhttp://r.test'
            ' | repl{"code": "1"} -> boom! | So.',
            "= a",
        ],
        0,
        0,
    ),
    (
        "notes about blocks in a text without blocks are left out",
        chat({"uuid": "a", "sender": "assistant", "text": f"Let me look.\n{NOTE}\n\nSo."}),
        ["a <  assistant: Let me look.\n\nSo.", "= a"],
        0,
        0,
    ),
    (
        "a message that is only a pasted text; a picture that the export doesn't have",
        chat(
            message(
                "u",
                "human",
                attachments=[
                    {"file_name": "a.txt", "file_type": "txt", "extracted_content": "One\n```\ntwo"}
                ],
                files=[{"file_name": "boat.png"}, {"file_name": "a.txt"}],
            ),
        ),
        ["u <  user: a.txt:\n\n````\nOne\n```\ntwo\n```` | [boat.png@]", "= u"],
        0,
        1,
    ),
    (
        "what is about a message is ignored, what is unknown is reported",
        chat(
            message(
                "a",
                "assistant",
                {"type": "token_budget"},
                {"type": "flag", "flag": "x"},
                {"type": "voice_note", "text": "Spoken."},
                {"type": "hologram", "display_content": {"text": "Shown."}},
            ),
        ),
        ["a <  assistant: Spoken. | Shown.", "= a"],
        1,
        0,
    ),
    (
        "damaged: no ids, a loop, a missing parent, messages that are none",
        chat(
            message("", "human", "Why?", above="gone"),
            7,
            message("b", "assistant", "So.", above="b"),
            message("", "assistant", above="b"),
        ),
        ["#0 <  user: Why?", "b <  assistant: So.", "= b"],
        0,
        0,
    ),
    (
        "two messages with one id: the first",
        chat(
            message("u", "human", "Why?", above=ROOT),
            message("u", "human", "Again?", above=ROOT),
        ),
        ["u <  user: Why?", "= u"],
        1,
        0,
    ),
    ("nothing in it", chat(), ["= "], 0, 0),
]
MEMBERS: dict[str, str] = {}
UNREADABLE: list[Value] = [{"uuid": "x"}, {"uuid": "x", "chat_messages": {}}]
