"""Open WebUI's export: a list of chats, or one.

Messages are a map with ``parentId``, ``childrenIds`` and ``currentId``; older chats only have the
list of the visible ones. Reasoning and calls of tools are ``<details>`` in the text of an answer,
and since 0.6 also, or instead, items in ``output``. Times are seconds, milliseconds in ``chat``.
Pictures are ``data:`` addresses, or refer to files that stay on the server.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator
from itertools import pairwise

from chat.events import Json, JsonObject
from chat.imports.conversations import (
    Call,
    Conversation,
    File,
    Output,
    Part,
    Reasoning,
    Text,
    Unreadable,
)
from chat.imports.formats.notes import Notes, part_of
from chat.imports.reading import (
    arguments_of,
    file_text,
    id_in,
    identifier,
    ids_in,
    joined,
    list_in,
    object_in,
    objects_in,
    plain,
    string,
    text_in,
    time_in,
)
from chat.imports.tree import Node, build
from chat.imports.words import gettext

LABEL = "Open WebUI"


def recognizes(value: JsonObject) -> bool:
    chat = _chat(value)
    return isinstance(object_in(chat, "history").get("messages"), dict) or (
        isinstance(chat.get("messages"), list)
        and (isinstance(value.get("chat"), dict) or _is_oldest(value))
    )


def _is_oldest(value: JsonObject) -> bool:
    """A chat without a record and without a history, as versions before 0.1 saved it."""
    messages = objects_in(value, "messages")
    is_other = "conversationId" in value or "format" in value
    return (
        bool(messages)
        and not is_other
        and all(
            string(each.get("role")) in ("user", "assistant", "system") and "content" in each
            for each in messages
        )
    )


def name_of(value: JsonObject) -> tuple[str, str]:
    chat = _chat(value)
    return id_in(value, "id") or id_in(chat, "id"), text_in(value, "title") or text_in(
        chat, "title"
    )


def _chat(value: JsonObject) -> JsonObject:
    """The chat in its record; very old files have no record around it."""
    return object_in(value, "chat") or value


def read(value: JsonObject, member: Callable[[str], str]) -> Conversation:
    if not recognizes(value):
        raise Unreadable(gettext("No messages (“history” is missing)."))
    chat = _chat(value)
    history = object_in(chat, "history")
    reader = _Reader(member, next(map(string, list_in(chat, "models")), ""))
    messages = object_in(history, "messages")
    if messages:
        nodes = [reader.node(each, key) for key, each in messages.items() if isinstance(each, dict)]
    else:
        flat = objects_in(chat, "messages")
        nodes = [
            reader.node(each, id_in(each, "id") or f"#{number}") for number, each in enumerate(flat)
        ]
        for above, node in pairwise(nodes):
            node.parent = above.source_id
    tree = build(nodes, leaf=id_in(history, "currentId"))
    return reader.conversation(
        name_of(value),
        tree,
        created_at=time_in(value, "created_at") or time_in(chat, "timestamp"),
        updated_at=time_in(value, "updated_at"),
        system_prompt=text_in(object_in(chat, "params"), "system") or text_in(chat, "system"),
    )


class _Reader(Notes):
    def node(self, message: JsonObject, key: str) -> Node:
        role = string(message.get("role"))
        is_person = role == "user"
        parts: list[Part] = []
        if role in ("user", "assistant"):
            parts = [*self._said(message, role), *self._files(message)]
            self._name_sources(message)
        return Node(
            source_id=identifier(key) or id_in(message, "id"),
            parent=id_in(message, "parentId"),
            children=ids_in(message, "childrenIds"),
            role="user" if is_person else "assistant",
            parts=parts,
            model="" if is_person else text_in(message, "model") or self._model,
            created_at=time_in(message, "timestamp"),
            error="" if is_person else _error(message.get("error")),
            is_shown=role in ("user", "assistant"),
        )

    def _said(self, message: JsonObject, role: str) -> list[Part]:
        content = message.get("content")
        if role == "user":
            return list(self._content(content))
        items = [part for item in objects_in(message, "output") for part in self._item(item)]
        said = list(self._content(content))
        texts = [part for part in said if isinstance(part, Text)]
        parts = [part for text in said for part in _details(text)]
        if not items:
            return parts
        # The items repeat the answer; but an edited answer is only in the text.
        has_text = any(isinstance(item, Text) for item in items)
        visible = [part for part in parts if isinstance(part, Text)]
        return items if has_text or not texts else [*items, *visible]

    def _content(self, content: Json) -> Iterator[Part]:
        if isinstance(content, str):
            yield from part_of(Text, string(content))
            return
        for part in content if isinstance(content, list) else ():
            kind = text_in(part, "type")
            url = text_in(object_in(part, "image_url"), "url") or text_in(part, "image_url")
            if url:
                yield self._picture(url, "")
            elif text := text_in(part, "text"):
                yield Text(text)
            elif kind not in ("text", "input_text", "output_text", ""):
                self.unknown(kind)

    def _item(self, item: JsonObject) -> Iterator[Part]:
        kind = text_in(item, "type")
        if kind == "reasoning":
            text = _texts(item.get("content")) or _texts(item.get("summary"))
            yield from part_of(Reasoning, text)
        elif kind == "message":
            yield from part_of(Text, _texts(item.get("content")))
        elif kind == "function_call":
            yield Call(
                tool=text_in(item, "name") or "tool",
                arguments=arguments_of(item.get("arguments")),
                call_id=id_in(item, "call_id", "id"),
            )
        elif kind == "function_call_output":
            yield Output(text=_texts(item.get("output")), call_id=id_in(item, "call_id"))
            for part in objects_in(item, "output"):
                if url := text_in(part, "image_url"):
                    yield self._picture(url, "")
        elif kind == "open_webui:code_interpreter":
            yield Call(
                tool="code_interpreter",
                arguments={"code": text_in(item, "code")},
                call_id=id_in(item, "id"),
                output=plain(item.get("output")),
            )
        else:
            self.unknown(kind)

    def _files(self, message: JsonObject) -> Iterator[Part]:
        for file in objects_in(message, "files"):
            name = text_in(file, "name") or text_in(object_in(file, "file"), "filename")
            if text_in(file, "type") == "image":
                yield self._picture(text_in(file, "url"), name)
            elif text := _text_of_document(file):
                yield Text(file_text(name, text))
            else:
                yield self.file(name, id_in(file, "id"))

    def _name_sources(self, message: JsonObject) -> None:
        for source in [*objects_in(message, "sources"), *objects_in(message, "citations")]:
            named = object_in(source, "source")
            self.leave_out_source(
                text_in(named, "name", "url", "id") or text_in(source, "name", "url")
            )

    def _picture(self, url: str, name: str) -> File:
        head, _, data = url.partition(",")
        if head.startswith("data:image/") and head.endswith(";base64") and data:
            return File(name=name or gettext("picture"), data=data)
        return self.file(name, url[-100:])


def _text_of_document(file: JsonObject) -> str:
    """The text that Open WebUI has extracted from an attached document."""
    text = text_in(object_in(object_in(file, "file"), "data"), "content")
    text = text or text_in(object_in(file, "data"), "content")
    return text if text.strip() else ""


def _error(error: Json) -> str:
    if error in (None, False, "", {}):
        return ""
    return (
        text_in(error, "content", "message", "detail") or string(error) or gettext("Unknown error")
    )


def _texts(content: Json) -> str:
    if not isinstance(content, list):
        return plain(content)
    return joined((text_in(each, "text") or string(each) for each in content), "\n")


# --- reasoning and calls in the text --------------------------------------------------------------

_OPENING = re.compile(r"^[ ]{0,3}(`{3,}|~{3,})|<details\s+type=\"([a-z_]+)\"", re.MULTILINE)
_ATTRIBUTE = re.compile(r"([a-z_]+)=\"([^\"]*)\"")
_SUMMARY = re.compile(r"^\s*<summary>[^<]*</summary>\s*")
_QUOTED = re.compile("^> ?", re.MULTILINE)
_END = "</details>"
# Only this much of a fence is searched for: patterns of a million characters take seconds.
LONGEST_FENCE = 100
_KINDS = ("reasoning", "tool_calls", "code_interpreter")


def _details(part: Part) -> Iterator[Part]:
    """The parts of a text: reasoning and calls are ``<details>``, except for those in a code block.
    Takes linear time, also for unclosed elements."""
    if not isinstance(part, Text):
        yield part
        return
    text = part.text
    start = place = 0
    while found := _OPENING.search(text, place):
        fence, kind = found.groups()
        if fence:
            closing = re.compile(rf"^[ ]{{0,3}}{re.escape(fence[:LONGEST_FENCE])}", re.MULTILINE)
            closed = closing.search(text, found.end())
            if closed is None:
                break
            place = closed.end()
            continue
        head = text.find(">", found.end())
        end = text.find(_END, head) if head >= 0 else -1
        if end < 0:
            break
        place = end + len(_END)
        if kind not in _KINDS:
            continue
        if before := text[start : found.start()].strip():
            yield Text(before)
        start = place
        yield from _hidden(kind, text[found.start() : head], text[head + 1 : end])
    if rest := text[start:].strip():
        yield Text(rest)


def _hidden(kind: str, head: str, body: str) -> Iterator[Part]:
    attributes = {name: html.unescape(value) for name, value in _ATTRIBUTE.findall(head)}
    body = _SUMMARY.sub("", body).strip()
    if kind == "reasoning":
        if text := html.unescape(_QUOTED.sub("", html.unescape(body))).strip():
            yield Reasoning(text)
    elif kind == "tool_calls":
        result = attributes.get("result", "") or html.unescape(body)
        yield Call(
            tool=attributes.get("name", "") or "tool",
            arguments=arguments_of(_twice(attributes.get("arguments", ""))),
            call_id=attributes.get("id", ""),
            output=plain(_twice(result)),
        )
    else:
        output = attributes.get("output", "")
        code = re.sub(r"\A```\w*\n|\n?```\Z", "", html.unescape(body))
        yield Call(tool="code_interpreter", arguments={"code": code}, output=output or None)


def _twice(text: str) -> Json:
    """The text; decoded once more where some versions have JSON in a JSON string."""
    if text.startswith('"'):
        inner = arguments_of(f'{{"value": {text}}}').get("value")
        return inner if isinstance(inner, str) else text
    return text
