"""Conversations in the shapes of ChatGPT's exports of several years, and what is read of them."""

from __future__ import annotations

from typing import Any

Value = dict[str, Any]


def message(
    role: str, *parts: object, kind: str = "text", recipient: str = "all", **more: Any
) -> Value:
    """``more``: other members of the content; ``metadata``, ``name``, ``time`` and ``channel`` are
    the message's."""
    author: Value = {"role": role, "name": more.pop("name", None), "metadata": {}}
    found: Value = {
        "author": author,
        "create_time": more.pop("time", None),
        "recipient": recipient,
        "channel": more.pop("channel", None),
        "weight": 1.0,
        "metadata": more.pop("metadata", {}),
        "content": {"content_type": kind, **({"parts": list(parts)} if parts else {}), **more},
    }
    return found


def chat(
    nodes: dict[str, tuple[str, Value | None]], current: str | None = "", **more: Any
) -> Value:
    """``nodes``: the id of the node above, and the message."""
    mapping = {
        key: {
            "id": key,
            "message": said,
            "parent": parent or None,
            "children": [other for other, (above, _) in nodes.items() if above == key],
        }
        for key, (parent, said) in nodes.items()
    }
    value: Value = {"title": "Rivers", "create_time": 1.7e9, "mapping": mapping, "id": "c1", **more}
    if current != "":
        value["current_node"] = current
    return value


