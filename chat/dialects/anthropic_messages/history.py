"""A conversation as the ``messages`` of a Messages request."""

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from chat.dialects.anthropic_messages.tool_blocks import RESULT_SUFFIX
from chat.dialects.base import (
    PARTS_LEFT_OUT,
    AssistantTurn,
    Document,
    Image,
    Prompt,
    UserTurn,
)
from chat.dialects.history import NO_ANSWER, answered_calls, exchanges, replies_text
from chat.dialects.stream import objects_of, text_of
from chat.events import JsonObject, Result, ToolCallItem
from chat.events.translation import gettext_noop

# The text of a message that has none: the API refuses empty text.
NO_TEXT = "(no text)"
# The message after an answer that is continued although no result is due and nothing was paused.
GO_ON = "Please go on."

REFUSED_LEFT_OUT = gettext_noop(
    "An earlier refusal was left out because it would be refused again."
)
PICTURE_LEFT_OUT = "An image of type {} was left out: this API accepts JPEG, PNG, GIF and WebP."

THINKING = frozenset(("thinking", "redacted_thinking"))
_SERVER_CALLS = frozenset(("server_tool_use", "mcp_tool_use"))
_PICTURES = frozenset(("image/jpeg", "image/png", "image/gif", "image/webp"))
_CALLS = frozenset(("tool_use", "tool_result"))
# Servers that accept fewer types of blocks than Anthropic.
_TAKEN: Mapping[str, frozenset[str]] = {
    "fireworks": _CALLS | THINKING | {"text", "image", "document"},
    "friendli": _CALLS | {"text", "image", "thinking"},
}
# Characters of the title of a document.
_TITLE_LENGTH = 500
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")


def takes_blocks(server: str, kind: str) -> bool:
    """Returns whether a server, by the option of that name, accepts this type of blocks."""
    taken = _TAKEN.get(server)
    return taken is None or kind in taken


@dataclass(slots=True)
class _Builder:
    """The messages so far. Adjacent messages of the same role become one."""

    taken: frozenset[str] | None
    # Ids of calls that an upstream ran, and of results that it gave, in the whole conversation.
    server_calls: frozenset[str]
    server_results: frozenset[str]
    takes_pictures: bool = True
    messages: list[JsonObject] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    used_ids: set[str] = field(default_factory=set)

    def add(self, role: str, content: list[JsonObject]) -> None:
        if not content:
            return
        if self.messages and self.messages[-1]["role"] == role:
            self.messages[-1]["content"] += content
        else:
            self.messages.append({"role": role, "content": list(content)})

    def add_note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


def build_messages(
    prompt: Prompt, server: str, *, takes_pictures: bool = True
) -> tuple[list[JsonObject], list[str]]:
    """The messages, and notes on what was left out. ``server`` is the option of that name."""
    natives = [content for turn in prompt.turns if (content := _native_of(turn)) is not None]
    blocks = [block for content in natives for block in content]
    builder = _Builder(
        taken=_TAKEN.get(server),
        server_calls=frozenset(text_of(b, "id") for b in blocks if b.get("type") in _SERVER_CALLS),
        server_results=frozenset(text_of(block, "tool_use_id") for block in blocks),
        takes_pictures=takes_pictures,
    )
    first_of_last = _first_of_last_answer(prompt)
    for number, turn in enumerate(prompt.turns):
        if isinstance(turn, UserTurn):
            builder.add("user", _question(turn, builder))
            continue
        _add_answer(turn, builder, is_going_on=number >= first_of_last)
        if turn.replies:
            # Another upstream had asked, so its questions and the replies are sent as text.
            builder.add("user", [_text(replies_text(turn))])
    _complete(builder, is_paused=_is_paused(prompt))
    return builder.messages, builder.notes


def _first_of_last_answer(prompt: Prompt) -> int:
    """The position of the first run of the answer that is continued; behind the end if there is
    none."""
    if not prompt.goes_on:
        return len(prompt.turns)
    questions = [n for n, turn in enumerate(prompt.turns) if isinstance(turn, UserTurn)]
    return questions[-1] + 1 if questions else 0


def _is_paused(prompt: Prompt) -> bool:
    """Returns whether the last answer is sent back unchanged, for its own upstream to continue."""
    last = prompt.turns[-1] if prompt.turns else None
    if not isinstance(last, AssistantTurn) or _native_of(last) is None:
        return False
    return last.result.ext.stop.reason in ("pause", "compaction")


def _complete(builder: _Builder, *, is_paused: bool) -> None:
    """The API refuses reasoning at the end of an answer, an empty answer, and a conversation that
    ends with an answer, unless that one is paused."""
    kept = builder.messages[:-1] if is_paused else builder.messages
    for message in kept:
        content = message["content"]
        while message["role"] == "assistant" and content and content[-1]["type"] in THINKING:
            content.pop()
        if not content:
            content.append(_text(NO_ANSWER))
    last_role = builder.messages[-1]["role"] if builder.messages else None
    if last_role is None or (last_role == "assistant" and not is_paused):
        builder.add("user", [_text(GO_ON if last_role else NO_TEXT)])


# --- a user's message ------------------------------------------------------------------


def _question(turn: UserTurn, builder: _Builder) -> list[JsonObject]:
    pictures = [_picture(image) for image in turn.parts_of(Image) if _is_taken(image, builder)]
    documents = [_document(each) for each in turn.parts_of(Document)]
    text = [_text(turn.text)] if turn.text.strip() else []
    return [*documents, *pictures, *text] or [_text(NO_TEXT)]


