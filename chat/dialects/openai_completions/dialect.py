"""Legacy completions: the conversation as one prompt, and the text that follows it."""

from collections.abc import Mapping
from typing import ClassVar

import msgspec
from msgspec import Struct

from chat.dialects.base import Prompt, Text, ToolDefinition
from chat.dialects.openai import request_members as wire
from chat.dialects.openai_chat.dialect import OpenAiChatDialect
from chat.dialects.openai_chat.parser import OpenAiChatParser, QuickChunk, Saying
from chat.dialects.openai_completions.prompt_templates import render, template_of
from chat.dialects.parameters import Parameter, Values, declared
from chat.events import Json, JsonObject
from chat.events.translation import gettext_noop

_DECLARED = declared("openai_completions/parameters.toml")

TEMPLATE_STOPS_LEFT_OUT = "Only the first {} of the template’s {} stop sequences were sent."

# Chat parameters that few servers know here.
_FEW_KNOW: Mapping[str, frozenset[str]] = {
    "reasoning_effort": frozenset(("fireworks",)),
    "response_format": frozenset(("fireworks", "vllm")),
}


class _QuickChoice(Struct, forbid_unknown_fields=True):
    text: str
    index: int = 0
    finish_reason: None = None
    logprobs: None = None


class _QuickChunk(QuickChunk, forbid_unknown_fields=True, kw_only=True):
    choices: tuple[_QuickChoice]


_quick_decoder = msgspec.json.Decoder(_QuickChunk)


class CompletionsParser(OpenAiChatParser):
    """Chunks whose choices have ``text`` where those of a chat have a delta. A server that answers
    as a chat is understood as well."""

    text_members: ClassVar[frozenset[str]] = OpenAiChatParser.text_members | {"text"}

    def delta_of(self, entry: JsonObject) -> Json:
        return {"content": entry["text"]} if entry.get("text") else super().delta_of(entry)

    def native_turn(self) -> JsonObject | None:
        """The text as it came, including marks of reasoning."""
        turn = super().native_turn()
        return {"text": turn.get("content") or ""} if turn else None

    def read_chunk(self, data: str) -> Saying | None:
        chunk = _quick_decoder.decode(data)
        entry = chunk.choices[0]
        choice = self.known_choice(chunk, entry.index)
        return None if choice is None else ((choice, "content"), entry.text)


class OpenAiCompletionsDialect(OpenAiChatDialect):
    name: ClassVar[str] = "openai_completions"
    label: ClassVar[str] = gettext_noop("OpenAI completions (legacy)")
    help: ClassVar[str] = gettext_noop(
        "OpenAI’s older API that continues a text, for base models and servers without a chat "
        "template. The conversation is sent as one prompt. The address usually ends in /v1."
    )
    takes_tools: ClassVar[bool] = False
    takes_parts = frozenset({Text})
    path: ClassVar[str] = "/completions"
    parser_type: ClassVar[type[OpenAiChatParser]] = CompletionsParser
    reports_progress: ClassVar[bool] = False
    parameters: ClassVar[tuple[Parameter, ...]] = _DECLARED.parameters
    options: ClassVar[tuple[Parameter, ...]] = _DECLARED.options

    def conversation(self, prompt: Prompt, options: Values, notes: list[str]) -> JsonObject:
        template, found = template_of(options)
        notes += found
        return {"prompt": render(template, prompt.turns, system=prompt.system)}

    def tool_members(
        self,
        tools: tuple[ToolDefinition, ...],
        options: Values,
        parameters: dict[str, object],
        notes: list[str],
    ) -> JsonObject:
        return {}

    def place_parameters(
        self, body: JsonObject, parameters: dict[str, object], options: Values
    ) -> list[str]:
        """The stop texts of the template come before those of the user."""
        stops = template_of(options)[0].stops
        room = max(0, wire.MOST_STOP_TEXTS - len(stops))
        texts, notes = wire.stop_texts(parameters.pop("stop", None), room=room)
        if stops or texts:
            body["stop"] = [*stops, *texts][: wire.MOST_STOP_TEXTS]
        if len(stops) > wire.MOST_STOP_TEXTS:
            notes.append(TEMPLATE_STOPS_LEFT_OUT.format(wire.MOST_STOP_TEXTS, len(stops)))
        shape, found = wire.response_format(
            parameters.pop("response_format", None), parameters.pop("response_schema", None)
        )
        if shape is not None:
            parameters["response_format"] = shape
        return [*notes, *found, *wire.place(body, parameters, options, few_know=_FEW_KNOW)]


dialect = OpenAiCompletionsDialect()
