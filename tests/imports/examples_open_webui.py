"""Chats in the shapes of Open WebUI's exports of several years, and what is read of them."""

from __future__ import annotations

from typing import Any

from tests.imports.examples_chatgpt import Example, Value

PICTURE = "data:image/png;base64,iVBORw0KGgo="


def message(key: str, role: str, content: object, above: str | None = None, **more: Any) -> Value:
    return {"id": key, "role": role, "content": content, "parentId": above, **more}


def record(*messages: Value, current: str | None = None, **more: Any) -> Value:
    """``more`` are members of the chat."""
    history = {"messages": {each["id"]: each for each in messages}, "currentId": current}
    chat = {"title": "Rivers", "models": ["llama3"], "history": history, **more}
    return {
        "id": "c1",
        "user_id": "me",
        "title": "Rivers",
        "chat": chat,
        "created_at": 1_700_000_000,
    }


def answer(content: str, **more: Any) -> Value:
    return record(message("u", "user", "Why?"), message("a", "assistant", content, "u", **more))


def read(parts: str, *, model: str = "llama3") -> list[str]:
    return ["u <  user: Why?", f"a < u assistant ({model}): {parts}", "= a"]


REASONING = (
    '<details type="reasoning" done="true" duration="3">\n<summary>Thought for 3 seconds</summary>\n'
    "&gt; It&#x27;s 2 &lt; 3.\n&gt; So.\n</details>\n"
)
CALL = (
    '<details type="tool_calls" done="true" id="t1" name="weather" '
    'arguments="&quot;{\\&quot;place\\&quot;: \\&quot;Oslo\\&quot;}&quot;" '
    'result="&quot;Rain &gt; sun&quot;" files="">\n<summary>Tool Executed</summary>\n</details>'
)
INTERPRETER = (
    '<details type="code_interpreter" done="true" output="{&quot;stdout&quot;: &quot;2&quot;}">\n'
    "<summary>Analyzed</summary>\n```python\nprint(1 + 1)\n```\n</details>"
)
EXAMPLES: list[Example] = [
    (
        "2024: a map of messages, the model of each answer",
        answer("So.", model="mistral"),
        read("So.", model="mistral"),
        0,
        0,
    ),
    (
        "several models answer at once: the one that the file names",
        record(
            message("u", "user", "Why?", childrenIds=["b", "a"]),
            message("a", "assistant", "One.", "u", model="x", timestamp=1_700_000_009),
            message("b", "assistant", "Two.", "u", model="y", timestamp=1_700_000_001),
            current="b",
        ),
        ["u <  user: Why?", "b < u assistant (y): Two.", "a < u assistant (x): One.", "= b"],
        0,
        0,
    ),
    ("reasoning in the text", answer(REASONING + "Yes."), read("~It's 2 < 3.\nSo.~ | Yes."), 0, 0),
    (
        "a call in the text, JSON in a string",
        answer(f"Let me see.\n{CALL}\nRain."),
        read('Let me see. | weather{"place": "Oslo"} -> Rain > sun | Rain.'),
        0,
        0,
    ),
    (
        "the code interpreter in the text",
        answer(f"{INTERPRETER}\n2."),
        read('code_interpreter{"code": "print(1 + 1)"} -> {"stdout": "2"} | 2.'),
        0,
        0,
    ),
    (
        "details that are quoted, of another kind, or not closed stay text",
        answer(
            f'```html\n{CALL}\n```\n<details type="note">x</details>\n<details type="reasoning">'
        ),
        read(f'```html\n{CALL}\n```\n<details type="note">x</details>\n<details type="reasoning">'),
        0,
        0,
    ),
    (
        "2026: items beside the same in the text",
        answer(
            f"{REASONING}{CALL}Rain.",
            output=[
                {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]},
                {"type": "function_call", "call_id": "t1", "name": "weather", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "t1", "output": "Wet"},
                {"type": "message", "content": [{"type": "output_text", "text": "Rain."}]},
                {"type": "dance"},
            ],
        ),
        read("~Hm.~ | weather{} -> Wet | Rain."),
        1,
        0,
    ),
    (
        "items without the text, which is only in the content",
        answer("Edited.", output=[{"type": "reasoning", "content": "Hm."}]),
        read("~Hm.~ | Edited."),
        0,
        0,
    ),
    (
        "pictures: in the file, on the server, in the content; and a document",
        record(
            message(
                "u",
                "user",
                [
                    {"type": "text", "text": "What?"},
                    {"type": "image_url", "image_url": {"url": PICTURE}},
                ],
                files=[
                    {"type": "image", "url": PICTURE, "name": "boat.png"},
                    {"type": "image", "url": "/api/v1/files/f1/content"},
                    {"type": "file", "name": "spec.pdf", "file": {"data": {"content": "secret"}}},
                ],
            )
        ),
        [
            "u <  user: What? | [picture@iVBORw0KGgo=] | [boat.png@iVBORw0KGgo=] | [content@]"
            " | spec.pdf:\n\n```\nsecret\n```",
            "= u",
        ],
        0,
        1,
    ),
    (
        "the oldest form: a chat without a record and without a history",
        {
            "id": "c1",
            "title": "Rivers",
            "models": ["llama2"],
            "messages": [
                {"role": "user", "content": "Why?"},
                {"role": "assistant", "content": "So."},
            ],
        },
        ["#0 <  user: Why?", "#1 < #0 assistant (llama2): So.", "= #1"],
        0,
        0,
    ),
    (
        "an answer of which nothing came is one all the same",
        record(
            message("u", "user", "Why?"),
            message("a", "assistant", "", "u"),
            message("v", "user", "Hello?", "a"),
        ),
        [
            "u <  user: Why?",
            "a < u assistant (llama3): ",
            "v < a user: Hello?",
            "= v",
        ],
        0,
        0,
    ),
    (
        "sources of an answer are named",
        answer(
            "So.",
            sources=[
                {"source": {"name": "rivers.pdf"}, "document": ["…"]},
                {"source": {"url": "https://r.test/a"}},
            ],
        ),
        read("So."),
        0,
        2,
    ),
    (
        "2023: only the list of what was shown, and no record around it",
        {
            "id": "c1",
            "title": "Rivers",
            "chat": {
                "messages": [
                    {"role": "system", "content": "Be brief."},
                    {"role": "user", "content": "Why?"},
                    {"role": "assistant", "content": "So."},
                ]
            },
        },
        ["#1 <  user: Why?", "#2 < #1 assistant: So.", "= #2"],
        0,
        0,
    ),
    (
        "an answer that failed",
        answer("", error={"content": "Model not found"}),
        read(" ! Model not found"),
        0,
        0,
    ),
    (
        "damaged: a circle, and a current message that is not there",
        record(
            message("a", "user", "One", "b"),
            message("b", "assistant", "Two", "a"),
            current="nowhere",
        ),
        ["a <  user: One", "b < a assistant (llama3): Two", "= b"],
        1,
        0,
    ),
    ("nothing in it", record(), ["= "], 0, 0),
]
MEMBERS: dict[str, str] = {}
UNREADABLE: list[Value] = [{"id": "x", "chat": {}}, {"id": "x", "chat": {"history": []}}]