def _document(document: Document) -> JsonObject:
    """A PDF file as it is, and plain text as text."""
    source: JsonObject = {"media_type": document.media_type}
    if document.media_type == "text/plain":
        text = base64.b64decode(document.data).decode("utf-8", "replace")
        source |= {"type": "text", "data": text}
    else:
        source |= {"type": "base64", "data": document.data}
    title: JsonObject = {"title": document.name[:_TITLE_LENGTH]} if document.name else {}
    return {"type": "document", "source": source, **title}


def _is_taken(image: Image, builder: _Builder) -> bool:
    if not builder.takes_pictures:
        builder.add_note(PARTS_LEFT_OUT[Image])
        return False
    if image.media_type in _PICTURES:
        return True
    builder.add_note(PICTURE_LEFT_OUT.format(image.media_type))
    return False


def _picture(image: Image) -> JsonObject:
    source = {"type": "base64", "media_type": image.media_type, "data": image.data}
    return {"type": "image", "source": source}


def _text(text: str) -> JsonObject:
    return {"type": "text", "text": text}


# --- an answer -------------------------------------------------------------------------


def _add_answer(turn: AssistantTurn, builder: _Builder, *, is_going_on: bool) -> None:
    if turn.result.ext.stop.raw == "refusal":
        builder.add_note(REFUSED_LEFT_OUT)
        return
    native = _native_of(turn)
    if native is not None:
        _add_native(native, turn.result, builder, is_going_on=is_going_on)
    else:
        for texts, calls in exchanges(turn.result):
            _add_exchange(texts or ([] if calls else [NO_ANSWER]), calls, builder)


def _native_of(turn: UserTurn | AssistantTurn) -> list[JsonObject] | None:
    """The content of an answer in this API's own form, if this upstream sent it."""
    if isinstance(turn, UserTurn) or not turn.is_native:
        return None
    native = turn.result.ext.native
    if not isinstance(native, dict) or not isinstance(native.get("content"), list):
        return None
    return [block for block in objects_of(native, "content") if text_of(block, "type")]


def _add_native(
    native: list[JsonObject], result: Result, builder: _Builder, *, is_going_on: bool
) -> None:
    """The blocks as they were received. A call of ours is only sent back with its result, and so is
    a call of the upstream, unless the upstream is to continue with it."""
    answered = {call.call_id: call for call in answered_calls(result)}
    content = [
        block for block in native if _goes_back(block, builder, answered, is_going_on=is_going_on)
    ]
    calls = [answered[block["id"]] for block in content if block.get("type") == "tool_use"]
    builder.used_ids.update(str(call.call_id) for call in calls)
    # Nothing of it was sent back. The message stays, so that questions and answers alternate.
    builder.add("assistant", content or [_text(NO_ANSWER)])
    builder.add("user", [_result_block(call, str(call.call_id)) for call in calls])


def _goes_back(
    block: JsonObject,
    builder: _Builder,
    answered: Mapping[str | None, ToolCallItem],
    *,
    is_going_on: bool,
) -> bool:
    kind = text_of(block, "type")
    if builder.taken is not None and kind not in builder.taken:
        return False
    if kind == "tool_use":
        return text_of(block, "id") in answered
    if kind in _SERVER_CALLS:
        return is_going_on or text_of(block, "id") in builder.server_results
    if kind.endswith(RESULT_SUFFIX):
        return text_of(block, "tool_use_id") in builder.server_calls
    return True


def _add_exchange(texts: list[str], calls: list[ToolCallItem], builder: _Builder) -> None:
    identities = [_identity(call, builder) for call in calls]
    uses = [
        {
            "type": "tool_use",
            "id": identity,
            "name": _NOT_IN_NAMES.sub("_", call.tool)[:128] or "tool",
            "input": call.arguments,
        }
        for call, identity in zip(calls, identities, strict=True)
    ]
    builder.add("assistant", [*map(_text, texts), *uses])
    results = [
        _result_block(call, identity) for call, identity in zip(calls, identities, strict=True)
    ]
    builder.add("user", results)


def _identity(call: ToolCallItem, builder: _Builder) -> str:
    """An id that this API accepts and that no other call of the conversation has."""
    base = _NOT_IN_NAMES.sub("_", call.call_id or "")[:64] or "call"
    identity, number = base, 1
    while identity in builder.used_ids:
        number += 1
        identity = f"{base}_{number}"
    builder.used_ids.add(identity)
    return identity


def _result_block(call: ToolCallItem, identity: str) -> JsonObject:
    block: JsonObject = {"type": "tool_result", "tool_use_id": identity}
    if call.output:
        block["content"] = call.output
    if call.status == "failed":
        block["is_error"] = True
    return block


# --- what the request needs to know of them ---------------------------------------------


def tools_named_in(messages: list[JsonObject]) -> list[str]:
    """Names of the tools that earlier answers called, in order."""
    names = (
        text_of(block, "name")
        for message in messages
        for block in message["content"]
        if block["type"] == "tool_use"
    )
    return list(dict.fromkeys(names))


def is_loop_without_thinking(messages: list[JsonObject]) -> bool:
    """Returns whether results are due to an answer without reasoning; the API then accepts no reasoning."""
    if len(messages) < 2 or messages[-1]["content"][0]["type"] != "tool_result":
        return False
    return messages[-2]["content"][0]["type"] not in THINKING
