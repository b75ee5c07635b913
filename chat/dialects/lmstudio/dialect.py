"""LM Studio's native API: requests, history stored by the server, plugins and MCP servers."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import ClassVar
from urllib.parse import urlsplit

from chat.dialects.base import (
    AssistantTurn,
    Dialect,
    Image,
    ModelInfo,
    Parser,
    Prompt,
    Text,
    Turn,
    UpstreamRequest,
    UserTurn,
    data_url,
    model_entries,
    model_of,
)
from chat.dialects.history import answered_calls, item_text, render_turns, replies_text
from chat.dialects.lmstudio.parser import LEAVING_ENDS_IT, LmStudioParser
from chat.dialects.parameters import Parameter, Values, declared, read_options, read_parameters
from chat.dialects.stream import count_of, object_of, text_of
from chat.events import ErrorInfo, Json, JsonObject
from chat.events.translation import gettext_noop

_DECLARED = declared("lmstudio/parameters.toml")

# A longer list is a mistake, such as a configuration pasted twice.
MOST_INTEGRATIONS = 32

_LEFT_OUT = "Entry {number} of the integrations was left out: {reason}."


def read_integrations(value: object) -> tuple[list[Json], list[str]]:
    """The entries that LM Studio understands, and a note for each other one. A note names the entry
    only by its number, because anything in it may be a credential."""
    if value is None:
        return [], []
    entries = value if isinstance(value, list) else [value]
    accepted: list[Json] = []
    notes: list[str] = []
    for number, entry in enumerate(entries[:MOST_INTEGRATIONS], start=1):
        found = _read(entry)
        if isinstance(found, _Reason):
            notes.append(_LEFT_OUT.format(number=number, reason=found))
        else:
            accepted.append(found)
    if len(entries) > MOST_INTEGRATIONS:
        notes.append(f"Only the first {MOST_INTEGRATIONS} integrations were sent.")
    return accepted, notes


class _Reason(str):
    """Why an entry cannot be sent."""

    __slots__ = ()


def _read(entry: Json) -> Json | _Reason:
    if isinstance(entry, str):
        return entry if entry.strip() else _Reason("it is empty")
    if not isinstance(entry, dict):
        return _Reason("it is neither a name nor an object")
    reader = _READERS.get(text_of(entry, "type"))
    return reader(entry) if reader else _Reason("its type is neither plugin nor ephemeral_mcp")


def _read_plugin(entry: JsonObject) -> JsonObject | _Reason:
    if not text_of(entry, "id"):
        return _Reason("a plugin needs its id")
    return _with_allowed_tools({"type": "plugin", "id": entry["id"]}, entry)


def _read_server(entry: JsonObject) -> JsonObject | _Reason:
    if not text_of(entry, "server_label"):
        return _Reason("an MCP server needs a server_label")
    if not _is_web_address(text_of(entry, "server_url")):
        return _Reason("an MCP server needs a server_url that begins with http:// or https://")
    headers = entry.get("headers")
    if headers is not None and not _are_headers(headers):
        return _Reason("headers are an object of texts without line breaks")
    server: JsonObject = {
        "type": "ephemeral_mcp",
        "server_label": entry["server_label"],
        "server_url": entry["server_url"],
    }
    return _with_allowed_tools({**server, "headers": headers} if headers else server, entry)


def _with_allowed_tools(wire: JsonObject, entry: JsonObject) -> JsonObject | _Reason:
    """A list that cannot be parsed must not allow every tool."""
    if "allowed_tools" not in entry:
        return wire
    tools = entry["allowed_tools"]
    if not isinstance(tools, list) or not all(isinstance(tool, str) for tool in tools):
        return _Reason("allowed_tools is a list of names")
    return {**wire, "allowed_tools": tools}


def _is_web_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.netloc)


def _are_headers(value: Json) -> bool:
    return isinstance(value, dict) and all(
        isinstance(content, str) and content.isprintable() and name.isprintable()
        for name, content in value.items()
    )


_READERS: Mapping[str, Callable[[JsonObject], JsonObject | _Reason]] = {
    "plugin": _read_plugin,
    "ephemeral_mcp": _read_server,
}

# The message that continues an answer which waited for nobody.
GO_ON = "Please go on."
HISTORY_AS_TEXT = gettext_noop(
    "The server didn’t have this conversation, so earlier messages were sent as text."
)


class LmStudioDialect(Dialect):
    name: ClassVar[str] = "lmstudio"
    label: ClassVar[str] = gettext_noop("LM Studio")
    help: ClassVar[str] = gettext_noop(
        "LM Studio’s own API. The address doesn’t include /v1, such as http://127.0.0.1:1234."
    )
    path: ClassVar[str] = "/api/v1/chat"
    models_path: ClassVar[str] = "/api/v1/models"
    keeps_history: ClassVar[bool] = True
    takes_parts = frozenset({Text, Image})
    parameters: ClassVar[tuple[Parameter, ...]] = _DECLARED.parameters

    options: ClassVar[tuple[Parameter, ...]] = _DECLARED.options

    def request(self, prompt: Prompt) -> UpstreamRequest:
        options = read_options(self.options, prompt.options)
        parameters, notes = read_parameters(self.parameters, prompt.parameters)
        notes += self.left_out(prompt)
        notes += _fit_model(parameters, prompt.model_detail)
        body: JsonObject = {"model": prompt.model, "stream": prompt.stream, **parameters}
        if prompt.system:
            body["system_prompt"] = prompt.system
        integrations, found = read_integrations(options.get("integrations"))
        if integrations:
            body["integrations"] = integrations
        if not options["store"]:
            body["store"] = False
        body |= _said(prompt, notes, is_stored=bool(options["store"]))
        return self.sent(body, [*notes, *found], LEAVING_ENDS_IT)

    def parser(self, *, model: str, endpoint: str = "", options: Values) -> Parser:
        known = read_options((*self.parameters, *self.options), options)
        return LmStudioParser(model=model, endpoint=endpoint, options=known)

    def after_refusal(self, prompt: Prompt, error: ErrorInfo) -> Prompt | None:
        """If the server has lost a response id, the earlier turns can be sent as text."""
        is_about_history = "response" in f"{error.param} {error.code} {error.message}".lower()
        if error.status not in (400, 404) or not prompt.previous_response_id:
            return None
        return replace(prompt, previous_response_id=None) if is_about_history else None

    def read_models(self, body: bytes) -> list[ModelInfo]:
        """The models for chat; the list contains embedding models, too."""
        entries = [entry for entry in model_entries(body) if entry.get("type", "llm") == "llm"]
        return [model for entry in entries if (model := model_of(entry))]


def _fit_model(parameters: dict[str, object], detail: JsonObject) -> list[str]:
    """Removes or corrects, with a note, what the model cannot do according to the model list. For a
    model that the list does not describe, nothing is changed."""
    notes = []
    wish = parameters.get("reasoning")
    offered = _reasoning_of(detail)
    if wish is not None and offered is not None and wish not in offered:
        del parameters["reasoning"]
        there = f"offers {', '.join(offered)}" if offered else "doesn’t support reasoning"
        notes.append(f"The reasoning setting {wish} was left out: this model {there}.")
    longest = count_of(detail, "max_context_length")
    context = parameters.get("context_length")
    if longest and isinstance(context, int) and context > longest:
        parameters["context_length"] = longest
        notes.append(f"The context length was set to {longest}, the maximum of this model.")
    return notes


def _reasoning_of(detail: JsonObject) -> list[str] | None:
    """The reasoning settings that a model offers; ``None`` if the list does not tell."""
    if not isinstance(detail.get("capabilities"), dict):
        return None
    allowed = object_of(detail["capabilities"], "reasoning").get("allowed_options")
    return [str(option) for option in allowed] if isinstance(allowed, list) else []


def _said(prompt: Prompt, notes: list[str], *, is_stored: bool) -> JsonObject:
    """The newest turn, and what it follows: an id of stored history, or the turns as text."""
    earlier, newest = prompt.turns[:-1], prompt.turns[-1:]
    text = ""
    images: tuple[Image, ...] = ()
    for turn in newest:
        if isinstance(turn, UserTurn):
            text, images = turn.text, turn.parts_of(Image)
        else:
            # When an answer is continued, what it waited for is sent as a user's message, because
            # there is no other role for it.
            text = _continuation(turn)
            earlier = prompt.turns
    if prompt.previous_response_id and is_stored:
        return {
            "previous_response_id": prompt.previous_response_id,
            "input": _input(text, images),
        }
    if earlier:
        text = f"{render_turns(earlier)}\n\n{text}"
        images = (*_pictures(earlier), *images)
        notes.append(HISTORY_AS_TEXT)
    return {"input": _input(text, images)}


def _continuation(turn: AssistantTurn) -> str:
    results = map(item_text, answered_calls(turn.result))
    return "\n\n".join(filter(None, [*results, replies_text(turn)])) or GO_ON


def _input(text: str, images: tuple[Image, ...]) -> Json:
    """Plain text if there is nothing else. The server only knows items of type ``text`` and
    ``image``."""
    if not images:
        return text
    pictures = [{"type": "image", "data_url": data_url(image)} for image in images]
    return [{"type": "text", "content": text}, *pictures]


def _pictures(turns: tuple[Turn, ...]) -> tuple[Image, ...]:
    return tuple(
        image for turn in turns if isinstance(turn, UserTurn) for image in turn.parts_of(Image)
    )


dialect = LmStudioDialect()
