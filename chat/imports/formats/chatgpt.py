"""ChatGPT's export: ``conversations.json``, or ``conversations-000.json`` and so on.

Each conversation is a tree of nodes (``mapping``). One visible answer is several nodes: the
reasoning, calls of tools, their results, the text. Exports differ: ``metadata`` and ``author`` may
be missing, ids are ``conversation_id`` or ``id``, pictures are ``file-service://`` or
``sediment://`` pointers to files whose names begin with the id or are in
``conversation_asset_file_names.json``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from chat.dialects.reading import NotJson, read_json
from chat.events import Json, JsonObject
from chat.imports.conversations import (
    Call,
    Conversation,
    Output,
    Part,
    Reasoning,
    Text,
    Unreadable,
)
from chat.imports.formats.notes import Notes, part_of
from chat.imports.reading import (
    arguments_of,
    fenced,
    id_in,
    identifier,
    ids_in,
    joined,
    list_in,
    object_in,
    objects_in,
    string,
    text_in,
    time_in,
)
from chat.imports.tree import Node, build
from chat.imports.words import gettext

LABEL = "ChatGPT"

# Texts that ChatGPT adds for the model: custom instructions, memories, the project's files.
_CONTEXTS = frozenset({"user_editable_context", "model_editable_context"})
# "Thought for 8 seconds".
_STATUS = frozenset({"reasoning_recap"})
_SOUNDS = frozenset(
    {
        "audio_asset_pointer",
        "real_time_user_audio_video_asset_pointer",
        "video_container_asset_pointer",
    }
)
# Private characters around marks of citations and widgets, such as ``cite`` and ``turn0search1``.
_MARK = re.compile("\ue200([^\ue200\ue201]{0,2000})\ue201|[\ue200-\ue206]")
_PART = "\ue202"
# ``【8†source】``, as ChatGPT cited until 2024.
_OLD_MARK = re.compile("【[^【】]{1,100}†[^【】]{0,300}】")
_POINTER = re.compile("file[-_][0-9A-Za-z]+")
_TEXTS = frozenset({"text", "multimodal_text"})


def recognizes(value: JsonObject) -> bool:
    return isinstance(value.get("mapping"), dict)


def name_of(value: JsonObject) -> tuple[str, str]:
    return id_in(value, "conversation_id", "id"), text_in(value, "title")


def read(value: JsonObject, member: Callable[[str], str]) -> Conversation:
    mapping = value.get("mapping")
    if not isinstance(mapping, dict):
        raise Unreadable(gettext("No messages (“mapping” is missing)."))
    reader = _Reader(member, text_in(value, "default_model_slug"))
    nodes = [reader.node(key, node) for key, node in mapping.items() if isinstance(node, dict)]
    tree = build(nodes, leaf=id_in(value, "current_node"))
    return reader.conversation(
        name_of(value),
        tree,
        created_at=time_in(value, "create_time"),
        updated_at=time_in(value, "update_time"),
    )


class _Reader(Notes):
    def node(self, key: str, node: JsonObject) -> Node:
        message = object_in(node, "message")
        author = object_in(message, "author")
        role = string(author.get("role"))
        is_person = role == "user"
        return Node(
            source_id=identifier(key),
            parent=id_in(node, "parent"),
            children=ids_in(node, "children"),
            role="user" if is_person else "assistant",
            parts=[] if _is_hidden(message, role) else list(self._parts(message, role)),
            model="" if is_person else self._model_of(message),
            created_at=time_in(message, "create_time"),
        )

    def _model_of(self, message: JsonObject) -> str:
        return text_in(object_in(message, "metadata"), "model_slug") or self._model

    def _parts(self, message: JsonObject, role: str) -> Iterator[Part]:
        content = object_in(message, "content")
        kind = text_in(content, "content_type") or "text"
        if role == "tool":
            yield from self._returned(message, content, kind)
        elif role == "assistant" and string(message.get("recipient")) not in ("", "all"):
            yield _call(message, content)
        elif kind == "thoughts" or (role == "assistant" and message.get("channel") == "analysis"):
            yield from part_of(Reasoning, _thoughts(content) or self._text(content, kind))
        else:
            yield from self._said(message, content, kind)

    def _said(self, message: JsonObject, content: JsonObject, kind: str) -> Iterator[Part]:
        text = self._text(content, kind)
        metadata = object_in(message, "metadata")
        names = {
            id_in(each, "id"): text_in(each, "name") for each in objects_in(metadata, "attachments")
        }
        pointers = list(_pointers(content))
        if kind in _TEXTS:
            text = _without_marks(text, metadata)
        yield from part_of(Text, text)
        for pointer in pointers:
            yield self.file(names.get(pointer, ""), pointer)
        for key, name in names.items():
            if key not in pointers:
                yield self.file(name, key)

    def _returned(self, message: JsonObject, content: JsonObject, kind: str) -> Iterator[Part]:
        tool = text_in(object_in(message, "author"), "name")
        text = self._text(content, kind)
        if text.strip():
            yield Output(tool=tool, text=text, has_failed=kind == "system_error")
        for pointer in _pointers(content):
            yield self.file(pointer)

    def _text(self, content: JsonObject, kind: str) -> str:
        """The text of any content; of an unknown kind, the members that usually have text."""
        if kind == "code":
            code = text_in(content, "text") or joined(map(string, list_in(content, "parts")), "\n")
            language = text_in(content, "language")
            return fenced(code, "" if language == "unknown" else language) if code.strip() else ""
        if kind == "tether_quote":
            source = joined([text_in(content, "title"), text_in(content, "url")], "\n")
            return joined([source, text_in(content, "text")])
        if kind == "tether_browsing_display":
            return text_in(content, "result", "summary")
        if kind not in _KNOWN:
            self.unknown(kind)
        parts = [self._part(each) for each in list_in(content, "parts")]
        return joined(parts, "\n") or text_in(content, "text", "result", "content")

    def _part(self, part: Json) -> str:
        if isinstance(part, str):
            return string(part)
        kind = text_in(part, "content_type")
        if kind in _SOUNDS:
            self.leave_out(gettext("A recording was left out. What was said was kept as text."))
        elif kind and kind not in ("image_asset_pointer", "audio_transcription"):
            self.unknown(kind)
        return text_in(part, "text")


_KNOWN = frozenset(
    {
        *_TEXTS,
        *_STATUS,
        "code",
        "thoughts",
        "execution_output",
        "computer_output",
        "system_error",
        "sonic_webpage",
        "citable_code_output",
    }
)


def _is_hidden(message: JsonObject, role: str) -> bool:
    metadata = object_in(message, "metadata")
    kind = text_in(object_in(message, "content"), "content_type")
    return (
        role not in ("user", "assistant", "tool")
        or kind in _CONTEXTS
        or kind in _STATUS
        or bool(metadata.get("is_visually_hidden_from_conversation"))
        or bool(metadata.get("is_user_system_message"))
    )


def _call(message: JsonObject, content: JsonObject) -> Call:
    tool = string(message.get("recipient"))
    said = joined(map(string, list_in(content, "parts")), "\n") or text_in(content, "text")
    is_code = tool == "python" or text_in(content, "language") == "python"
    return Call(tool=tool, arguments=arguments_of(said, name="code" if is_code else "input"))


def _thoughts(content: JsonObject) -> str:
    thoughts = objects_in(content, "thoughts")
    if not thoughts:
        return ""
    return joined(
        joined(
            [
                f"**{summary}**" if (summary := text_in(each, "summary").strip()) else "",
                text_in(each, "content") or joined(map(string, list_in(each, "chunks")), ""),
            ]
        )
        for each in thoughts
    )


def _pointers(content: JsonObject) -> Iterator[str]:
    """The ids of pictures: ``sediment://file_00000000a1b2``, ``file-service://file-AbC``."""
    for part in objects_in(content, "parts"):
        pointer = string(part.get("asset_pointer"))
        if part.get("content_type") == "image_asset_pointer" and pointer:
            name = pointer.rsplit("/", 1)[-1]
            found = _POINTER.match(name)
            yield found[0] if found else name


