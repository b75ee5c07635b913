"""The result of a tool: the text for the model, and files."""

from __future__ import annotations

import base64
import binascii
import re
from urllib.parse import unquote, urlsplit

import mcp_types as types
import msgspec
from django.conf import settings

from chat.events import Json
from chat.rendering.figures import size
from chat.tools.kinds import CallFailed, CallOutput, OutputFile
from chat.tools.mcp.listing import clean_json, clean_text
from chat.tools.mcp.sentences import TOO_LARGE

_MEDIA_TYPE = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,60}/[a-z0-9][a-z0-9!#$&^_.+-]{0,60}")
ANY_BYTES = "application/octet-stream"
NAME_LENGTH = 120
MOST_FILES = 50
# Blocks of a result. Each may be an object of its own, and most results have one.
MOST_BLOCKS = 1000


class InvalidContent(Exception):
    """Content that the protocol does not allow."""


def output_of(
    result: types.CallToolResult, *, request_bytes: int, response_bytes: int
) -> CallOutput:
    """Texts are joined; a file is named in the text where it stood, so that the model knows of it. Structured
    content that is too large to be stored is left out, if there is a text. Raises ``InvalidContent`` and ``CallFailed``."""
    if len(result.content) > MOST_BLOCKS:
        raise CallFailed(TOO_LARGE)
    texts: list[str] = []
    files: list[OutputFile] = []
    for block in result.content:
        text, file = _read(block)
        if file is not None and len(files) < MOST_FILES:
            files.append(file)
        texts.append(text)
    structured = _structured(result.structured_content)
    if not any(texts) and result.structured_content is not None:
        if structured is None:
            raise CallFailed(TOO_LARGE)
        texts.append(msgspec.json.encode(structured).decode())
    return CallOutput(
        text="\n".join(text for text in texts if text),
        is_error=result.is_error,
        structured=structured,
        files=tuple(files),
        request_bytes=request_bytes,
        response_bytes=response_bytes,
    )


def _structured(content: Json) -> Json:
    cleaned = clean_json(content)
    return cleaned if len(msgspec.json.encode(cleaned)) <= settings.TOOL_RESULT_BYTES else None


def _read(block: types.ContentBlock) -> tuple[str, OutputFile | None]:
    match block:
        case types.TextContent():
            return clean_text(block.text), None
        case types.ImageContent() | types.AudioContent():
            file = OutputFile(media_type=_media_type(block.mime_type), content=_bytes(block.data))
            return _mention(file), file
        case types.ResourceLink():
            words = (block.title or block.name, block.uri, block.description)
            return clean_text(" · ".join(word for word in words if word)), None
        case types.EmbeddedResource():
            return _resource(block.resource)


def _resource(
    resource: types.TextResourceContents | types.BlobResourceContents,
) -> tuple[str, OutputFile]:
    name = _name_of(str(resource.uri))
    if isinstance(resource, types.TextResourceContents):
        text = clean_text(resource.text)
        media_type = _media_type(resource.mime_type or "text/plain")
        return text, OutputFile(media_type=media_type, content=text.encode(), name=name)
    file = OutputFile(
        media_type=_media_type(resource.mime_type or ANY_BYTES),
        content=_bytes(resource.blob),
        name=name,
    )
    return _mention(file), file


def _mention(file: OutputFile) -> str:
    """For the model, in English as the definitions of tools are."""
    name = f"{file.name}, " if file.name else ""
    return f"[File: {name}{file.media_type}, {size(len(file.content))}]"


def _media_type(text: str) -> str:
    found = text.split(";")[0].strip().lower()
    return found if _MEDIA_TYPE.fullmatch(found) else ANY_BYTES


def _bytes(data: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidContent("not base64") from error


def _name_of(uri: str) -> str:
    """The last part of an address, as a name for a file."""
    try:
        path = unquote(urlsplit(uri).path, errors="replace")
    except ValueError:
        return ""
    name = clean_text(path.rstrip("/").rpartition("/")[2])
    return "".join(letter for letter in name if letter.isprintable())[:NAME_LENGTH]
