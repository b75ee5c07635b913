"""Bitseek's chat: completions without a model and without ``[DONE]``, with a web search."""

import re
from collections.abc import Mapping
from typing import ClassVar

from chat.dialects.base import Prompt, Text, ToolDefinition
from chat.dialects.openai import request_members as wire
from chat.dialects.openai_chat.dialect import OpenAiChatDialect
from chat.dialects.openai_chat.messages import build_messages
from chat.dialects.openai_chat.parser import OpenAiChatParser
from chat.dialects.parameters import Parameter, Values, declared, not_sent
from chat.dialects.stream import objects_of, text_of
from chat.events import Cause, Ending, ErrorInfo, JsonObject
from chat.events.translation import gettext_noop

_DECLARED = declared("bitseek.toml")

# A usage chunk is sent right behind the finish reason; a server that has none keeps nobody waiting.
LATE_USAGE_SECONDS = 0.5

# Characters allowed in a header; a line break would start another header.
_HEADER_TEXT = re.compile(r"[!-~]{1,200}\Z")
_NOT_A_HEADER = gettext_noop(
    "The conversation ID from the server’s settings was left out: it can’t be sent in a header."
)

# Our names of the search parameters, and the server's.
_SEARCH: Mapping[str, str] = {
    "web_search": "mode",
    "web_search_results": "maxResults",
    "web_search_freshness": "freshness",
    "web_search_language": "lang",
}


class BitseekParser(OpenAiChatParser):
    """A finish reason is the end: neither ``[DONE]`` nor a closed connection is promised."""

    needs_done: ClassVar[bool] = False

    # Usage is that of the whole answer if it came with the finish reason, or after it.
    _is_usage_final = False

    def wait_seconds(self) -> float:
        """Usage may come after the finish reason."""
        return 0.0 if self._is_usage_final or self.error else LATE_USAGE_SECONDS

    def on_late(self, data: JsonObject) -> None:
        self._note_usage(data.get("usage"))
        self._is_usage_final = self._is_usage_final or bool(data.get("usage"))

    def start(self, model: str = "") -> None:
        """Starts with the endpoint's name, because the server names no model."""
        super().start(model or self.endpoint)

    def on_payload(self, event: str | None, data: JsonObject) -> None:
        super().on_payload(event, data)
        if self._has_finished():
            self.is_done = True
            self._is_usage_final = bool(data.get("usage"))

    def ending_after(self, cause: Cause, error: ErrorInfo | None) -> Ending | None:
        """Its documentation ends an answer by a finish reason "and/or" by closing the response, so
        a properly closed answer is complete. An answer that broke off has another cause."""
        if cause == "eof" and self.tracker.has_output() and not self.is_done:
            self.on_done()
        return super().ending_after(cause, error)


class BitseekDialect(OpenAiChatDialect):
    name: ClassVar[str] = "bitseek"
    label: ClassVar[str] = gettext_noop("Bitseek")
    help: ClassVar[str] = gettext_noop(
        "Bitseek’s chat API. The address ends in /v1. The server chooses the model, so add any name "
        "under Additional models."
    )
    models_path: ClassVar[str] = ""
    takes_parts = frozenset({Text})
    parser_type: ClassVar[type[OpenAiChatParser]] = BitseekParser
    parameters: ClassVar[tuple[Parameter, ...]] = _DECLARED.parameters
    options: ClassVar[tuple[Parameter, ...]] = _DECLARED.options

    def request_options(self, prompt: Prompt) -> dict[str, object]:
        """Settings of chat completions that are fixed for this server."""
        defaults = {option.name: option.default for option in OpenAiChatDialect.options}
        return {**defaults, **super().request_options(prompt), "stream_options": False}

    def members(self, prompt: Prompt, options: Values, notes: list[str]) -> JsonObject:
        messages = build_messages(prompt, options)
        return {
            "messages": [{**message, "content": _text(message)} for message in messages],
            # Harmless where it is not required, and an older version of the documentation requires
            # it.
            "stream": prompt.stream,
        }

    def tool_members(
        self,
        tools: tuple[ToolDefinition, ...],
        options: Values,
        parameters: dict[str, object],
        notes: list[str],
    ) -> JsonObject:
        chosen = {name: parameters.pop(ours, None) for ours, name in _SEARCH.items()}
        members: JsonObject = {"tools": wire.wire_tools(tools)} if tools else {}
        if chosen["mode"] == "off":
            others = {ours: chosen[name] for ours, name in _SEARCH.items() if name != "mode"}
            notes += not_sent(others, "the web search is off")
            return members
        search = {name: value for name, value in chosen.items() if value is not None}
        return {**members, "enableWebSearch": True, "webSearch": {"enabled": True, **search}}

    def request_headers(self, options: Values, notes: list[str]) -> dict[str, str]:
        identity = str(options.get("conversation_id") or "")
        if identity and not _HEADER_TEXT.match(identity):
            notes.append(_NOT_A_HEADER)
            return {}
        return {"X-Conversation-Id": identity} if identity else {}


def _text(message: JsonObject) -> str:
    """The message's text; other parts are not supported and left out."""
    content = message.get("content")
    if isinstance(content, list):
        parts = objects_of(message, "content")
        return "\n\n".join(text_of(part, "text") for part in parts if part.get("type") == "text")
    return content if isinstance(content, str) else ""


dialect = BitseekDialect()
