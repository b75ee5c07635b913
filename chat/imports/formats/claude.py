"""Claude's export: ``conversations.json``, and single conversations as browser extensions save
them.

Messages have ``content`` blocks since 2024; before that only ``text``, where unknown blocks are
notes in code blocks. Links between messages (``parent_message_uuid``) exist since 2025; without
them a conversation has no branches. The export has neither the visible branch nor the model nor
pictures; of an attached or pasted text it has the content.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
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
    as_json,
    file_text,
    id_in,
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

LABEL = "Claude"

_NOTE = re.compile(
    r"\n*```\n(?:This block is not supported on your current device yet\."
    r"|Viewing artifacts created via [^\n`]{0,100})\n```\n*"
)
# Blocks about a message, not part of it.
_IGNORED = frozenset({"token_budget", "flag", "redacted_thinking"})
_BEFORE_ALL = datetime.min.replace(tzinfo=UTC)


def recognizes(value: JsonObject) -> bool:
    return isinstance(value.get("chat_messages"), list)


def name_of(value: JsonObject) -> tuple[str, str]:
    return id_in(value, "uuid"), text_in(value, "name")


def read(value: JsonObject, member: Callable[[str], str]) -> Conversation:
    if not recognizes(value):
        raise Unreadable(gettext("No messages (“chat_messages” is missing)."))
    reader = _Reader(member, text_in(value, "model"))
    messages = objects_in(value, "chat_messages")
    has_links = any("parent_message_uuid" in each for each in messages)
    nodes = [reader.node(each, number) for number, each in enumerate(messages)]
    if not has_links:
        _link(nodes)
    tree = build(nodes, leaf=id_in(value, "current_leaf_message_uuid"))
    return reader.conversation(
        name_of(value),
        tree,
        created_at=time_in(value, "created_at"),
        updated_at=time_in(value, "updated_at"),
    )


def _link(nodes: list[Node]) -> None:
    """Links the messages in the order of time: the file may be unordered."""
    if all(node.created_at for node in nodes):
        nodes.sort(key=lambda node: node.created_at or _BEFORE_ALL)
    for above, node in pairwise(nodes):
        node.parent = above.source_id


class _Reader(Notes):
    def node(self, message: JsonObject, number: int) -> Node:
        sender = text_in(message, "sender", "role")
        is_person = sender in ("human", "user")
        return Node(
            source_id=id_in(message, "uuid") or f"#{number}",
            parent=id_in(message, "parent_message_uuid"),
            role="user" if is_person else "assistant",
            parts=[*self._said(message), *self._files(message)] if sender != "system" else [],
            model="" if is_person else text_in(message, "model") or self._model,
            created_at=time_in(message, "created_at"),
        )

    def _said(self, message: JsonObject) -> list[Part]:
        blocks = objects_in(message, "content")
        parts = [part for block in blocks for part in self._block(block)]
        if any(isinstance(part, Text) for part in parts):
            return parts
        text = _NOTE.sub("\n\n", text_in(message, "text")).strip()
        return [*parts, Text(text)] if text and not parts else parts

    def _block(self, block: JsonObject) -> Iterator[Part]:
        kind = text_in(block, "type")
        if kind in ("text", "voice_note"):
            yield from part_of(Text, text_in(block, "text"))
        elif kind == "thinking":
            text = text_in(block, "thinking") or joined(
                text_in(each, "summary") for each in objects_in(block, "summaries")
            )
            yield from part_of(Reasoning, text)
        elif kind == "tool_use":
            yield Call(
                tool=text_in(block, "name") or "tool",
                arguments=arguments_of(block.get("input")),
                call_id=id_in(block, "id"),
            )
        elif kind == "tool_result":
            yield Output(
                tool=text_in(block, "name"),
                text=_result(block.get("content")),
                call_id=id_in(block, "tool_use_id"),
                has_failed=block.get("is_error") is True,
            )
            yield from self._pictures(block)
        elif kind not in _IGNORED:
            self.unknown(kind)
            text = text_in(block, "text") or text_in(object_in(block, "display_content"), "text")
            yield from part_of(Text, text)

    def _pictures(self, block: JsonObject) -> Iterator[Part]:
        """Pictures in the result of a tool: with their bytes, or by name."""
        for entry in objects_in(block, "content"):
            if text_in(entry, "type") == "image":
                source = object_in(entry, "source")
                name = text_in(entry, "file_name", "file_uuid", "title") or gettext("picture")
                if data := text_in(source, "data"):
                    yield File(name=name, data=data)
                else:
                    yield self.file(name, text_in(source, "file_uuid", "url"))

    def _files(self, message: JsonObject) -> Iterator[Part]:
        names = set()
        for attachment in objects_in(message, "attachments"):
            name = text_in(attachment, "file_name")
            content = text_in(attachment, "extracted_content")
            names.add(name)
            yield Text(file_text(name, content)) if content.strip() else self.file(name)
        for file in [*objects_in(message, "files"), *objects_in(message, "files_v2")]:
            name = text_in(file, "file_name", "file_uuid")
            if name not in names:
                names.add(name)
                yield self.file(name)


def _result(content: Json) -> str:
    """Texts of a result; titles and addresses of search hits and the like; else JSON."""
    if not isinstance(content, list):
        return plain(content)
    return joined((_entry(each) for each in content), "\n")


def _entry(entry: Json) -> str:
    if not isinstance(entry, dict):
        return plain(entry)
    if text_in(entry, "type") == "image":
        # Pictures are parts of the answer.
        return ""
    words = joined([text_in(entry, "title"), text_in(entry, "url"), text_in(entry, "text")], "\n")
    if words:
        return words
    nested = list_in(entry, "content")
    return _result(nested) if nested else string(as_json(entry))