ASK = ("", message("user", "Why?"))
HIDDEN = {"is_visually_hidden_from_conversation": True}
POINTER = {
    "content_type": "image_asset_pointer",
    "asset_pointer": "file-service://file-AbCd1234",
    "width": 3,
    "height": 2,
}
SEDIMENT = {**POINTER, "asset_pointer": "sediment://file_00000000a1b2"}
# Name, value, outline, and the numbers of problems and of files that are missing.
Example = tuple[str, Value, list[str], int, int]
EXAMPLES: list[Example] = [
    (
        "2023: system root without text, model in the metadata",
        chat(
            {
                "r": ("", None),
                "s": ("r", message("system", "")),
                "u": ("s", message("user", "Why?")),
                "a": ("u", message("assistant", "So.", metadata={"model_slug": "gpt-4"})),
            },
            "a",
        ),
        ["u <  user: Why?", "a < u assistant (gpt-4): So.", "= a"],
        0,
        0,
    ),
    (
        "2026: no metadata, the model of the conversation, hidden instructions",
        chat(
            {
                "client-created-root": ("", None),
                "i": (
                    "client-created-root",
                    message(
                        "user",
                        kind="user_editable_context",
                        user_profile="An engineer.",
                        metadata={**HIDDEN, "is_user_system_message": True},
                    ),
                ),
                "u": ("i", {"author": {"role": "user"}, "content": {"parts": ["Why?"]}}),
                "m": ("u", message("tool", kind="model_editable_context", model_set_context="x")),
                "a": ("m", {"author": {"role": "assistant"}, "content": {"parts": ["So."]}}),
            },
            "a",
            default_model_slug="gpt-5",
        ),
        ["u <  user: Why?", "a < u assistant (gpt-5): So.", "= a"],
        0,
        0,
    ),
    (
        "an edited message and a second answer: the branch that the file names",
        chat(
            {
                "u1": ASK,
                "a1": ("u1", message("assistant", "One.", time=1.7e9 + 1)),
                "a2": ("u1", message("assistant", "Two.", time=1.7e9 + 2)),
                "u2": ("", message("user", "Why not?", time=1.7e9 + 3)),
                "a3": ("u2", message("assistant", "Three.", time=1.7e9 + 4)),
            },
            "a1",
        ),
        [
            "u1 <  user: Why?",
            "a1 < u1 assistant: One.",
            "a2 < u1 assistant: Two.",
            "u2 <  user: Why not?",
            "a3 < u2 assistant: Three.",
            "= a1",
        ],
        0,
        0,
    ),
    (
        "no current node: the newest message, not the last in the file",
        chat(
            {
                "u": ASK,
                "a1": ("u", message("assistant", "New.", time=1.7e9 + 9)),
                "a2": ("u", message("assistant", "Old.", time=1.7e9 + 1)),
            }
        ),
        ["u <  user: Why?", "a1 < u assistant: New.", "a2 < u assistant: Old.", "= a1"],
        0,
        0,
    ),
    (
        "a current node that is hidden: the turn above it",
        chat(
            {
                "u": ASK,
                "a": ("u", message("assistant", "So.")),
                "h": ("a", message("assistant", "secret", metadata=HIDDEN)),
                "b": ("u", message("assistant", "Other.", time=1.8e9)),
            },
            "h",
        ),
        ["u <  user: Why?", "a < u assistant: So.", "b < u assistant: Other.", "= a"],
        0,
        0,
    ),
    (
        "the code interpreter: code, its output and the text are one answer",
        chat(
            {
                "u": ASK,
                "c": ("u", message("assistant", kind="code", recipient="python", text="1 + 1")),
                "t": ("c", message("tool", kind="execution_output", text="2", name="python")),
                "a": ("t", message("assistant", "Two.")),
            },
            "a",
        ),
        ["u <  user: Why?", 'c < u assistant: python{"code": "1 + 1"} -> 2 | Two.', "= c"],
        0,
        0,
    ),
    (
        "reasoning: thoughts become one item each, the recap is left out",
        chat(
            {
                "u": ASK,
                "t": (
                    "u",
                    message(
                        "assistant",
                        kind="thoughts",
                        thoughts=[
                            {"summary": "Look", "content": "At it."},
                            {"summary": "", "content": "Again."},
                        ],
                    ),
                ),
                "r": ("t", message("assistant", kind="reasoning_recap", content="Thought for 8s")),
                "x": ("r", message("assistant", "Aloud.", channel="analysis")),
                "a": ("x", message("assistant", "So.", channel="final")),
            },
            "a",
        ),
        [
            "u <  user: Why?",
            "t < u assistant: ~**Look**\n\nAt it.\n\nAgain.~ | ~Aloud.~ | So.",
            "= t",
        ],
        0,
        0,
    ),
    (
        "web search: calls with JSON, quotations as output, citations as links",
        chat(
            {
                "u": ASK,
                "c": ("u", message("assistant", '{"q": "rain"}', recipient="web.search")),
                "t": (
                    "c",
                    message(
                        "tool",
                        kind="tether_quote",
                        title="Rain",
                        url="http://r.test",
                        text="Wet.",
                        name="web.search",
                    ),
                ),
                "e": ("t", message("tool", kind="system_error", text="Timeout", name="web.search")),
                "a": (
                    "e",
                    message(
                        "assistant",
                        "It rains.\ue200cite\ue202turn0search1\ue201 More\ue200cite\ue202x\ue201.",
                        metadata={
                            "content_references": [
                                {
                                    "matched_text": "\ue200cite\ue202turn0search1\ue201",
                                    "alt": "([r.test](http://r.test))",
                                }
                            ]
                        },
                    ),
                ),
            },
            "a",
        ),
        [
            "u <  user: Why?",
            'c < u assistant: web.search{"q": "rain"} -> Rain\nhttp://r.test\n\nWet.\nTimeout!'
            " | It rains. ([r.test](http://r.test)) More.",
            "= c",
        ],
        0,
        0,
    ),
    (
        "marks that nothing refers to keep their label; old ones become links",
        chat(
            {
                "u": ASK,
                "a": (
                    "u",
                    message(
                        "assistant",
                        'In \ue200entity\ue202["city","Paris","capital"]\ue201, see'
                        " \ue200url\ue202the map\ue202turn0search1\ue201 and"
                        " \ue200url\ue202the site\ue202https://r.test/a\ue201.",
                    ),
                ),
                "v": ("a", message("user", "More?")),
                "b": (
                    "v",
                    message(
                        "assistant",
                        "Wet【8†source】, cold【9†source】.",
                        metadata={
                            "citations": [
                                {
                                    "start_ix": 3,
                                    "end_ix": 13,
                                    "metadata": {"title": "Rain", "url": "https://r.test/b"},
                                }
                            ]
                        },
                    ),
                ),
            }
        ),
        [
            "u <  user: Why?",
            "a < u assistant: In Paris, see the map and [the site](<https://r.test/a>).",
            "v < a user: More?",
            "b < v assistant: Wet ([Rain](<https://r.test/b>)), cold【9†source】.",
            "= b",
        ],
        0,
        0,
    ),
    (
        "pictures: one that was attached, one that was made, one that is missing",
        chat(
            {
                "u": (
                    "",
                    message(
                        "user",
                        POINTER,
                        "What is it?",
                        kind="multimodal_text",
                        metadata={
                            "attachments": [
                                {"id": "file-AbCd1234", "name": "boat.png"},
                                {"id": "file-Gone9999", "name": "notes.pdf"},
                            ]
                        },
                    ),
                ),
                "c": ("u", message("assistant", '{"prompt": "boat"}', recipient="dalle.text2im")),
                "t": ("c", message("tool", SEDIMENT, kind="multimodal_text", name="dalle.text2im")),
                "a": ("t", message("assistant", "Here.")),
            },
            "a",
        ),
        [
            "u <  user: What is it? | [boat.png@file-AbCd1234-boat.png] | [notes.pdf@]",
            'c < u assistant: dalle.text2im{"prompt": "boat"} -> None'
            " | [file_00000000a1b2@file_00000000a1b2.dat] | Here.",
            "= c",
        ],
        0,
        1,
    ),
    (
        "voice: what was said, without the recording",
        chat(
            {
                "u": (
                    "",
                    message(
                        "user",
                        {"content_type": "audio_transcription", "text": "Hello."},
                        {
                            "content_type": "audio_asset_pointer",
                            "asset_pointer": "file-service://x",
                        },
                        kind="multimodal_text",
                    ),
                )
            },
            "u",
        ),
        ["u <  user: Hello.", "= u"],
        0,
        1,
    ),
    (
        "content that is unknown keeps its words and is reported",
        chat(
            {
                "u": ASK,
                "a": ("u", message("assistant", kind="super_widget", text="A widget")),
            },
            "a",
        ),
        ["u <  user: Why?", "a < u assistant: A widget", "= a"],
        1,
        0,
    ),
    (
        "damaged: no current node there, a missing parent, a node that is no object, an empty message",
        chat(
            {
                "u": ("gone", message("user", "Why?")),
                "a": ("u", {"author": None, "content": {"parts": ["?"]}}),
                "b": ("u", message("assistant", "", "So.")),
            },
            "nowhere",
        )
        | {},
        ["u <  user: Why?", "b < u assistant: So.", "= b"],
        0,
        0,
    ),
    (
        "code for everybody, and code of an unknown language",
        chat(
            {
                "u": ASK,
                "a": ("u", message("assistant", kind="code", language="unknown", text="a `x`")),
            },
            "a",
        ),
        ["u <  user: Why?", "a < u assistant: ```\na `x`\n```", "= a"],
        0,
        0,
    ),
]
MEMBERS = {
    "file-AbCd1234": "file-AbCd1234-boat.png",
    "file_00000000a1b2": "file_00000000a1b2.dat",
}
UNREADABLE: list[Value] = [
    {"mapping": None, "id": "x"},
    {"mapping": [], "id": "x"},
    {"title": "Corrupted entry", "id": "x"},
]
