"""LibreChat's JSON export of a conversation, or a list of such.

``messages`` are a flat list with ``parentMessageId``, or a tree with ``children`` (``recursive``,
``messagesTree``). An answer has ``text``, with reasoning between ``:::thinking`` and ``:::``, or
``content`` parts. The file doesn't contain the visible branch: LibreChat shows the last sibling at
each fork. It has only the names of files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from chat.events import Json, JsonObject
from chat.imports.conversations import (
    Call,
    Conversation,
    Part,
    Reasoning,
    Text,
    Unreadable,
)
from chat.imports.formats.notes import Notes, part_of
from chat.imports.reading import (
    arguments_of,
    id_in,
    object_in,
    objects_in,
    plain,
    string,
    text_in,
    time_in,
)
from chat.imports.tree import Node, build
from chat.imports.words import gettext

LABEL = "LibreChat"

_THINKING = re.compile(r"\A\s*:::thinking\s*\n(.*?)\n?:::(?:\n|\Z)", re.DOTALL)
# Parts about the speaking agent, and the page's summary.
_IGNORED = frozenset({"agent_update", "summary"})


def recognizes(value: JsonObject) -> bool:
    return "conversationId" in value and any(
        isinstance(value.get(name), list) for name in ("messages", "messagesTree")
    )


def name_of(value: JsonObject) -> tuple[str, str]:
    return id_in(value, "conversationId"), text_in(value, "title")


def read(value: JsonObject, member: Callable[[str], str]) -> Conversation:
    if not recognizes(value):
        raise Unreadable(gettext("No messages."))
    options = object_in(value, "options")
    reader = _Reader(member, text_in(options, "model"))
    nodes = [
        reader.node(message, number, parent)
        for number, (message, parent) in enumerate(_flat(value))
    ]
    tree = build(nodes, otherwise="last")
    times = [node.created_at for node in nodes if node.created_at]
    source_id, title = name_of(value)
    return reader.conversation(
        (source_id, title or text_in(options, "title")),
        tree,
        created_at=time_in(value, "createdAt") or min(times, default=None),
        updated_at=time_in(value, "updatedAt") or max(times, default=None),
        system_prompt=text_in(options, "promptPrefix", "system", "instructions"),
    )


def _flat(value: JsonObject) -> Iterator[tuple[JsonObject, str | None]]:
    """All messages, parents first; in a nested file with the parent's id."""
    roots = objects_in(value, "messagesTree") or objects_in(value, "messages")
    waiting: list[tuple[JsonObject, str | None]] = [(each, None) for each in reversed(roots)]
    number = 0
    while waiting:
        message, parent = waiting.pop()
        yield message, parent
        key = _key(message, number)
        number += 1
        waiting += [(child, key) for child in reversed(objects_in(message, "children"))]


def _key(message: JsonObject, number: int) -> str:
    return id_in(message, "messageId") or f"#{number}"


class _Reader(Notes):
    def node(self, message: JsonObject, number: int, parent: str | None) -> Node:
        is_person = message.get("isCreatedByUser")
        if not isinstance(is_person, bool):
            is_person = text_in(message, "role", "sender").lower() == "user"
        has_failed = message.get("error") is True and not is_person
        parts = [*self._said(message), *self._files(message)]
        error = (
            "\n".join(part.text for part in parts if isinstance(part, Text)) if has_failed else ""
        )
        return Node(
            source_id=_key(message, number),
            parent=id_in(message, "parentMessageId") if parent is None else parent,
            role="user" if is_person else "assistant",
            parts=[] if has_failed else parts,
            author="" if is_person else text_in(message, "sender"),
            model="" if is_person else text_in(message, "model") or self._model,
            created_at=time_in(message, "createdAt"),
            error=error or (gettext("Unknown error") if has_failed else ""),
            is_shown=True,
        )

    def _said(self, message: JsonObject) -> list[Part]:
        parts = [part for each in objects_in(message, "content") for part in self._part(each)]
        if not any(isinstance(part, Text) for part in parts):
            parts += _told(text_in(message, "text"))
        return [*_plugins(message), *parts]

    def _part(self, part: JsonObject) -> Iterator[Part]:
        kind = text_in(part, "type")
        if kind == "text":
            yield from _told(_words(part.get("text")))
        elif kind in ("think", "thinking"):
            text = _words(part.get("think")) or text_in(part, "thinking")
            yield from part_of(Reasoning, text)
        elif kind == "tool_call":
            yield from _call(object_in(part, "tool_call") or part)
        elif kind == "error":
            yield Text(text_in(part, "error", "text") or _words(part.get("error")))
        elif kind in ("image_file", "image_url"):
            yield self.file(
                text_in(object_in(part, kind), "filename", "filepath", "file_id", "url")
            )
        elif kind not in _IGNORED:
            self.unknown(kind)

    def _files(self, message: JsonObject) -> Iterator[Part]:
        names = set()
        for file in [*objects_in(message, "files"), *objects_in(message, "attachments")]:
            self._name_sources(file)
            name = text_in(file, "filename", "filepath", "file_id")
            if name and name not in names:
                names.add(name)
                yield self.file(name)

    def _name_sources(self, attachment: JsonObject) -> None:
        """Reports the results of web searches and document searches as left out."""
        search = object_in(attachment, "web_search")
        looked_up = object_in(attachment, "file_search")
        for source in [
            *objects_in(search, "organic"),
            *objects_in(search, "topStories"),
            *objects_in(search, "references"),
            *objects_in(looked_up, "sources"),
        ]:
            self.leave_out_source(text_in(source, "link", "url", "fileName", "title"))


def _words(value: Json) -> str:
    """The text of a string, or of ``{"value": …}``."""
    return string(value) or text_in(value, "value")


def _told(text: str) -> list[Part]:
    parts: list[Part] = []
    found = _THINKING.match(text)
    if found:
        if thought := found[1].strip():
            parts.append(Reasoning(thought))
        text = text[found.end() :].lstrip("\n")
    return [*parts, Text(text)] if text.strip() else parts


def _call(call: JsonObject) -> Iterator[Part]:
    function = object_in(call, "function")
    output = call.get("output", function.get("output"))
    code = object_in(call, "code_interpreter")
    yield Call(
        tool=text_in(call, "name") or text_in(function, "name") or text_in(call, "type") or "tool",
        arguments=arguments_of(
            code.get("input") if code else call.get("args", function.get("arguments")),
            name="code" if code else "input",
        ),
        call_id=id_in(call, "id"),
        output=None if output is None else plain(output),
    )


def _plugins(message: JsonObject) -> Iterator[Part]:
    """Calls as LibreChat stored them until 2024."""
    for plugin in objects_in(message, "plugins"):
        calls = objects_in(plugin, "inputs") or [plugin]
        for call in calls:
            tool = text_in(call, "plugin") or text_in(plugin, "latest")
            if tool:
                yield Call(
                    tool=tool,
                    arguments=arguments_of(call.get("input", call.get("inputStr"))),
                    output=text_in(plugin, "outputs") or None,
                )
