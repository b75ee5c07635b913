"""What a person's message may be made of in each API, as its documentation says: anything else is refused."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

NotEmpty = Annotated[str, Meta(min_length=1)]
PictureUrl = Annotated[
    str, Meta(pattern="^data:image/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+=*$")
]
PdfUrl = Annotated[str, Meta(pattern="^data:application/pdf;base64,[A-Za-z0-9+/]+=*$")]
# The suffix says to the API of OpenAI what the file is, whatever its data URL says.
PdfName = Annotated[str, Meta(pattern=r"(?i)[^/\\]\.pdf$")]
Base64 = Annotated[str, Meta(pattern="^[A-Za-z0-9+/]+=*$")]


class _Part(Struct, forbid_unknown_fields=True, tag_field="type", kw_only=True):
    """A member that the API doesn't know is an error."""


# --- chat completions -----------------------------------------------------------------------------


class ChatText(_Part, tag="text"):
    text: NotEmpty


class _ImageUrl(Struct, forbid_unknown_fields=True):
    url: PictureUrl
    detail: Literal["auto", "low", "high"] = "auto"


class ChatImage(_Part, tag="image_url"):
    image_url: _ImageUrl


class _ChatFile(Struct, forbid_unknown_fields=True):
    filename: PdfName
    file_data: PdfUrl


class ChatFile(_Part, tag="file"):
    file: _ChatFile


class _Audio(Struct, forbid_unknown_fields=True):
    data: Base64
    format: Literal["wav", "mp3"]


class ChatAudio(_Part, tag="input_audio"):
    input_audio: _Audio


ChatContent = (
    NotEmpty | Annotated[list[ChatText | ChatImage | ChatFile | ChatAudio], Meta(min_length=1)]
)


# --- responses ------------------------------------------------------------------------------------


class InputText(_Part, tag="input_text"):
    text: NotEmpty


class InputImage(_Part, tag="input_image"):
    image_url: PictureUrl
    detail: Literal["auto", "low", "high"] = "auto"


class InputFile(_Part, tag="input_file"):
    filename: PdfName
    file_data: PdfUrl


class InputAudio(_Part, tag="input_audio"):
    input_audio: _Audio


ResponsesContent = (
    NotEmpty | Annotated[list[InputText | InputImage | InputFile | InputAudio], Meta(min_length=1)]
)


# --- messages -------------------------------------------------------------------------------------


class Block(_Part, tag="text"):
    text: NotEmpty


class _PictureSource(Struct, forbid_unknown_fields=True):
    type: Literal["base64"]
    media_type: Literal["image/png", "image/jpeg", "image/gif", "image/webp"]
    data: Base64


class ImageBlock(_Part, tag="image"):
    source: _PictureSource


class _PdfSource(_Part, tag="base64"):
    media_type: Literal["application/pdf"]
    data: Base64


class _TextSource(_Part, tag="text"):
    media_type: Literal["text/plain"]
    data: NotEmpty


class DocumentBlock(_Part, tag="document"):
    source: _PdfSource | _TextSource
    title: Annotated[str, Meta(max_length=500)] | None = None
    context: str | None = None


MessagesBlock = Block | ImageBlock | DocumentBlock
MessagesContent = Annotated[list[MessagesBlock], Meta(min_length=1)]


# --- LM Studio ------------------------------------------------------------------------------------


class LmText(_Part, tag="text"):
    content: NotEmpty


class LmImage(_Part, tag="image"):
    data_url: PictureUrl


LmInput = NotEmpty | Annotated[list[LmText | LmImage], Meta(min_length=1)]


def _last_of(member: str) -> Callable[[Any], Any]:
    return lambda body: [each for each in body[member] if each.get("role") == "user"][-1]["content"]


_CONTENT: Mapping[str, tuple[Callable[[Any], Any], Any]] = {
    "openai_chat": (_last_of("messages"), ChatContent),
    "xerotier": (_last_of("messages"), ChatContent),
    "bitseek": (_last_of("messages"), NotEmpty),
    "openai_completions": (lambda body: body["prompt"], NotEmpty),
    "openai_responses": (_last_of("input"), ResponsesContent),
    "anthropic_messages": (_last_of("messages"), MessagesContent),
    "lmstudio": (lambda body: body["input"], LmInput),
}


def newest_content(dialect: str, body: Any) -> list[Any]:
    """The parts of a person's newest message; a text alone is one. Raises ``ValidationError`` for what the API would
    refuse."""
    find, kind = _CONTENT[dialect]
    content = msgspec.convert(find(body), kind)
    return content if isinstance(content, list) else [content]


def data_in(part: Any) -> bytes:
    """The bytes that a part carries; nothing for a text."""
    match part:
        case ChatImage():
            return _decoded(part.image_url.url)
        case ChatFile():
            return _decoded(part.file.file_data)
        case ChatAudio() | InputAudio():
            return _decoded(part.input_audio.data)
        case InputImage():
            return _decoded(part.image_url)
        case InputFile():
            return _decoded(part.file_data)
        case ImageBlock():
            return _decoded(part.source.data)
        case DocumentBlock() if isinstance(part.source, _PdfSource):
            return _decoded(part.source.data)
        case LmImage():
            return _decoded(part.data_url)
    return b""


def text_in(part: Any) -> str:
    """The text of a part; nothing for another."""
    match part:
        case str():
            return part
        case ChatText() | InputText() | Block():
            return part.text
        case DocumentBlock() if isinstance(part.source, _TextSource):
            return part.source.data
        case LmText():
            return part.content
    return ""


def _decoded(text: str) -> bytes:
    return base64.b64decode(text.rpartition(",")[2], validate=True)
