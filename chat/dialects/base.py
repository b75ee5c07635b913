"""The interface of a dialect: prompt to request, frames to canonical events."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar, Self, TypeVar
from urllib.parse import urlencode

from msgspec.json import encode

from chat.dialects.parameters import Parameter, Values, read_options
from chat.dialects.reading import NotJson, read_json, scrub
from chat.events import Cause, Ending, ErrorInfo, Event, JsonObject, Result
from chat.events.translation import gettext_noop
from chat.wire.sse import Frame


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """The text that a person wrote, or that of a document."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    """A file that a person attached. ``data`` is Base64 without the prefix of a data URL."""

    media_type: str
    data: str
    name: str = ""


class Image(_File):
    """A picture."""


class Audio(_File):
    """A recording."""


class Document(_File):
    """A document that is sent as a file. Where it is sent as its text, it is a ``Text``."""


Part = Text | Image | Audio | Document
P = TypeVar("P", bound=Part)

TOOLS_LEFT_OUT = gettext_noop("The tools were left out: this API type doesn’t support them.")
NO_HEADERS: Mapping[str, str] = MappingProxyType({})
# The media types of recordings that requests can carry, and the API's name of each format.
AUDIO_FORMATS: Mapping[str, str] = {
    "audio/wav": "wav",
    "audio/x-wav": "wav",
    "audio/wave": "wav",
    "audio/vnd.wave": "wav",
    "audio/mpeg": "mp3",
    "audio/mp3": "mp3",
}
AUDIO_TYPE_LEFT_OUT = "An audio file of type {} was left out: this API accepts WAV and MP3."
PARTS_LEFT_OUT: dict[type[Part], str] = {
    Image: gettext_noop("The images were left out: this API type doesn’t accept them."),
    Audio: gettext_noop("The audio files were left out: this API type doesn’t accept them."),
    Document: gettext_noop("The documents were left out: this API type doesn’t accept them."),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class UserTurn:
    """A person's message: its text and attachments, in the order of display."""

    parts: tuple[Part, ...]

    @classmethod
    def of(cls, text: str, *attached: Part) -> Self:
        return cls(parts=(Text(text=text), *attached))

    @property
    def text(self) -> str:
        return "\n\n".join(part.text for part in self.parts_of(Text))

    def parts_of(self, kind: type[P]) -> tuple[P, ...]:
        return tuple(part for part in self.parts if isinstance(part, kind))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A person's reply to a question or a request for approval that an answer ended with.

    ``ask_id`` and ``call_id`` are those of the ``ask.question`` event (result.ext.asks).
    """

    ask_id: str
    call_id: str | None = None
    style: str | None = None
    text: str = ""
    selected: tuple[str, ...] = ()
    fields: Mapping[str, str] = field(default_factory=dict)
    is_declined: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistantTurn:
    """One run of an earlier answer. ``is_native`` says that it came from the same upstream and
    dialect, so that ``result.ext.native`` may be replayed as it is.

    Calls that a person has answered since carry their ``output`` (and ``status`` ``failed``
    where it was refused or went wrong) although the run itself ended without it; calls whose
    ``output`` is ``None`` were never answered. ``replies`` answer ``result.ext.asks``. An answer
    of several runs is several turns next to each other.
    """

    result: Result
    is_native: bool = False
    replies: tuple[Reply, ...] = ()


Turn = UserTurn | AssistantTurn


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDefinition:
    """A function that the model may ask us to run. ``schema`` is a JSON Schema of type object.

    ``is_deferred``: the model gets only the name and the first sentence (`chat.runs.offered_tools`).
    ``is_for_client``: a program gives the result, which sent the message. ``feature``: it is a function of Tributary
    itself, of this feature (`chat.result.own_functions`).
    """

    name: str
    description: str = ""
    schema: JsonObject = field(default_factory=dict)
    is_deferred: bool = False
    is_for_client: bool = False
    feature: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """Everything that a request is built from, independent of the dialect.

    ``turns`` ends with the person's newest turn, or with the answer that is to go on: its
    open calls and questions have their results, or it had paused. ``previous_response_id`` is
    the id under which the upstream keeps the history before that, if it does (of an answer
    that goes on: that answer's own id). ``options`` are the
    upstream's own settings for this dialect, ``parameters`` what the person chose.
    """

    model: str
    turns: tuple[Turn, ...]
    system: str = ""
    parameters: Values = field(default_factory=dict)
    options: Values = field(default_factory=dict)
    previous_response_id: str | None = None
    tools: tuple[ToolDefinition, ...] = ()
    # The model's entry in the server's list; empty for a model that was typed by hand.
    model_detail: JsonObject = field(default_factory=dict)
    # Sentences for the run's details: which attached files were left out or changed.
    notes: tuple[str, ...] = ()
    stream: bool = True

    @property
    def goes_on(self) -> bool:
        """True if the request continues the last answer, without a new message of a person."""
        return bool(self.turns) and isinstance(self.turns[-1], AssistantTurn)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamRequest:
    """One HTTP request, without the credential. ``path`` is relative to the base URL.

    ``notes`` are sentences for the run's details, such as "earlier turns were sent as text".
    """

    path: str
    body: bytes
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInfo:
    """One entry of an upstream's model list."""

    id: str
    label: str
    detail: JsonObject = field(default_factory=dict)


class Parser:
    """One stream's decoder: stateful, never raises on content, ends exactly once.

    ``feed`` and ``feed_body`` return the events of one frame or one complete JSON body;
    nothing is returned after ``is_done``. ``close`` closes what is open, adds the error that
    the ending needs (kind ``cut`` where no terminator came; ``error`` where our side failed)
    and sets ``ending``; the caller folds all events and appends the one ``chat.end``.
    ``close`` a second time gives nothing.
    """

    # Set when the terminator was received. Frames of the same read may still be fed; figures in them are part of
    # the events of ``close``.
    is_done: bool = False
    ending: Ending | None = None

    def feed(self, frame: Frame) -> list[Event]:
        raise NotImplementedError

    def feed_body(self, body: bytes) -> list[Event]:
        raise NotImplementedError

    def wait_seconds(self) -> float:
        """Seconds that the reader waits after ``is_done`` for figures that may come in a later read."""
        return 0.0

    def close(self, cause: Cause = "eof", *, error: ErrorInfo | None = None) -> list[Event]:
        raise NotImplementedError


class Dialect:
    """One wire protocol. Modules of this package that define ``dialect`` are discovered."""

    name: ClassVar[str]
    label: ClassVar[str]
    # Path of requests below the base URL.
    path: ClassVar[str]
    help: ClassVar[str] = ""
    # Settings of one message, and settings of an upstream.
    parameters: ClassVar[tuple[Parameter, ...]] = ()
    options: ClassVar[tuple[Parameter, ...]] = ()
    # Path of the model list below the base URL, ``..`` being a step up; empty where the API has
    # none.
    models_path: ClassVar[str] = ""
    # The parameter with which a server condenses longer conversations by itself, in tokens; empty where the API has none.
    compaction_parameter: ClassVar[str] = ""
    # True if the upstream keeps the history and continues by ``previous_response_id``.
    keeps_history: ClassVar[bool] = False
    # The parts that a request can carry. Others are left out, with a note (`left_out`).
    takes_tools: ClassVar[bool] = False
    takes_parts: ClassVar[frozenset[type[Part]]] = frozenset({Text})
    # Media types of documents that are sent as files to servers whose option ``documents`` says so.
    document_types: ClassVar[frozenset[str]] = frozenset()

    def sends_document(self, media_type: str, options: Values) -> bool:
        """Returns whether a server with these settings gets such a document as a file, instead of its text."""
        chosen = read_options(self.options, options).get("documents")
        return media_type in self.document_types and chosen == "file"

    def parameters_for(self, options: Values) -> tuple[Parameter, ...]:
        """The parameters as a server with these settings accepts them."""
        return self.parameters

    def headers(self, key: str, options: Values | None = None) -> dict[str, str]:
        """The headers of every request: the credential and what this API requires. The only place
        that builds them. ``options`` are the server's settings."""
        return {"Authorization": f"Bearer {key}"} if key else {}

    def left_out(self, prompt: Prompt) -> list[str]:
        """A sentence for each kind of content in the prompt that this dialect can't send."""
        parts = [part for turn in prompt.turns if isinstance(turn, UserTurn) for part in turn.parts]
        unknown = {type(part) for part in parts} - self.takes_parts
        notes = [words for kind, words in PARTS_LEFT_OUT.items() if kind in unknown]
        if Audio in self.takes_parts:
            notes += dict.fromkeys(
                AUDIO_TYPE_LEFT_OUT.format(part.media_type)
                for part in parts
                if isinstance(part, Audio) and part.media_type not in AUDIO_FORMATS
            )
        notes += prompt.notes
        return [TOOLS_LEFT_OUT, *notes] if prompt.tools and not self.takes_tools else notes

    def request(self, prompt: Prompt) -> UpstreamRequest:
        """Never raises for the content of a prompt: values out of bounds are corrected, with a note."""
        raise NotImplementedError

    def sent(
        self, body: JsonObject, notes: Sequence[str], headers: Mapping[str, str] = NO_HEADERS
    ) -> UpstreamRequest:
        """The request with this body."""
        return UpstreamRequest(
            path=self.path, body=encode(scrub(body)), headers=headers, notes=tuple(notes)
        )

    def parser(self, *, model: str, endpoint: str = "", options: Values) -> Parser:
        """``options`` are the prompt's options and parameters in one mapping. Its optional ``run_id`` is the
        run's id as text, from which the parser makes ids that the server did not send."""
        raise NotImplementedError

    def after_refusal(self, prompt: Prompt, error: ErrorInfo) -> Prompt | None:
        """The prompt to try again with after a refusal (status 400, before any output) of something optional;
        ``None`` if there is nothing to leave out."""
        return None

    def read_models(self, body: bytes) -> list[ModelInfo]:
        """The models of a list; empty if the body is not a list. Never raises."""
        return [model for entry in model_entries(body) if (model := model_of(entry))]


def data_url(file: _File) -> str:
    return f"data:{file.media_type};base64,{file.data}"


def recordings(turn: UserTurn) -> list[tuple[str, str]]:
    """The format and the data of each recording that can be sent."""
    return [
        (AUDIO_FORMATS[audio.media_type], audio.data)
        for audio in turn.parts_of(Audio)
        if audio.media_type in AUDIO_FORMATS
    ]


# --- model lists -----------------------------------------------------------------------


def model_entries(body: bytes) -> list[JsonObject]:
    """The entries under ``data`` or ``models`` or of the array itself; a map gives its keys."""
    try:
        value = scrub(read_json(body.decode("utf-8", "replace"))[0])
    except NotJson:
        return []
    if isinstance(value, dict):
        value = value.get("data") or value.get("models") or []
    if isinstance(value, dict):
        return [
            {**(entry if isinstance(entry, dict) else {}), "id": key}
            for key, entry in value.items()
        ]
    if not isinstance(value, list):
        return []
    return [entry if isinstance(entry, dict) else {"id": entry} for entry in value]


def model_of(entry: JsonObject) -> ModelInfo | None:
    """One entry, if it has an id to send as ``model``."""
    identity = _first_text(entry, "id", "key", "name", "model")
    if not identity:
        return None
    label = _first_text(entry, "display_name", "displayName", "name") or identity
    return ModelInfo(id=identity, label=label, detail=entry)


def _first_text(entry: JsonObject, *names: str) -> str:
    return next((v for name in names if isinstance(v := entry.get(name), str) and v), "")


# --- model lists with several pages ----------------------------------------------------

# Member with the token of the next page -> query parameter that asks for it: lists of Fireworks accounts
# and of Friendli endpoints.
_TOKENS: Mapping[str, str] = {"nextPageToken": "pageToken", "nextCursor": "cursor"}
MAX_TOKEN_CHARACTERS = 1000


def next_page(path: str, body: bytes) -> str:
    """``path`` with the query of the page after ``body``; empty after the last page."""
    try:
        value = read_json(body.decode("utf-8", "replace"))[0]
    except NotJson:
        return ""
    if not isinstance(value, dict):
        return ""
    # Anthropic's; OpenAI's lists carry the same members and are always complete.
    if value.get("has_more") is True:
        return _asking(path, "after_id", value.get("last_id"))
    for member, name in _TOKENS.items():
        if value.get(member):
            return _asking(path, name, value[member])
    return ""


def _asking(path: str, name: str, token: object) -> str:
    if not isinstance(token, str) or not 0 < len(token) <= MAX_TOKEN_CHARACTERS:
        return ""
    joint = "&" if "?" in path else "?"
    return f"{path}{joint}{urlencode({name: token}, errors='replace')}"