def _without_marks(text: str, metadata: JsonObject) -> str:
    """The text with citations as links if the export has their sources, without private
    characters."""
    for reference in objects_in(metadata, "content_references")[:1000]:
        matched, alt = string(reference.get("matched_text")), text_in(reference, "alt")
        if matched.strip() and "\ue200" in matched:
            text = text.replace(matched, f" {alt}" if alt else "", 1)
    return _MARK.sub(_label_of, _with_old_links(text, metadata))


def _label_of(found: re.Match[str]) -> str:
    """The visible name in a mark without a source in the file: ``entity`` has it in a list of JSON
    after the kind, ``url`` before the address."""
    kind, *rest = (found[1] or "").split(_PART)
    if kind == "entity" and rest:
        try:
            names, _ = read_json(rest[0])
        except NotJson:
            return ""
        return string(names[1]) if isinstance(names, list) and len(names) > 1 else ""
    if kind in ("url", "link") and rest:
        label, address = rest[0], rest[1] if len(rest) > 1 else ""
        is_address = address.startswith(("https://", "http://"))
        return f"[{label}](<{address}>)" if is_address and _is_plain(label, address) else label
    return ""


def _with_old_links(text: str, metadata: JsonObject) -> str:
    """The text with old marks as links. The file has the place of each in characters."""
    found: dict[str, str] = {}
    for citation in objects_in(metadata, "citations")[:1000]:
        start, end = citation.get("start_ix"), citation.get("end_ix")
        about = object_in(citation, "metadata")
        title, address = text_in(about, "title", "name"), text_in(about, "url")
        if isinstance(start, int) and isinstance(end, int) and address.startswith("http"):
            mark = text[start:end]
            if _OLD_MARK.fullmatch(mark) and _is_plain(title, address):
                found[mark] = f" ([{title or address}](<{address}>))"
    return _OLD_MARK.sub(lambda mark: found.get(mark[0], mark[0]), text)


def _is_plain(label: str, address: str) -> bool:
    """Returns whether they can be in a link of Markdown without changing its structure."""
    return not any(each in label for each in "[]\n") and not any(
        each in address for each in "<>\n "
    )
